"""nearkin beside what it is compared with: the same rows, the same measures.

    outcomes = compare(METHODS, X, y, queries, truth)
    print(table(outcomes))

Rows are taken as they are. Those of unit length are expected, as in the paper: give raw features
through one `nearkin.Preprocess`, fitted on the training rows, so that all methods see the same.
What a method needs chosen it chooses on held-out training rows, within the seconds reported:

==========  ====================================================================================
Linear SVM  C, on a fifth of the rows held out
Retrieval   the vote, on a tenth held out, as for all that follow
LMNN        when to stop; three targets, μ = ½, at most 10,000 rows
NCM         step size, rank, when to stop, on a tenth held out
kNN metric  the same; three dynamic targets
OASIS       C, when to stop, on a tenth held out
NCA         rank, 32 or 128; 50 iterations, at most 4,000 rows
SL-NE       the best of `LEARNERS`: rule, neighbours, step size, temperature, epochs
SL-DE       three or ten blocks of principal directions, and three of `LEARNERS`
==========  ====================================================================================
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
from numpy.typing import ArrayLike

from nearkin.classifier import SoftVotingKNN
from nearkin.metrics import top_n_accuracy
from nearkin.reproduction.baselines import LMNN, NCA, NCM, OASIS, KNNMetric, LinearSVM
from nearkin.reproduction.best_of import BestOf
from nearkin.reproduction.watching import Watch, give_back
from nearkin.slde import SLDE
from nearkin.slne import SLNE
from nearkin.validation.parameters import check_number

Factory = Callable[[int], Any]

VOTERS = 100
# What has been best on one kind of data or another (docs/architecture.md, README).
LEARNERS: list[dict[str, Any]] = [
    {"rule": "softmax", "n_neighbors": 50, "temperature": 0.05, "step_size": 0.5, "max_epochs": 8},
    {"rule": "softmax", "n_neighbors": 50, "temperature": 0.02, "step_size": 0.5, "max_epochs": 8},
    {"rule": "softmax", "n_neighbors": 100, "temperature": 0.1, "step_size": 0.5, "max_epochs": 2},
    {"rule": "hardest", "n_neighbors": 400, "step_size": 0.2, "max_epochs": 10},
    {"rule": "all", "n_neighbors": 400, "step_size": 2.0, "max_epochs": 3},
]


@dataclass(frozen=True)
class Outcome:
    """What a method achieved on rows it had not seen, and what it took.

    Accuracies lie between 0 and 1 and are NaN for a method that was stopped.
    """

    name: str
    top1: float
    top3: float
    per_class: float  # mean of the classes' top-1 accuracies
    per_class_top3: float
    seconds: float  # of fit, with all choosing
    predict_seconds: float
    peak_bytes: int | None  # growth of this process's own memory; None where /proc is missing
    settings: dict[str, Any] = field(default_factory=dict)  # what was chosen


def _learner(settings: dict[str, Any]) -> SLNE:
    return SLNE(**settings, tol=0)


def _voting(similarity: Any, seed: int | None = None) -> SoftVotingKNN:
    return SoftVotingKNN(similarity, n_neighbors=VOTERS, random_state=seed)


def _slne(seed: int) -> BestOf:
    return BestOf([_voting(_learner(s)) for s in LEARNERS], random_state=seed)


def _slde(seed: int) -> BestOf:
    ensembles = [SLDE(_learner(LEARNERS[i]), n_members=n) for n in (3, 10) for i in (0, 3, 4)]
    return BestOf([_voting(ensemble) for ensemble in ensembles], random_state=seed)


METHODS: dict[str, Factory] = {
    "Linear SVM": lambda seed: LinearSVM(random_state=seed),
    "Retrieval": lambda seed: _voting(None, seed),
    "LMNN": lambda seed: _voting(LMNN(max_rows=10_000, early_stopping=True), seed),
    "NCM": lambda seed: NCM(random_state=seed),
    "kNN metric": lambda seed: _voting(KNNMetric(), seed),
    "OASIS": lambda seed: _voting(OASIS(), seed),
    "NCA": lambda seed: BestOf([_voting(NCA(32)), _voting(NCA(128))], random_state=seed),
    "SL-NE": _slne,
    "SL-DE": _slde,
}


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
        A factory is called with the seed and gives a classifier with `fit` and `predict_top`
        (or `predict_proba`, or `decision_function`): an entry of `METHODS`, or your own.
    X, y : (n, D) rows to learn from and their labels
    queries, truth : (m, D) rows to judge by and their labels
    seed : int
    time_limit : float, optional
        Seconds a method may take, fit and prediction together; a longer one is stopped (at the
        next opportunity: a compiled call is not broken off) and reported without accuracies.
        Needs the main thread of a system with alarms.
    verbose : int
        1 prints a line for each method as it ends.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearkin import Preprocess
    >>> X, y = load_digits(return_X_y=True)
    >>> X = Preprocess(whitening=0.25).fit_transform(X)
    >>> some = {name: METHODS[name] for name in ("Linear SVM", "Retrieval")}
    >>> svm, plain = compare(some, X[:1000], y[:1000], X[1000:], y[1000:])
    >>> svm.name, plain.top1 > 0.9, plain.top3 >= plain.top1
    ('Linear SVM', True, True)
    """
    if not len(methods):
        raise ValueError("methods is empty; give at least one, such as METHODS['Retrieval']")
    if time_limit is not None:
        check_number("time_limit", time_limit, 0, open_low=True)
    if len(np.asarray(truth)) != len(queries):  # type: ignore[arg-type]
        raise ValueError(
            f"truth has {len(np.asarray(truth))} labels for {len(queries)} queries; "  # type: ignore[arg-type]
            "one label a query is expected"
        )
    outcomes = []
    for name, make in methods.items():
        outcomes.append(_measured(name, make(seed), X, y, queries, truth, time_limit))
        if verbose:
            print(_line(outcomes[-1], len(max(methods, key=len))), flush=True)
    return outcomes


