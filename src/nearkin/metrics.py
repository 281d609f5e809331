"""Metrics of classification and retrieval: pure functions of arrays."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.validation import expect
from nearkin.validation.parameters import checked

Floats = NDArray[np.float64]


@checked(n=expect.whole(1), per_class=expect.flag)
def top_n_accuracy(
    ranked: ArrayLike, truth: ArrayLike, n: int = 1, per_class: bool = False
) -> float:
    """Share of rows whose label is among the first `n` predictions.

    Parameters
    ----------
    ranked : (m, ≥n) array of labels, most likely first
    truth : (m,) array of labels
    per_class : bool
        Average over classes (balanced accuracy) instead of rows.

    Examples
    --------
    >>> top_n_accuracy([["a", "b"], ["b", "a"]], ["a", "a"], n=1)
    0.5
    >>> top_n_accuracy([["a", "b"], ["b", "a"]], ["a", "a"], n=2)
    1.0
    """
    guesses, labels = _matching("ranked", ranked, "truth", truth)
    if guesses.ndim != 2 or n > guesses.shape[1]:
        raise ValueError(
            f"ranked has shape {guesses.shape} and n={n}; ({len(labels)}, n or more) is expected: "
            "one list of labels per row"
        )
    correct = (guesses[:, :n] == labels[:, None]).any(axis=1)
    if not per_class:
        return float(correct.mean())
    _, code = np.unique(labels, return_inverse=True)
    return float((np.bincount(code, correct) / np.bincount(code)).mean())


@checked(most=expect.whole(0))
def confusions(predicted: ArrayLike, truth: ArrayLike, most: int = 10) -> list[dict[str, Any]]:
    """The most frequent entries of the confusion matrix off its diagonal, with counts and shares.

    Examples
    --------
    >>> confusions(["b", "b", "a"], ["a", "a", "a"])
    [{'truth': 'a', 'predicted': 'b', 'count': 2, 'share': 0.6666666666666666}]
    """
    guesses, labels = _labels(predicted, truth)
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
    """Number of rows and accuracy (recall) of each class.

    Examples
    --------
    >>> class_accuracies(["a", "b", "b"], ["a", "a", "b"])
    [{'class': 'a', 'rows': 2, 'accuracy': 0.5}, {'class': 'b', 'rows': 1, 'accuracy': 1.0}]
    """
    guesses, labels = _labels(predicted, truth)
    classes, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    correct = np.bincount(code, guesses == labels, len(classes))
    return [
        {"class": name.item(), "rows": int(n), "accuracy": float(c / n)}
        for name, n, c in zip(classes, counts, correct)
    ]


def precision_recall_curve(relevant: ArrayLike, totals: ArrayLike) -> tuple[Floats, Floats]:
    """Precision and recall at ranks 1, 2, … of retrieved lists, averaged over queries.

    Parameters
    ----------
    relevant : (m, k) bool array
        Whether each retrieved row is relevant to the query, best ranked first.
    totals : (m,) array
        Relevant rows in the database per query; queries without any are left out.

    Examples
    --------
    >>> precision, recall = precision_recall_curve([[True, False, True]], [4])
    >>> np.round(precision, 2).tolist(), recall.tolist()
    ([1.0, 0.5, 0.67], [0.25, 0.25, 0.5])
    """
    hits, size = _with_relevant_rows(relevant, totals)
    found = np.cumsum(hits, axis=1)
    ranks = np.arange(1, hits.shape[1] + 1)
    return (found / ranks).mean(axis=0), (found / size[:, None]).mean(axis=0)


def mean_average_precision(relevant: ArrayLike, totals: ArrayLike) -> float:
    """Mean over queries of the average precision of their ranked lists.

    For lists of length k, the sum of precisions is divided by the smaller of k and the number of
    relevant rows, so that a perfect list reaches one.

    Examples
    --------
    >>> mean_average_precision([[True, True, False]], [2])
    1.0
    """
    hits, size = _with_relevant_rows(relevant, totals)
    ranks = np.arange(1, hits.shape[1] + 1)
    precision = np.cumsum(hits, axis=1) / ranks
    attainable = np.minimum(size, hits.shape[1])
    return float(((precision * hits).sum(axis=1) / attainable).mean())


@checked(k=expect.whole(1))
def precision_at_k(relevant: ArrayLike, k: int) -> float:
    """Share of relevant rows among the first `k` of the lists.

    Examples
    --------
    >>> precision_at_k([[True, False, True]], 2)
    0.5
    """
    hits = _flags("relevant", _array("relevant", relevant))
    if hits.ndim != 2 or 0 in hits.shape or k > hits.shape[1]:
        raise ValueError(
            f"relevant has shape {hits.shape} and k={k}; (queries, k or more) is expected: lower k "
            "or retrieve longer lists"
        )
    return float(hits[:, :k].mean())


def _with_relevant_rows(
    relevant: ArrayLike, totals: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Drop queries that have no relevant rows in the database."""
    hits, size = _matching("relevant", relevant, "totals", totals)
    if hits.ndim != 2:
        raise ValueError(f"relevant has shape {hits.shape}; (queries, k) is expected")
    if size.dtype.kind not in "fiub":
        raise ValueError(f"totals holds {size.dtype}; numbers of relevant rows are expected")
    some = size > 0
    if not some.any():
        raise ValueError("totals is zero everywhere; at least one query with relevant rows is "
                         "needed")  # fmt: skip
    return _flags("relevant", hits)[some], size[some]


