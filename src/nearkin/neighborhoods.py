"""Neighbourhoods: the symmetrised graph, each row's neighbours split into targets and impostors.

The only place that implements ``i ∈ N_j ∨ j ∈ N_i``. Memory beside the lists: the graph itself and
its reverse edges, an array of the size of the lists.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.native.jit import compiled
from nearkin.native.threads import in_threads
from nearkin.native.vectors import copy, read_only
from nearkin.validation import expect
from nearkin.validation.arrays import named
from nearkin.validation.parameters import checked

_SPLIT_ROWS = 4_096

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
    n_hubs : int
        Rows whose reverse edges were truncated to the hub limit.
    cells : (n,) int32 array, optional
        Each row's cell of a partition into near rows, for visits in local order; computed on
        demand if left out.
    offsets : float32 array, optional
        Added to the score of each edge: what the rest of a sum of similarities gives it.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    n_targets: NDArray[np.int32]
    n_hubs: int = 0
    cells: NDArray[np.int32] | None = None
    offsets: NDArray[np.float32] | None = None

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """The three arrays, read-only, as compiled code takes them."""
        return read_only(self.indptr), read_only(self.indices), read_only(self.n_targets)

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


@checked(hub_limit=expect.optional(expect.number(1)))
def neighborhoods(
    neighbors: NeighborLists,
    labels: NDArray[np.integer],
    *,
    held: NDArray[np.bool_] | None = None,
    hub_limit: float | None = None,
) -> Neighborhoods:
    """Symmetrise `neighbors` and split each row's neighbours by label.

    Parameters
    ----------
    neighbors : (n, k) integer array or scipy CSR graph
        Row i's nearest rows, nearest first; ``-1`` stands for none. Of a graph, only the positions
        of stored entries count, not their values. `Neighborhoods` are returned unchanged.
    labels : (n,) integer array
    held : (n,) bool array, optional
        Rows to leave out: without neighbours, and in no neighbourhood.
    hub_limit : float, optional
        A row whose in-degree exceeds `hub_limit` times the mean is a hub: only that many of its
        reverse edges are kept, those from the lists that rank it highest and, at equal rank, from
        the rows with the smallest numbers.

    Examples
    --------
    >>> graph = neighborhoods([[1], [2], [1]], np.array([0, 0, 1]))
    >>> [(graph.targets(i).tolist(), graph.impostors(i).tolist()) for i in range(3)]
    [([1], []), ([0], [2]), ([], [1])]
    """
    with named("labels", "an array of one integer a row"):
        found = np.asarray(labels)
        if found.ndim != 1 or found.dtype.kind not in "iub":
            raise ValueError(f"found {found.dtype} of shape {found.shape}")
    codes, n = read_only(np.ascontiguousarray(found, np.int64)), len(found)
    if isinstance(neighbors, Neighborhoods) and held is None:
        check_lists(neighbors, n)
        return neighbors
    if held is not None and (np.shape(held) != (n,) or np.asarray(held).dtype != bool):
        raise ValueError(
            f"held has shape {np.shape(held)}; a bool for each of {n} rows is expected"
        )
    indptr, indices = check_lists(neighbors, n)
    indptr, indices = read_only(indptr.astype(np.int64, copy=False)), read_only(indices)
    held = read_only(np.zeros(n, bool) if held is None else held)
    in_degrees = _in_degrees(indptr, indices, held)
    last_rank, last_quota, n_hubs = _hub_cuts(indptr, indices, held, in_degrees, hub_limit)
    reverse = _reverse_edges(indptr, indices, held, in_degrees, last_rank, last_quota)
    graph = indptr, indices, *reverse, held, codes
    degrees, n_targets = np.zeros(n, np.int64), np.zeros(n, np.int32)
    in_threads(partial(_count, *graph, degrees), n)
    out_indptr = np.concatenate([[0], np.cumsum(degrees)])
    out = np.empty(out_indptr[-1], np.int32)
    in_threads(partial(_fill, *graph, out_indptr, out, n_targets), n)
    return Neighborhoods(out_indptr, out, n_targets, n_hubs, getattr(neighbors, "cells", None))


def split_by_shared_labels(graph: Neighborhoods, labels: NDArray[np.bool_]) -> Neighborhoods:
    """The same graph, in which a row's targets are the neighbours that share a label with it.

    `labels` are an (n, L) indicator array.

    Examples
    --------
    >>> graph = neighborhoods([[1], [2], [1]], np.zeros(3, int))
    >>> split = split_by_shared_labels(graph, np.array([[1, 0], [1, 1], [0, 1]], bool))
    >>> [split.targets(i).tolist() for i in range(3)]
    [[1], [0, 2], [1]]
    """
    indices, n_targets = np.empty_like(graph.indices), np.zeros_like(graph.n_targets)
    for lo in range(0, len(labels), _SPLIT_ROWS):
        hi = min(lo + _SPLIT_ROWS, len(labels))
        part = slice(graph.indptr[lo], graph.indptr[hi])
        row = np.repeat(np.arange(lo, hi), graph.degrees[lo:hi])
        near = graph.indices[part]
        shared = (labels[row] & labels[near]).any(axis=1)
        indices[part] = near[np.lexsort((~shared, row))]
        n_targets[lo:hi] = np.bincount(row[shared] - lo, minlength=hi - lo)
    return Neighborhoods(graph.indptr, indices, n_targets, graph.n_hubs, graph.cells)


def _hub_cuts(  # type: ignore[no-untyped-def]
    indptr, indices, held, in_degrees, hub_limit: float | None
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """For each row, at which rank its reverse edges are cut, how many of that rank are kept.

    Truncates the hubs' `in_degrees` to the limit; the third result is the number of hubs.
    """
    longest, n = int(np.diff(indptr).max(initial=0)), len(in_degrees)
    last_rank, last_quota = np.full(n, longest, np.int32), np.zeros(n, np.int32)
    if hub_limit is None or not in_degrees.any():
        return last_rank, last_quota, 0
    # No row exceeds the largest degree, however large the product, which int32 could not hold.
    limit = max(1, int(min(hub_limit * in_degrees.mean(), in_degrees.max())))
    hubs = np.flatnonzero(in_degrees > limit)
    by_rank = _in_degrees_by_rank(indptr, indices, held, hubs, longest)
    _cut_at_limit(by_rank, hubs, limit, last_rank, last_quota)
    in_degrees[hubs] = limit
    return last_rank, last_quota, len(hubs)


def as_graph(neighbors: NeighborLists, n: int) -> sparse.csr_array:
    """Validated neighbour lists as an (n, n) CSR graph, without self-loops and duplicates."""
    indptr, indices = check_lists(neighbors, n)
    row = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    keep = (indices != row) & (indices >= 0)
    if not keep.all():
        counts = np.bincount(row[keep], minlength=n)
        indptr, indices = np.concatenate([[0], np.cumsum(counts)]), indices[keep]
    entries = np.ones(len(indices), bool)
    # sum_duplicates works in place, hence the copies.
    graph = sparse.csr_array((entries, indices.copy(), indptr.copy()), shape=(n, n))
    graph.sum_duplicates()
    return graph


def check_lists(neighbors: NeighborLists, n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Validate shape and indices of neighbour lists; return (indptr, indices), not copied."""
    lists = as_lists(neighbors, n)
    if isinstance(lists, Neighborhoods):
        _check_neighborhoods(lists, n)
        return lists.indptr, lists.indices
    if sparse.issparse(lists):
        check_range(lists.indices, 0, n, "a graph omits missing neighbours")
        return lists.indptr, lists.indices
    check_range(lists, -1, n, "-1 stands for no neighbour")
    return np.arange(n + 1) * lists.shape[1], lists.astype(np.int32, copy=False).reshape(-1)


