"""CSLS: the mean similarity of each stored row to its neighbours (Conneau et al. 2018).

Hubs are similar to all rows near them and outvote the right ones. Subtracting a share of a row's
mean similarity to its neighbours from its score corrects that.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.native import listed_scores

Array = NDArray[np.float32]

CSLS_NEIGHBORS = 50
_BLOCK = 65_536


def matrix_for_csls(similarity: Any, csls: float) -> Array | None:
    """The matrix of a similarity; None for plain neighbours, which have none."""
    matrix = getattr(similarity, "matrix_", None)
    if matrix is None and similarity is not None:
        raise ValueError(
            f"csls={csls} needs a similarity with matrix_; {type(similarity).__name__} has none"
        )
    return matrix


def mean_similarity(
    rows: Array, lists: NDArray[np.int32], matrix: Array | None, scale: float = 1.0
) -> Array:
    """Mean similarity of a row's nearest rows, as queries, to that row.

    Without a `matrix`, similarity is `pair_closeness` of rows whose squared length is `scale`.
    """

    def scores(part: slice, near: NDArray[np.int32]) -> Array:
        if matrix is None:
            return listed_scores.pair_closeness(rows[part], rows, near, scale)
        return listed_scores.pair_scores(rows[part] @ matrix.T, rows, near)

    return listed_means(lists, scores)


def listed_means(
    lists: NDArray[np.int32], scores: Callable[[slice, NDArray[np.int32]], Array]
) -> Array:
    """The mean of what `scores` gives a part of the rows for the neighbours that are listed."""
    means = np.empty(len(lists), np.float32)
    for lo in range(0, len(lists), _BLOCK):
        part = slice(lo, lo + _BLOCK)
        near = lists[part, :CSLS_NEIGHBORS].astype(np.int32)
        near[near == np.arange(lo, lo + len(near))[:, None]] = -1
        given = scores(part, near)
        listed = np.isfinite(given)  # lists may have gaps
        total = np.where(listed, given, 0).sum(axis=1)
        means[part] = total / np.maximum(listed.sum(axis=1), 1)
    return means
