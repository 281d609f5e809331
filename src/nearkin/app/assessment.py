"""Accuracy, retrieval, confusion and calibration of a model on test rows."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import metrics
from nearkin.app.labels import match_labels

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN

SHORT_LISTS = (1, 5, 10, 20)
TOP = (1, 3, 5)


def assess(model: "SoftVotingKNN", X: ArrayLike, y: ArrayLike) -> dict[str, Any]:
    """Accuracy, retrieval before and after re-ranking, confusions and calibration.

    Returns
    -------
    dict
        ``top_n`` and ``top_n_mean_per_class``; ``map_plain`` and ``map_learned``,
        ``precision_at_k_…`` and ``curves`` of the shortlists as found and re-ranked;
        ``calibration``; ``confusions``; ``per_class``. Plain values, ready for JSON.
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
    return result | _retrieval(model, X, truth)


def _retrieval(model: "SoftVotingKNN", X: ArrayLike, truth: NDArray[Any]) -> dict[str, Any]:
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
