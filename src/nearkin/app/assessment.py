"""Accuracy, retrieval, confusion and calibration of a model on test rows."""

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import metrics
from nearkin.app.labels import match_labels

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN

SHORT_LISTS = (1, 5, 10, 20)
TOP = (1, 3, 5)


def assess(
    model: "SoftVotingKNN", X: ArrayLike, y: ArrayLike, raw: "SoftVotingKNN | None" = None
) -> dict[str, Any]:
    """Accuracy, retrieval, confusions and calibration; beside `raw`, what the user has today.

    Parameters
    ----------
    raw : classifier, optional
        By raw cosine, fitted on the model's rows as they were given: see `baselines.raw_cosine`.

    Returns
    -------
    dict
        ``top_n`` and ``top_n_mean_per_class``; ``map_learned``, ``precision_at_k_learned`` and
        ``curves`` of the model's neighbours; ``calibration``; ``confusions``; ``per_class``. With
        `raw`, ``top_1_raw`` and the same of its neighbours. Plain values, ready for JSON.
    """
    truth = match_labels(y, model.classes_)
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
    if raw is not None:
        result["top_1_raw"] = float((raw.predict(X) == truth).mean())
    found = {name: near for name, (_, near) in neighbors(model, X, raw).items()}
    return result | _retrieval(found, model.classes_[model.labels_], truth)


def neighbors(
    model: "SoftVotingKNN", X: ArrayLike, raw: "SoftVotingKNN | None", n: int | None = None
) -> dict[str, tuple[NDArray[np.float32], NDArray[np.int32]]]:
    """Similarities and rows by raw cosine, if that is known, and as the model ranks them."""
    n = n or min(model.shortlist_length, len(model.labels_))
    found = {} if raw is None else {"raw": copy(raw).set_params(n_neighbors=n).kneighbors(X)}
    return found | {"learned": model.kneighbors(X, n)}


def _retrieval(
    found: dict[str, NDArray[np.int32]], labels: NDArray[Any], truth: NDArray[Any]
) -> dict[str, Any]:
    sizes = dict(zip(*np.unique(labels, return_counts=True)))
    totals = np.array([sizes.get(label, 0) for label in truth])
    result: dict[str, Any] = {"curves": {}}
    for name, indices in found.items():
        relevant = labels[indices] == truth[:, None]
        precision, recall = metrics.precision_recall_curve(relevant, totals)
        result["curves"][name] = {"precision": precision.tolist(), "recall": recall.tolist()}
        result[f"map_{name}"] = metrics.mean_average_precision(relevant, totals)
        for k in SHORT_LISTS:
            if k <= relevant.shape[1]:
                result[f"precision_at_{k}_{name}"] = metrics.precision_at_k(relevant, k)
    return result
