"""Precomputed lists of the stored rows that vote on each query: an array, or a graph."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.neighborhoods import (
    NeighborLists,
    as_csr,
    as_graph,
    as_lists,
    check_lists,
    check_range,
    refuse_masked,
)


def checked_lists(neighbors: NeighborLists, n: int) -> NeighborLists:
    """Precomputed lists of the stored rows, checked also where no learner uses them."""
    neighbors = as_lists(neighbors, n)
    check_lists(neighbors, n)
    if 0 in np.shape(neighbors):
        raise ValueError(
            f"neighbors has shape {np.shape(neighbors)}; at least one neighbour per row is expected"
        )
    return neighbors


def as_voters(neighbors: NeighborLists, m: int, n: int) -> Any:
    """Precomputed lists of `m` queries among `n` stored rows, as an array or a CSR array."""
    if sparse.issparse(neighbors):
        graph = as_csr(neighbors, m, n)
        check_range(graph.indices, 0, n, "a graph omits missing neighbours", "stored rows")
        return graph
    refuse_masked(neighbors)
    try:
        lists = np.asarray(neighbors)
    except ValueError:
        raise ValueError(
            "neighbors holds lists of different lengths; pad them with -1, or give a CSR graph"
        ) from None
    if lists.ndim != 2 or len(lists) != m or lists.shape[1] == 0:
        raise ValueError(
            f"neighbors has shape {lists.shape}; one list for each of the {m} queries is expected, "
            f"an ({m}, k) array or a CSR graph"
        )
    check_range(lists, -1, n, "-1 stands for no neighbour", "stored rows")
    return lists


def longest(lists: Any) -> int:
    """The length of the longest list."""
    return int(np.diff(lists.indptr).max()) if sparse.issparse(lists) else lists.shape[1]


def padded(lists: Any) -> NDArray[np.int32]:
    """Lists as an array; those of a graph, which differ in length, are padded with −1."""
    if not sparse.issparse(lists):
        return np.ascontiguousarray(lists, np.int32)
    counts = np.diff(lists.indptr)[:, None]
    array = np.full((len(counts), max(1, counts.max(initial=0))), -1, np.int32)
    array[np.arange(array.shape[1]) < counts] = lists.indices
    return array


def lists_of(neighbors: NeighborLists, rows: NDArray[np.integer], n: int) -> NDArray[np.int32]:
    """The neighbours of `rows` but themselves as an array, padded with −1."""
    array = isinstance(neighbors, np.ndarray)
    lists = padded((neighbors if array else as_graph(neighbors, n))[rows])
    lists[lists == rows[:, None]] = -1  # a row must not vote for itself
    return lists
