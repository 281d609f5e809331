"""Everything there is to measure of a model on rows it has not seen, as numbers and as a page."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import evaluation, report
from nearkin.voting import SoftVotingKNN

SHORT_LISTS = (1, 5, 10)


def assess(model: SoftVotingKNN, X: ArrayLike, y: ArrayLike) -> dict[str, Any]:
    """Accuracy, retrieval before and after re-ranking, confusions and calibration."""
    truth = np.asarray(y)
    known = np.isin(truth, model.classes_)
    if not known.any():
        raise ValueError(
            f"none of the labels ({', '.join(map(str, np.unique(truth)[:5]))} …) is a class of the "
            f"model ({', '.join(map(str, model.classes_[:5]))} …)"
        )
    shares = model.predict_proba(X)
    ranked = model.classes_[np.argsort(-shares, axis=1, kind="stable")[:, :5]]
    right = ranked[:, 0] == truth
    result: dict[str, Any] = {"rows": len(truth), "rows_of_unknown_classes": int((~known).sum())}
    for n in (1, 3, 5):
        if n <= ranked.shape[1]:
            result[f"top_{n}"] = evaluation.top_n_accuracy(ranked, truth, n)
            result[f"top_{n}_mean_per_class"] = evaluation.top_n_accuracy(ranked, truth, n, True)
    result["calibration"] = evaluation.calibration(shares, right)
    result["calibration_error"] = result["calibration"]["error"]
    result["confusions"] = evaluation.confusions(ranked[:, 0], truth)
    return result | _retrieval(model, X, truth)


def _retrieval(model: SoftVotingKNN, X: ArrayLike, truth: NDArray[Any]) -> dict[str, Any]:
    labels = model.classes_[model.labels_]
    sizes = dict(zip(*np.unique(labels, return_counts=True)))
    totals = np.array([sizes.get(label, 0) for label in truth])
    result: dict[str, Any] = {"curves": {}}
    for name, rerank in (("plain", False), ("learned", True)):
        relevant = labels[model.kneighbors(X, rerank=rerank)[0]] == truth[:, None]
        precision, recall = evaluation.precision_recall(relevant, totals)
        result["curves"][name] = {"precision": precision.tolist(), "recall": recall.tolist()}
        result[f"map_{name}"] = evaluation.mean_average_precision(relevant, totals)
        for k in SHORT_LISTS:
            if k <= relevant.shape[1]:
                result[f"precision_at_{k}_{name}"] = evaluation.precision_at(relevant, k)
    return result


def write_report(path: Path, result: dict[str, Any], title: str, extra: str = "") -> None:
    """One self-contained page: the numbers, the curves, the confusions."""
    numbers = [(k.replace("_", " "), f"{v:.4f}") for k, v in result.items() if isinstance(v, float)]
    confused = [
        (c["truth"], c["predicted"], c["count"], f"{c['share']:.0%}") for c in result["confusions"]
    ]
    parts = [
        "<h2>Numbers</h2>",
        report.table(["measure", "value"], numbers),
        "<h2>Retrieval</h2>",
        report.figure(_curves(result), "precision against recall"),
        "<h2>Most confused classes</h2>",
        report.table(["truth", "taken for", "rows", "share of the class"], confused),
        extra,
    ]
    report.write_page(path, title, f"{result['rows']:,} rows", parts)


def _curves(result: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    plot = Figure(figsize=(10, 3.8))
    left, right = plot.subplots(1, 2)
    for name, curve in result["curves"].items():
        left.plot(curve["recall"], curve["precision"], label=name)
    left.set(xlabel="recall", ylabel="precision", title="re-ranked shortlists")
    left.legend()
    bins = result["calibration"]["bins"]
    right.plot([0, 1], [0, 1], color="grey", lw=1, ls=":")
    right.plot([b["confidence"] for b in bins], [b["accuracy"] for b in bins], "o-")
    right.set(xlabel="share of the votes", ylabel="how often right", title="calibration")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return plot
