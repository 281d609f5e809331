"""Novelty: how little a query resembles the stored rows, under the learned similarity.

The cosine of xM and a row z is their similarity whatever their lengths. Its mean over the three
most similar rows told classes that were left out of training apart best, in the mean over two sets
(``python benchmarks/novelty.py --formulas``): better than more rows, than similarities that keep
the length of xM, than the similarity to class means and the share of the votes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

NEAREST = 3  # rows that a query is compared with
REJECTED = 0.05  # share of held-out rows, of known classes, that a threshold rejects


def novelty(scores: Array, lengths: Array) -> Array:
    """One less the mean cosine of each query and its most similar rows; infinite without any.

    Parameters
    ----------
    scores, lengths : (m, k) arrays
        Similarities of the listed rows, −inf where there is none, and what makes them cosines:
        the length of the transformed query times that of the row.

    Examples
    --------
    >>> novelty(np.float32([[0.9, 0.7, 0.2, 0.8]]), np.ones((1, 4), np.float32)).round(3)
    array([0.2], dtype=float32)
    """
    order = _most_similar(scores)
    best, lengths = (np.take_along_axis(a, order, axis=1) for a in (scores, lengths))
    listed = np.isfinite(best)
    cosines = np.where(listed, best, 0) / np.where(lengths > 0, lengths, 1)
    count = listed.sum(axis=1)
    mean = cosines.sum(axis=1) / np.maximum(count, 1)
    return np.where(count > 0, 1 - mean, np.inf).astype(np.float32)


def listed_novelty(
    similarity: Any, queries: Array, rows: Array, lists: NDArray[np.int32], scores: Array,
    scale: float,
) -> Array:  # fmt: skip
    """Novelty of queries among the rows listed for them, whose similarities are `scores`.

    Without a similarity it is the mean of ``d² / (2·scale)``, which for rows of unit length is one
    less their cosine. An object that cannot transform a query has its similarities taken as they
    are.
    """
    order = _most_similar(scores)
    best, near = np.take_along_axis(scores, order, 1), np.take_along_axis(lists, order, 1)
    lengths = np.full(best.shape, scale, np.float32)
    if hasattr(similarity, "transform_query"):
        lengths = _length(similarity.transform_query(queries))[:, None] * np.stack(
            [_length(rows[column]) for column in near.T], axis=1
        )
    return novelty(best, lengths)


def threshold(novelties: Array) -> float | None:
    """What all but a small share of held-out rows stay below; None without any."""
    known = novelties[np.isfinite(novelties)]
    return float(np.quantile(known, 1 - REJECTED)) if len(known) else None


def _most_similar(scores: Array) -> NDArray[np.int64]:
    return np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST]


def _length(rows: Array) -> Array:
    return np.linalg.norm(rows, axis=1)