def _check_neighborhoods(hoods: Neighborhoods, n: int) -> None:
    """Refuse hand-made neighbourhoods that are not a graph of `n` rows."""
    kinds = {"indptr": np.int64, "indices": np.int32, "n_targets": np.int32}
    optional = {"cells": np.int32, "offsets": np.float32}
    for name, kind in (kinds | optional).items():
        array = getattr(hoods, name)
        if array is None and name in optional:
            continue
        refuse_masked(array)
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != kind:
            raise ValueError(
                f"neighbors.{name} is {type(array).__name__} of shape {np.shape(array)}; a "
                f"one-dimensional {kind.__name__} array is expected: neighborhoods() makes them"
            )
    indptr, edges = hoods.indptr, len(hoods.indices)
    if len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] != edges or (np.diff(indptr) < 0).any():
        raise ValueError(
            f"neighbors.indptr must rise from 0 to {edges}, the number of its indices, in {n} steps"
        )
    if ((hoods.n_targets < 0) | (hoods.n_targets > hoods.degrees)).any():
        raise ValueError("neighbors.n_targets must lie between 0 and the number of neighbours")
    if hoods.cells is not None and (len(hoods.cells) != n or hoods.cells.min(initial=0) < 0):
        raise ValueError(f"neighbors.cells must hold the number of a cell for each of {n} rows")
    offsets = hoods.offsets
    if offsets is not None and (len(offsets) != edges or not np.isfinite(offsets).all()):
        raise ValueError(
            f"neighbors.offsets holds {len(offsets)} numbers; a finite one for each of {edges} "
            "edges is expected"
        )
    check_range(hoods.indices, 0, n, "missing neighbours are left out")


