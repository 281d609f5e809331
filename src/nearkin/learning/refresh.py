"""Neighbourhoods searched again under the learned similarity (the paper's future work).

Learning in neighbourhoods says nothing of far rows, which can become similar to anything. Those
that did are found by the learned similarity itself, x'M against all rows, and are neighbours in
the next round, beside the plain nearest ones.
"""

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.index import NeighborIndex
from nearkin.neighbors.lists import without_self
from nearkin.voting.lists import padded

Array = NDArray[np.float32]

_BLOCK = 16_384


def refreshed(
    neighbors: NeighborLists, rows: Array, matrix: Array, k: int, index: str
) -> NDArray[np.int32]:
    """Each row's `k` most similar rows under M, and then those of its neighbours that are not.

    Examples
    --------
    >>> rows = np.array([[1, 0], [2, 1], [0, 3]], np.float32)
    >>> refreshed(np.array([[1], [0], [1]]), rows, np.eye(2, dtype=np.float32), 1, "exact").tolist()
    [[1, -1], [2, 0], [1, -1]]
    """
    lists = padded(neighbors)
    found = NeighborIndex(rows, index, metric="dot")
    k = min(k, len(rows) - 1)
    out = np.full((len(rows), k + lists.shape[1]), -1, np.int32)
    for lo in range(0, len(rows), _BLOCK):
        part = slice(lo, min(lo + _BLOCK, len(rows)))
        out[part] = _united(_similar(found, rows[part], matrix, k, lo), lists[part], lo, len(rows))
    return out


def _similar(
    found: NeighborIndex, block: Array, matrix: Array, k: int, first: int
) -> NDArray[np.integer]:
    """The `k` rows most similar to each of a block but itself, best first."""
    asked = np.empty((len(block), matrix.shape[1]), np.float32)
    multiply_into(asked, np.ascontiguousarray(block), matrix)
    near = found.nearest(k + 1, asked)[1]
    # A row need not be among those most similar to itself.
    return without_self(near, np.arange(first, first + len(block)))


def _united(
    near: NDArray[np.integer], lists: NDArray[np.integer], first: int, n: int
) -> NDArray[np.int32]:
    """Both lists of each row; what is in the first is -1 in the second."""
    row = np.arange(first, first + len(near), dtype=np.int64)[:, None] * n
    again = np.isin(row + lists, row + near) | (lists < 0)
    return np.concatenate([near, np.where(again, -1, lists)], axis=1).astype(np.int32)
