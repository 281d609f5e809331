"""Neighbourhoods: the symmetrised graph, each row's neighbours split into targets and impostors.

The only place that knows about ``i ∈ N_j ∨ j ∈ N_i``.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

# An (n, k) integer array, or a scipy CSR graph (whose types scipy does not publish).
NeighborLists: TypeAlias = Any


@dataclass(frozen=True)
class Neighborhoods:
    """A CSR graph in which every row lists its targets first and then its impostors.

    Attributes
    ----------
    indptr : (n + 1,) int64 array
        Row i's neighbours are ``indices[indptr[i]:indptr[i + 1]]``.
    indices : int32 array
    n_targets : (n,) int32 array
        How many of them, from the front, carry row i's label.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    n_targets: NDArray[np.int32]

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """The three arrays, as compiled code takes them."""
        return self.indptr, self.indices, self.n_targets

    @property
    def degrees(self) -> NDArray[np.int64]:
        """Neighbours per row, after symmetrising."""
        return np.diff(self.indptr)

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that have both a target and an impostor; no triplet exists for the others."""
        return (self.n_targets > 0) & (self.n_targets < self.degrees)

    def targets(self, i: int) -> NDArray[np.int32]:
        """Neighbours of row `i` with its label."""
        return self.indices[self.indptr[i] : self.indptr[i] + self.n_targets[i]]

    def impostors(self, i: int) -> NDArray[np.int32]:
        """Neighbours of row `i` with another label."""
        return self.indices[self.indptr[i] + self.n_targets[i] : self.indptr[i + 1]]


def neighborhoods(neighbors: NeighborLists, labels: NDArray[np.integer]) -> Neighborhoods:
    """Symmetrise `neighbors` and split each row's neighbours by label.

    Parameters
    ----------
    neighbors : (n, k) integer array or scipy CSR graph
        Row i's nearest rows; ``-1`` stands for none. Only the places of a graph's stored
        entries count, not their values. `Neighborhoods` made earlier are taken as they are.
    labels : (n,) integer array

    Examples
    --------
    >>> graph = neighborhoods([[1], [2], [1]], np.array([0, 0, 1]))
    >>> [(graph.targets(i).tolist(), graph.impostors(i).tolist()) for i in range(3)]
    [([1], []), ([0], [2]), ([], [1])]
    """
    if isinstance(neighbors, Neighborhoods) and len(neighbors.n_targets) == len(labels):
        return neighbors
    graph = as_graph(neighbors, len(labels))
    back = graph.T.tocsr()
    codes = np.ascontiguousarray(labels, np.int64)
    return Neighborhoods(
        *_merged_and_split(graph.indptr, graph.indices, back.indptr, back.indices, codes)
    )


def as_graph(neighbors: NeighborLists, n: int) -> sparse.csr_array:
    """Check ready-made neighbour lists and give them as an (n, n) graph without self-loops."""
    indptr, indices = _checked(neighbors, n)
    row = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    keep = (indices != row) & (indices >= 0)
    if not keep.all():
        counts = np.bincount(row[keep], minlength=n)
        indptr, indices = np.concatenate([[0], np.cumsum(counts)]), indices[keep]
    graph = sparse.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(n, n))
    graph.sum_duplicates()
    return graph


def _checked(neighbors: NeighborLists, n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    if isinstance(neighbors, Neighborhoods):
        return neighbors.indptr.copy(), neighbors.indices.copy()
    if sparse.issparse(neighbors):
        graph = sparse.csr_array(neighbors)
        if graph.shape != (n, n):
            raise ValueError(f"neighbors is a graph of shape {graph.shape}; ({n}, {n}) is expected")
        return graph.indptr, graph.indices.copy()  # sum_duplicates would sort the caller's array
    lists = np.asarray(neighbors)
    if lists.ndim != 2 or len(lists) != n:
        raise ValueError(
            f"neighbors has shape {lists.shape}; an (n, k) array of row indices with n={n}, "
            "one list for each row of X, is expected"
        )
    if not np.issubdtype(lists.dtype, np.integer):
        raise ValueError(f"neighbors holds {lists.dtype}; row indices must be integers")
    if lists.size and (lists.max() >= n or lists.min() < -1):
        raise ValueError(
            f"neighbors holds indices from {lists.min()} to {lists.max()}; with {n} rows they "
            f"must lie between 0 and {n - 1} (-1 stands for no neighbour)"
        )
    return np.arange(n + 1) * lists.shape[1], lists.astype(np.int32).ravel()


@njit(cache=True, nogil=True)
def _union(
    a: NDArray[np.int32], b: NDArray[np.int32], out: NDArray[np.int32]
) -> int:  # pragma: no cover - compiled
    """Merge two ascending lists without repetition; return the length."""
    i = j = n = 0
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and a[i] < b[j]):
            out[n] = a[i]
            i += 1
        else:
            if i < len(a) and a[i] == b[j]:
                i += 1
            out[n] = b[j]
            j += 1
        n += 1
    return n


@njit(cache=True, nogil=True)
def _merged_and_split(  # type: ignore[no-untyped-def]
    indptr, indices, t_indptr, t_indices, labels
):  # pragma: no cover - compiled
    """Row by row: the union of the graph and its transpose, targets before impostors."""
    n = len(labels)
    most = 0
    for i in range(n):
        most = max(most, indptr[i + 1] - indptr[i] + t_indptr[i + 1] - t_indptr[i])
    row = np.empty(most, np.int32)
    out_indptr = np.zeros(n + 1, np.int64)
    for i in range(n):
        a = indices[indptr[i] : indptr[i + 1]]
        b = t_indices[t_indptr[i] : t_indptr[i + 1]]
        out_indptr[i + 1] = out_indptr[i] + _union(a, b, row)
    out = np.empty(out_indptr[n], np.int32)
    n_targets = np.zeros(n, np.int32)
    for i in range(n):
        a = indices[indptr[i] : indptr[i + 1]]
        b = t_indices[t_indptr[i] : t_indptr[i + 1]]
        m = _union(a, b, row)
        at = out_indptr[i]
        for same in (True, False):
            for j in row[:m]:
                if (labels[j] == labels[i]) == same:
                    out[at] = j
                    at += 1
            if same:
                n_targets[i] = at - out_indptr[i]
    return out_indptr, out, n_targets
