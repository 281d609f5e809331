"""Hubs of the vote: how similar each stored row is to everything around it."""

import numpy as np
from numpy.typing import NDArray

from nearkin.native import pairs

Array = NDArray[np.float32]

NEAR = 50  # rows that make the surroundings of a row
_BLOCK = 65_536


def surroundings(
    rows: Array, lists: NDArray[np.int32], matrix: Array | None, scale: float = 1.0
) -> Array:
    """Mean similarity of a row's nearest rows, as queries, to that row (after Conneau et al.).

    Without a `matrix`, similarity is `pair_closeness` of rows whose squared length is `scale`.
    """
    means = np.empty(len(rows), np.float32)
    for lo in range(0, len(rows), _BLOCK):
        part = slice(lo, lo + _BLOCK)
        near = lists[part, :NEAR].astype(np.int32)
        near[near == np.arange(lo, lo + len(near))[:, None]] = -1
        if matrix is None:
            scores = pairs.pair_closeness(rows[part], rows, near, scale)
        else:
            scores = pairs.pair_scores(rows[part] @ matrix.T, rows, near)
        there = np.isfinite(scores)  # lists may have gaps
        total = np.where(there, scores, 0).sum(axis=1)
        means[part] = total / np.maximum(there.sum(axis=1), 1)
    return means
