"""Measures of classification and retrieval: pure functions of arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def top_n_accuracy(
    ranked: ArrayLike, truth: ArrayLike, n: int = 1, per_class: bool = False
) -> float:
    """Share of rows whose label is among the first `n` guesses.

    Parameters
    ----------
    ranked : (m, ≥n) array of labels, best guess first
    truth : (m,) array of labels
    per_class : bool
        The mean of the classes' accuracies instead of that of the rows.

    Examples
    --------
    >>> top_n_accuracy([["a", "b"], ["b", "a"]], ["a", "a"], n=1)
    0.5
    >>> top_n_accuracy([["a", "b"], ["b", "a"]], ["a", "a"], n=2)
    1.0
    """
    guesses, labels = np.asarray(ranked), np.asarray(truth)
    if guesses.ndim != 2 or len(guesses) != len(labels) or not 1 <= n <= guesses.shape[1]:
        raise ValueError(
            f"ranked has shape {guesses.shape} for {len(labels)} labels and n={n}; "
            f"({len(labels)}, n or more) is expected"
        )
    right = (guesses[:, :n] == labels[:, None]).any(axis=1)
    return _mean(right, labels, per_class)


def _mean(right: NDArray[np.bool_], labels: NDArray[Any], per_class: bool) -> float:
    if not per_class:
        return float(right.mean())
    classes, code = np.unique(labels, return_inverse=True)
    return float((np.bincount(code, right) / np.bincount(code)).mean()) if len(classes) else 0.0


def confusions(predicted: ArrayLike, truth: ArrayLike, most: int = 10) -> list[dict[str, Any]]:
    """The pairs of classes most often taken for one another, with counts and shares.

    Examples
    --------
    >>> confusions(["b", "b", "a"], ["a", "a", "a"])
    [{'truth': 'a', 'predicted': 'b', 'count': 2, 'share': 0.6666666666666666}]
    """
    guesses, labels = np.asarray(predicted), np.asarray(truth)
    wrong = guesses != labels
    pairs, counts = np.unique(
        np.stack([labels[wrong], guesses[wrong]], axis=1), axis=0, return_counts=True
    )
    sizes = dict(zip(*np.unique(labels, return_counts=True)))
    order = np.argsort(-counts, kind="stable")[:most]
    return [
        {
            "truth": pairs[i, 0].item(),
            "predicted": pairs[i, 1].item(),
            "count": int(counts[i]),
            "share": float(counts[i] / sizes[pairs[i, 0]]),
        }
        for i in order
    ]


def class_accuracies(predicted: ArrayLike, truth: ArrayLike) -> list[dict[str, Any]]:
    """How many rows each class has, and the share of them that is right.

    Examples
    --------
    >>> class_accuracies(["a", "b", "b"], ["a", "a", "b"])
    [{'class': 'a', 'rows': 2, 'accuracy': 0.5}, {'class': 'b', 'rows': 1, 'accuracy': 1.0}]
    """
    labels = np.asarray(truth)
    classes, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    right = np.bincount(code, np.asarray(predicted) == labels, len(classes))
    return [
        {"class": name.item(), "rows": int(n), "accuracy": float(r / n)}
        for name, n, r in zip(classes, counts, right)
    ]


def precision_recall(relevant: ArrayLike, totals: ArrayLike) -> tuple[Floats, Floats]:
    """Precision and recall after the first 1, 2, … entries of ranked lists, averaged over queries.

    Parameters
    ----------
    relevant : (m, k) bool array
        Whether each entry of a list is of the query's kind, best ranked first.
    totals : (m,) array
        How many rows of the query's kind the database holds; queries without any are left out.

    Examples
    --------
    >>> precision, recall = precision_recall([[True, False, True]], [4])
    >>> np.round(precision, 2).tolist(), recall.tolist()
    ([1.0, 0.5, 0.67], [0.25, 0.25, 0.5])
    """
    hits, size = _counted(relevant, totals)
    found = np.cumsum(hits, axis=1)
    ranks = np.arange(1, hits.shape[1] + 1)
    return (found / ranks).mean(axis=0), (found / size[:, None]).mean(axis=0)


def mean_average_precision(relevant: ArrayLike, totals: ArrayLike) -> float:
    """Mean over queries of the average precision of their ranked lists.

    What a list of length k cannot reach does not count against it: a query's sum of precisions is
    divided by the smaller of k and the number of rows of its kind.

    Examples
    --------
    >>> mean_average_precision([[True, True, False]], [2])
    1.0
    """
    hits, size = _counted(relevant, totals)
    ranks = np.arange(1, hits.shape[1] + 1)
    precision = np.cumsum(hits, axis=1) / ranks
    reachable = np.minimum(size, hits.shape[1])
    return float(((precision * hits).sum(axis=1) / reachable).mean())


def precision_at(relevant: ArrayLike, k: int) -> float:
    """Share of the first `k` entries of the lists that are of the query's kind.

    Examples
    --------
    >>> precision_at([[True, False, True]], 2)
    0.5
    """
    hits = np.asarray(relevant, bool)
    if not 1 <= k <= hits.shape[1]:
        raise ValueError(f"k={k} must lie between 1 and the length of the lists, {hits.shape[1]}")
    return float(hits[:, :k].mean())


def _counted(relevant: ArrayLike, totals: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    hits, size = np.asarray(relevant, bool), np.asarray(totals)
    if hits.ndim != 2 or len(hits) != len(size):
        raise ValueError(
            f"relevant has shape {hits.shape} for {len(size)} totals; (m, k) is expected"
        )
    some = size > 0
    if not some.any():
        raise ValueError("totals is zero everywhere: no query has a row of its kind to find")
    return hits[some], size[some]


def calibration(
    probabilities: ArrayLike, predicted_right: ArrayLike, bins: int = 10
) -> dict[str, Any]:
    """How far the probability of the best guess is from how often it is right.

    Returns
    -------
    dict
        ``error``: the expected calibration error; ``bins``: for each used bin its mean
        ``confidence``, ``accuracy`` and ``count``.

    Examples
    --------
    >>> calibration([[0.9, 0.1], [0.9, 0.1]], [True, False])["error"]
    0.4
    """
    confidence = np.asarray(probabilities, float).max(axis=1)
    right = np.asarray(predicted_right, bool)
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    rows = [
        {
            "confidence": float(confidence[place == b].mean()),
            "accuracy": float(right[place == b].mean()),
            "count": int((place == b).sum()),
        }
        for b in np.unique(place)
    ]
    gaps = sum(abs(r["confidence"] - r["accuracy"]) * r["count"] for r in rows)
    return {"error": round(gaps / len(right), 12), "bins": rows}