def as_lists(neighbors: NeighborLists, n: int) -> NeighborLists:
    """Neighbour lists as `Neighborhoods`, CSR graph or array; checks the shape, not the indices."""
    if isinstance(neighbors, Neighborhoods):
        if len(neighbors.n_targets) != n:
            raise ValueError(
                f"neighbors holds neighbourhoods of {len(neighbors.n_targets)} rows; X has {n}: "
                "compute them from the same rows"
            )
        return neighbors
    return as_csr(neighbors, n, n) if sparse.issparse(neighbors) else _as_array(neighbors, n)


def as_csr(neighbors: Any, m: int, n: int) -> sparse.csr_array:
    """A graph from `m` rows to `n` in CSR form; checks its structure, not the indices."""
    if neighbors.shape != (m, n):
        raise ValueError(
            f"neighbors is a graph of shape {neighbors.shape}; ({m}, {n}) is expected, a row for "
            "each list and a column for each row that it may hold"
        )
    try:
        graph = sparse.csr_array(neighbors)
        if (graph.indptr[1:] < graph.indptr[:-1]).any():
            raise ValueError("indptr must not decrease")
    except ValueError as error:
        raise ValueError(
            f"neighbors is not a valid CSR graph ({error}); pass an unmodified scipy graph, or an "
            "(n, k) array of row indices"
        ) from None
    return graph


def _as_array(neighbors: Any, n: int) -> NDArray[Any]:
    expected = (
        f"an (n, k) array of row indices with n={n}, one list for each row of X, is expected: "
        "pad short lists with -1, or pass a scipy CSR graph"
    )
    try:
        lists = np.asanyarray(neighbors)
    except ValueError:
        raise ValueError(f"neighbors holds lists of different lengths; {expected}") from None
    refuse_masked(lists)
    if lists.ndim != 2 or len(lists) != n:
        raise ValueError(f"neighbors has shape {lists.shape}; {expected}")
    return lists


def refuse_masked(lists: Any) -> None:
    """Raise for a masked array: what is below its mask may be no row."""
    if isinstance(lists, np.ma.MaskedArray):
        raise ValueError("neighbors is a masked array; pass neighbors.filled(-1)")


def check_range(indices: NDArray[Any], low: int, n: int, remark: str, among: str = "rows") -> None:
    """Raise if an index is not in ``low:n``: compiled code would read beyond its arrays."""
    if not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"neighbors holds {indices.dtype}; row indices must be integers")
    if not indices.size:
        return
    least, most = indices.min(), indices.max()
    if least < low or most >= n:
        raise ValueError(
            f"neighbors holds indices from {least} to {most}; with {n} {among} they must lie "
            f"between 0 and {n - 1} ({remark})"
        )


@compiled(fastmath=False)
def _in_degrees(indptr, indices, held):  # type: ignore[no-untyped-def]
    degrees = np.zeros(len(held), np.int64)
    for i in range(len(held)):
        if not held[i]:
            for j in indices[indptr[i] : indptr[i + 1]]:
                if j >= 0 and j != i and not held[j]:
                    degrees[j] += 1
    return degrees