def _flags(name: str, values: NDArray[Any]) -> NDArray[np.bool_]:
    if values.dtype.kind == "O":  # as data frames hold them
        values = _array(name, values.tolist())
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {values.dtype}; True or False, or 1 or 0, is expected")
    return values.astype(bool)


def _array(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} holds lists of different lengths; an array is expected: lists of one length"
        ) from None
    if np.ma.is_masked(values) or (array.dtype.kind in "fc" and np.isnan(array).any()):
        raise ValueError(f"{name} contains NaN or masked entries; drop those rows or fill them in")
    return array


def _labels(predicted: ArrayLike, truth: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two flat arrays of labels that can be compared and sorted."""
    guesses, labels = _matching("predicted", predicted, "truth", truth)
    if guesses.ndim != 1:
        raise ValueError(f"predicted has shape {guesses.shape}; one label per row is expected")
    objects = "O" in (guesses.dtype.kind, labels.dtype.kind)  # of one type, as in a data frame
    if objects and len({type(label) for a in (guesses, labels) for label in a.tolist()}) == 1:
        guesses, labels = np.array(guesses.tolist()), np.array(labels.tolist())
    kinds = {"b" if a.dtype.kind in "biuf" else a.dtype.kind for a in (guesses, labels)}
    if len(kinds) > 1 or "O" in kinds:
        raise ValueError(
            f"predicted holds {guesses.dtype} and truth {labels.dtype}; labels of one type, all "
            "numbers or all text, are expected"
        )
    return guesses, labels


def _matching(
    name: str, values: ArrayLike, other_name: str, others: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two arrays with one entry per row each, and at least one row; `others` is flat."""
    a, b = _array(name, values), _array(other_name, others)
    if b.ndim != 1 or a.ndim == 0 or len(a) != len(b) or len(b) == 0:
        raise ValueError(
            f"{name} has shape {a.shape} and {other_name} has shape {b.shape}; one entry of each "
            "per row, and at least one row, is expected"
        )
    return a, b


@checked(bins=expect.whole(1, 1_000_000))
def calibration(probabilities: ArrayLike, correct: ArrayLike, bins: int = 10) -> dict[str, Any]:
    """Expected calibration error: the gap between confidence and accuracy, over bins.

    Parameters
    ----------
    probabilities : (m, classes) array
    correct : (m,) bool array
        Whether the most likely class is the true one.

    Returns
    -------
    dict
        ``error``; ``bins``: mean ``confidence``, ``accuracy`` and ``count`` of each non-empty bin.

    Examples
    --------
    >>> calibration([[0.9, 0.1], [0.9, 0.1]], [True, False])["error"]
    0.4
    """
    shares, right = _matching("probabilities", probabilities, "correct", correct)
    right = _flags("correct", right)
    if shares.ndim != 2 or 0 in shares.shape or shares.dtype.kind not in "fiub":
        raise ValueError(
            f"probabilities has shape {shares.shape} and type {shares.dtype}; numbers of shape "
            "(rows, classes) are expected"
        )
    if not ((shares >= 0) & (shares < 1.001)).all():  # rounded
        raise ValueError("probabilities holds numbers outside 0 to 1; give shares of the votes")
    confidence = shares.max(axis=1).astype(float)
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
