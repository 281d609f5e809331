"""Classifiers compared on the same rows, by the same measures.

    outcomes = compare(methods, X, y, queries, truth)

Rows are used as they are given. A method selects its hyperparameters (C, the vote, …) on training
rows, within the seconds reported.
"""

import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.app.memory_watch import MemoryWatch, release_memory
from nearkin.metrics import top_n_accuracy
from nearkin.validation import expect
from nearkin.validation.parameters import checked

Factory = Callable[[int], Any]
"""A function from the seed to an unfitted classifier."""

TOP = 3


@dataclass(frozen=True)
class Outcome:
    """Accuracy of a method on test rows, and its cost.

    Accuracies lie between 0 and 1; they are NaN for a method that reached the time limit.
    """

    name: str
    top1: float
    top3: float
    per_class: float  # mean of the classes' top-1 accuracies
    per_class_top3: float
    seconds: float  # of fit, model selection included
    predict_seconds: float
    peak_bytes: int | None  # growth of the process's anonymous memory; None without /proc
    settings: dict[str, Any] = field(default_factory=dict)  # selected hyperparameters


@checked(time_limit=expect.optional(expect.number(above=0)), verbose=expect.verbosity)
def compare(
    methods: Mapping[str, Factory],
    X: ArrayLike,
    y: ArrayLike,
    queries: ArrayLike,
    truth: ArrayLike,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    verbose: int = 0,
) -> list[Outcome]:
    """Fit each method on `X` and `y` and measure it on `queries` and `truth`.

    Parameters
    ----------
    methods : mapping of names to factories
        A factory is called with the seed and returns a classifier with `fit` and one of
        `predict_top`, `predict_proba` and `decision_function`.
    X, y : (n, D) training rows and their labels
    queries, truth : (m, D) test rows and their labels
    seed : int
    time_limit : float, optional
        Seconds for one method, fit and prediction together. A method that exceeds it is stopped
        when its current compiled call returns, and reported without accuracies. Needs the main
        thread and a system with SIGALRM.
    verbose : int
        1 prints a line for each finished method.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearkin.app.baselines import BASELINES
    >>> X, y = load_digits(return_X_y=True)
    >>> methods = {name: BASELINES[name] for name in ("lda", "cosine")}
    >>> lda, plain = compare(methods, X[:1000], y[:1000], X[1000:], y[1000:])
    >>> lda.name, plain.top1 > 0.9, plain.top3 >= plain.top1
    ('lda', True, True)
    """
    if not len(methods):
        raise ValueError("methods is empty; give at least one name and factory")
    if len(np.asarray(truth)) != len(queries):  # type: ignore[arg-type]
        raise ValueError(
            f"truth has {len(np.asarray(truth))} labels for {len(queries)} queries; "  # type: ignore[arg-type]
            "give one label per query"
        )
    outcomes = []
    for name, make in methods.items():
        outcomes.append(_measure(name, make(seed), X, y, queries, truth, time_limit))
        if verbose:
            print(_line(outcomes[-1]), flush=True)
    return outcomes


def _measure(
    name: str, model: Any, X: Any, y: Any, queries: Any, truth: Any, limit: float | None
) -> Outcome:
    release_memory()
    start = fitted = time.perf_counter()
    ranked = None
    with MemoryWatch() as memory, suppress(_TimeLimit), _alarm(limit), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # row limits and the like are part of `settings`
        model.fit(X, y)
        fitted = time.perf_counter()
        ranked = _ranked(model, queries)
    ended = time.perf_counter()
    is_fitted = fitted > start
    stopped = {"stopped": f"after the time limit of {limit} s"}
    return Outcome(
        name,
        **_accuracies(ranked, truth),
        seconds=(fitted if is_fitted else ended) - start,
        predict_seconds=ended - fitted if is_fitted else 0.0,
        peak_bytes=memory.growth,
        settings=stopped if ranked is None else selected(model),
    )


def _accuracies(ranked: NDArray[Any] | None, truth: Any) -> dict[str, float]:
    """The four accuracies of ranked guesses; NaN where there are none."""
    names = "top1", "top3", "per_class", "per_class_top3"
    if ranked is None:
        return dict.fromkeys(names, float("nan"))
    top = ranked.shape[1]  # `TOP`, or the number of classes
    kinds = (1, False), (top, False), (1, True), (top, True)
    return {key: top_n_accuracy(ranked, truth, n, mean) for key, (n, mean) in zip(names, kinds)}


def _ranked(model: Any, queries: Any) -> NDArray[Any]:
    """The `TOP` best guesses of any classifier, best first."""
    n = min(TOP, len(model.classes_))
    if hasattr(model, "predict_top"):
        return model.predict_top(queries, n)
    scores = getattr(model, "predict_proba", getattr(model, "decision_function", None))
    if scores is None:
        raise TypeError(
            f"{type(model).__name__} has none of predict_top, predict_proba and "
            "decision_function; one is needed to rank the classes"
        )
    values = np.asarray(scores(queries))
    if values.ndim == 1:
        values = np.stack([-values, values], axis=1)
    return model.classes_[np.argsort(-values, axis=1, kind="stable")[:, :n]]


# Fitted attributes that report what a method selected.
_SELECTED = ("C_", "alpha_", "rank_", "step_size_", "n_iter_", "n_steps_", "n_rows_", "n_epochs_")


def selected(model: Any) -> dict[str, Any]:
    """The hyperparameters that a fitted method selected, as plain values.

    Examples
    --------
    >>> from nearkin import SoftVotingKNN
    >>> selected(SoftVotingKNN(None, vote="power").fit([[0.0], [1.0]] * 50, [0, 1] * 50))
    {'vote': 'power 4'}
    """
    best = getattr(model, "best_estimator_", model)
    chosen = {key.split("__")[-1]: v for key, v in getattr(model, "best_params_", {}).items()}
    attributes = {name.rstrip("_"): getattr(best, name, None) for name in _SELECTED}
    found = _plain(chosen) | _plain(attributes)
    if hasattr(best, "vote_"):
        found["vote"] = f"{best.vote_.kind} {best.vote_.sharpness:.3g}"
    learner = getattr(best, "similarity_", None)
    if learner is not None:
        found |= selected(learner) | {"similarity": " ".join(repr(learner).split())}
    return found


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and text only, numpy scalars as Python's."""
    items = ((k, v.item() if isinstance(v, np.generic) else v) for k, v in values.items())
    return {key: value for key, value in items if isinstance(value, int | float | str)}


def _line(o: Outcome) -> str:
    memory = "–" if o.peak_bytes is None else f"{o.peak_bytes / 2**20:.0f} MiB"
    settings = "  ".join(f"{key}={value}" for key, value in o.settings.items())
    seconds = f"{o.seconds:.1f} + {o.predict_seconds:.1f} s"
    return f"{o.name}: {100 * o.top1:.2f} / {100 * o.top3:.2f} %, {seconds}, {memory}  {settings}"


class _TimeLimit(Exception):
    """Raised inside a method that exceeds its time limit."""


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        raise ValueError(
            f"time_limit={seconds} needs the main thread and a system with SIGALRM; leave it out"
        )

    def stop(*_: Any) -> None:
        raise _TimeLimit

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