@compiled(fastmath=False)
def _in_degrees_by_rank(indptr, indices, held, hubs, longest):  # type: ignore[no-untyped-def]
    """How many lists hold each hub at each rank."""
    number = np.full(len(held), -1, np.int64)
    for h in range(len(hubs)):
        number[hubs[h]] = h
    by_rank = np.zeros((len(hubs), longest), np.int32)
    for i in range(len(held)):
        if not held[i]:
            for rank in range(indptr[i + 1] - indptr[i]):
                j = indices[indptr[i] + rank]
                if j >= 0 and j != i and number[j] >= 0:
                    by_rank[number[j], rank] += 1
    return by_rank


@compiled(fastmath=False)
def _cut_at_limit(by_rank, hubs, limit, last_rank, last_quota):  # type: ignore[no-untyped-def]
    """Keep whole ranks while the limit allows, and the rest of the limit from the next rank."""
    for h in range(len(hubs)):
        rank, left = 0, limit
        while by_rank[h, rank] <= left:  # ends: a hub's in-degree exceeds the limit
            left -= by_rank[h, rank]
            rank += 1
        last_rank[hubs[h]], last_quota[hubs[h]] = rank, left


@compiled(fastmath=False)
def _reverse_edges(indptr, indices, held, in_degrees, last_rank, last_quota):  # type: ignore[no-untyped-def]
    """The lists that hold each row, ascending, as (indptr, indices); uses up `last_quota`."""
    r_indptr = np.zeros(len(in_degrees) + 1, np.int64)
    copy(r_indptr[1:], np.cumsum(in_degrees))
    r_indices, at = np.empty(r_indptr[-1], np.int32), r_indptr[:-1].copy()
    for i in range(len(held)):
        if not held[i]:
            for rank in range(indptr[i + 1] - indptr[i]):
                j = indices[indptr[i] + rank]
                if j < 0 or j == i or held[j] or rank > last_rank[j]:
                    continue
                if rank == last_rank[j]:
                    if last_quota[j] == 0:
                        continue
                    last_quota[j] -= 1
                r_indices[at[j]] = i
                at[j] += 1
    return r_indptr, r_indices


@compiled(fastmath=False)
def _union(own, i, reverse, held, out):  # type: ignore[no-untyped-def]
    """Merge row i's list and its reverse edges, ascending and unique; return their number."""
    n = 0
    for j in own:
        if j >= 0 and j != i and not held[j]:
            out[n] = j
            n += 1
    mine = np.sort(out[:n])  # the reverse edges are in order
    a, b, n = 0, 0, 0
    while a < len(mine) or b < len(reverse):
        first = b == len(reverse) or (a < len(mine) and mine[a] <= reverse[b])
        j = mine[a] if first else reverse[b]
        a, b = (a + 1, b) if first else (a, b + 1)
        if n == 0 or out[n - 1] != j:
            out[n] = j
            n += 1
    return n


@compiled(fastmath=False)
def _union_buffer(indptr, r_indptr, lo, hi):  # type: ignore[no-untyped-def]
    """A buffer for the longest union of the rows ``lo:hi``."""
    longest = 0
    for i in range(lo, hi):
        longest = max(longest, indptr[i + 1] - indptr[i] + r_indptr[i + 1] - r_indptr[i])
    return np.empty(longest, np.int32)


@compiled(fastmath=False)
def _count(indptr, indices, r_indptr, r_indices, held, labels, degrees, lo, hi):  # type: ignore[no-untyped-def]
    row = _union_buffer(indptr, r_indptr, lo, hi)
    for i in range(lo, hi):
        if not held[i]:
            own = indices[indptr[i] : indptr[i + 1]]
            degrees[i] = _union(own, i, r_indices[r_indptr[i] : r_indptr[i + 1]], held, row)


@compiled(fastmath=False)
def _fill(  # type: ignore[no-untyped-def]
    indptr, indices, r_indptr, r_indices, held, labels, out_indptr, out, n_targets, lo, hi
):
    """Fill the graph row by row, targets before impostors."""
    row = _union_buffer(indptr, r_indptr, lo, hi)
    for i in range(lo, hi):
        if held[i]:
            continue
        own = indices[indptr[i] : indptr[i + 1]]
        m = _union(own, i, r_indices[r_indptr[i] : r_indptr[i + 1]], held, row)
        at = out_indptr[i]
        for same in (True, False):
            for j in row[:m]:
                if (labels[j] == labels[i]) == same:
                    out[at] = j
                    at += 1
            if same:
                n_targets[i] = at - out_indptr[i]