def _measured(
    name: str, model: Any, X: Any, y: Any, queries: Any, truth: Any, limit: float | None
) -> Outcome:
    give_back()
    began = fitted = time.perf_counter()
    ranked = None
    with Watch() as memory, suppress(_TimeIsUp), _alarm(limit), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a method says in its settings what it left out
        model.fit(X, y)
        fitted = time.perf_counter()
        ranked = _ranked(model, queries, 3)
    ended = time.perf_counter()
    accuracies = dict.fromkeys(("top1", "top3", "per_class", "per_class_top3"), float("nan"))
    settings: dict[str, Any] = {"stopped": f"after the time limit of {limit} s"}
    if ranked is not None:
        third = ranked.shape[1]
        accuracies = {
            "top1": top_n_accuracy(ranked, truth, 1),
            "top3": top_n_accuracy(ranked, truth, third),
            "per_class": top_n_accuracy(ranked, truth, 1, per_class=True),
            "per_class_top3": top_n_accuracy(ranked, truth, third, per_class=True),
        }
        settings = chosen(model)
    return Outcome(
        name,
        **accuracies,
        seconds=(fitted if fitted > began else ended) - began,
        predict_seconds=ended - fitted if fitted > began else 0.0,
        peak_bytes=memory.growth,
        settings=settings,
    )


def _ranked(model: Any, queries: Any, n: int) -> Any:
    """The best `n` guesses of any classifier."""
    n = min(n, len(model.classes_))
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


_CHOSEN = (
    "C_", "solver_", "rank_", "step_size_", "n_iter_", "n_steps_", "n_rows_", "n_epochs_",
)  # fmt: skip


def chosen(model: Any) -> dict[str, Any]:
    """What a fitted method has settled on, as plain values.

    Examples
    --------
    >>> chosen(SoftVotingKNN(vote="power").fit([[0.0], [1.0]] * 50, [0, 1] * 50))
    {'vote': 'power 4'}
    """
    model = getattr(model, "best_", model)
    found = {
        name.rstrip("_"): _plain(getattr(model, name)) for name in _CHOSEN if hasattr(model, name)
    }
    if hasattr(model, "vote_"):
        found["vote"] = f"{model.vote_.kind} {model.vote_.sharpness:.3g}"
    learner = getattr(model, "similarity_", None)
    if learner is not None:
        found |= chosen(learner)
        inner = getattr(learner, "learner", None) or learner
        if hasattr(inner, "rule"):
            names = ("rule", "n_neighbors", "step_size", "temperature", "max_epochs")
            found |= {name: getattr(inner, name) for name in names}
        if hasattr(learner, "n_members"):
            found["n_members"] = learner.n_members
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as a table in Markdown, accuracies in per cent.

    Examples
    --------
    >>> print(table([Outcome("Retrieval", 0.5, 0.75, 0.5, 0.75, 1.5, 0.25, 2**20)]))
    | method | top-1 % | top-3 % | per class % | per class top-3 % | fit s | predict s | MiB |
    |---|---|---|---|---|---|---|---|
    | Retrieval | 50.00 | 75.00 | 50.00 | 75.00 | 1.5 | 0.2 | 1 |
    """
    names = ["method", "top-1 %", "top-3 %", "per class %", "per class top-3 %", "fit s"]
    lines = [[*names, "predict s", "MiB"], ["---"] * 8, *map(_cells, outcomes)]
    return "\n".join(
        f"|{'|'.join(cells)}|" if cells[0] == "---" else f"| {' | '.join(cells)} |"
        for cells in lines
    )


def _cells(o: Outcome) -> list[str]:
    accuracies = (o.top1, o.top3, o.per_class, o.per_class_top3)
    shown = ["–" if np.isnan(a) else f"{100 * a:.2f}" for a in accuracies]
    memory = "–" if o.peak_bytes is None else f"{o.peak_bytes / 2**20:.0f}"
    return [o.name, *shown, f"{o.seconds:.1f}", f"{o.predict_seconds:.1f}", memory]


def _line(outcome: Outcome, width: int) -> str:
    name, top1, top3, *_, seconds, predicting, memory = _cells(outcome)
    text = "  ".join(f"{key}={value}" for key, value in outcome.settings.items())
    measured = f"{top1:>6} / {top3:>6}  {seconds:>7} + {predicting} s  {memory:>6} MiB"
    return f"{name:<{width}}  {measured}  {text}"


class _TimeIsUp(Exception):
    """Raised in a method that has taken too long."""


@contextmanager
def _alarm(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        raise ValueError(
            f"time_limit={seconds} needs the main thread and a system with alarms; leave it out"
        )

    def ring(*_: Any) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
