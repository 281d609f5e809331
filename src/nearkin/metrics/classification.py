"""Measures of classification: accuracy, confusions, calibration."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.metrics.inputs import as_flags, matching
from nearkin.validation import expect
from nearkin.validation.parameters import checked


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
    guesses, labels = matching("ranked", ranked, "truth", truth)
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
    shares, right = matching("probabilities", probabilities, "correct", correct)
    right = as_flags("correct", right)
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


def _labels(predicted: ArrayLike, truth: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two flat arrays of labels that can be compared and sorted."""
    guesses, labels = matching("predicted", predicted, "truth", truth)
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
