"""Everything there is to measure of a model on rows it has not seen."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import metrics
from nearkin.classifier import SoftVotingKNN

SHORT_LISTS = (1, 5, 10, 20)
TOP = (1, 3, 5)
# Baselines by the names people type, as `nearkin.reproduction.comparison` calls them.
BASELINES = {
    "retrieval": "Retrieval",
    "svm": "Linear SVM",
    "lmnn": "LMNN",
    "sl-ne": "SL-NE",
    "sl-de": "SL-DE",
}
QUICK = ("retrieval", "svm")


def assess(model: SoftVotingKNN, X: ArrayLike, y: ArrayLike) -> dict[str, Any]:
    """Accuracy, retrieval before and after re-ranking, confusions and calibration.

    Returns
    -------
    dict
        ``top_n`` and ``top_n_mean_per_class``; ``map_plain`` and ``map_learned``,
        ``precision_at_k_…`` and ``curves`` of the shortlists as found and re-ranked;
        ``calibration``; ``confusions``; ``per_class``. Plain values, ready for JSON.
    """
    truth = matched(y, model.classes_)
    shares = model.predict_proba(X)
    ranked = model.classes_[np.argsort(-shares, axis=1, kind="stable")[:, : max(TOP)]]
    right = ranked[:, 0] == truth
    known = np.isin(truth, model.classes_)
    result: dict[str, Any] = {
        "rows": len(truth),
        "rows_of_unknown_classes": int((~known).sum()),
        "classes": len(model.classes_),
        "training_rows": len(model.labels_),
    }
    for n in TOP:
        if n < len(model.classes_) or n == 1:
            result[f"top_{n}"] = metrics.top_n_accuracy(ranked, truth, n)
            result[f"top_{n}_mean_per_class"] = metrics.top_n_accuracy(ranked, truth, n, True)
    result["calibration"] = metrics.calibration(shares, right)
    result["calibration_error"] = result["calibration"]["error"]
    result["confusions"] = metrics.confusions(ranked[:, 0], truth)
    result["per_class"] = metrics.class_accuracies(ranked[:, 0], truth)
    return result | _retrieval(model, X, truth)


def matched(y: ArrayLike, classes: NDArray[Any]) -> NDArray[Any]:
    """Labels as the model has them; numbers that a text file holds as text become numbers.

    Examples
    --------
    >>> matched(["3", "1"], np.array([1, 2, 3])).tolist()
    [3, 1]
    """
    truth = np.asarray(y)
    if truth.dtype.kind in "US" and classes.dtype.kind in "iuf":
        with suppress(ValueError):  # then none of them is a class, which is said below
            truth = truth.astype(classes.dtype)
    elif truth.dtype.kind in "iu" and classes.dtype.kind == "U":
        truth = truth.astype(str)
    if not np.isin(truth, classes).any():
        raise ValueError(
            f"none of the labels ({', '.join(map(str, np.unique(truth)[:5]))} …) is a class of the "
            f"model ({', '.join(map(str, classes[:5]))} …); give rows of the classes it knows"
        )
    return truth


def _retrieval(model: SoftVotingKNN, X: ArrayLike, truth: NDArray[Any]) -> dict[str, Any]:
    labels = model.classes_[model.labels_]
    sizes = dict(zip(*np.unique(labels, return_counts=True)))
    totals = np.array([sizes.get(label, 0) for label in truth])
    result: dict[str, Any] = {"curves": {}}
    for name, rerank in (("plain", False), ("learned", True)):
        relevant = labels[model.kneighbors(X, rerank=rerank)[1]] == truth[:, None]
        precision, recall = metrics.precision_recall_curve(relevant, totals)
        result["curves"][name] = {"precision": precision.tolist(), "recall": recall.tolist()}
        result[f"map_{name}"] = metrics.mean_average_precision(relevant, totals)
        for k in SHORT_LISTS:
            if k <= relevant.shape[1]:
                result[f"precision_at_{k}_{name}"] = metrics.precision_at_k(relevant, k)
    return result


def check_baselines(names: Sequence[str]) -> None:
    """Refuse baselines that nobody knows."""
    for name in names:
        if name not in BASELINES:
            raise ValueError(
                f"baselines={name!r} is not known; use some of {', '.join(BASELINES)}, or none"
            )


def baselines(
    model: SoftVotingKNN,
    X: ArrayLike,
    y: ArrayLike,
    names: Sequence[str] = QUICK,
    time_limit: float | None = None,
) -> list[dict[str, Any]]:
    """Other methods on the model's own rows, preprocessed as the model does.

    Returns
    -------
    list of dict
        The fields of `nearkin.reproduction.comparison.Outcome`; None for an accuracy that the
        time limit prevented.
    """
    check_baselines(names)
    if not names:
        return []
    from nearkin.reproduction.comparison import METHODS, compare

    chosen = {BASELINES[name]: METHODS[BASELINES[name]] for name in names}
    rows, labels = model.database_, model.classes_[model.labels_]
    outcomes = compare(
        chosen, rows, labels, model._queries(X), matched(y, model.classes_), time_limit=time_limit
    )
    return [
        {key: None if value != value else value for key, value in asdict(outcome).items()}
        for outcome in outcomes
    ]
