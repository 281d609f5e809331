"""Neighbourhoods: the symmetrised graph, each row's neighbours split into targets and impostors.

The only place that knows about ``i ∈ N_j ∨ j ∈ N_i``. Beside the lists it needs the graph itself
and one more array of the size of the lists.
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
        Rows that too many others had named, and that were cut short.
    cells : (n,) int32 array, optional
        Which rows lie together, for ``shuffle="local"``; found when it is needed, if left out.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    n_targets: NDArray[np.int32]
    n_hubs: int = 0
    cells: NDArray[np.int32] | None = None

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """The three arrays, as compiled code takes them."""
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
        Row i's nearest rows, nearest first; ``-1`` stands for none. Only the places of a graph's
        stored entries count, not their values. `Neighborhoods` made earlier are taken as they are.
    labels : (n,) integer array
    held : (n,) bool array, optional
        Rows to leave out: no neighbours of their own, and nobody's neighbours.
    hub_limit : float, optional
        A row that more than `hub_limit` times the mean number of lists name is a hub: of those
        lists it takes only that many as neighbours, the ones that rank it highest and, among
        equals, those of the first rows.

    Examples
    --------
    >>> graph = neighborhoods([[1], [2], [1]], np.array([0, 0, 1]))
    >>> [(graph.targets(i).tolist(), graph.impostors(i).tolist()) for i in range(3)]
    [([1], []), ([0], [2]), ([], [1])]
    """
    n = len(labels)
    if isinstance(neighbors, Neighborhoods) and len(neighbors.n_targets) == n and held is None:
        return neighbors
    indptr, indices = check_lists(neighbors, n)
    indptr, indices = read_only(indptr.astype(np.int64, copy=False)), read_only(indices)
    held = read_only(np.zeros(n, bool) if held is None else held)
    codes = read_only(np.ascontiguousarray(labels, np.int64))
    named = _times_named(indptr, indices, held)
    last_rank, spare, n_hubs = _hubs(indptr, indices, held, named, hub_limit)
    back = _transposed(indptr, indices, held, named, last_rank, spare)
    graph = indptr, indices, *back, held, codes
    degrees, n_targets = np.zeros(n, np.int64), np.zeros(n, np.int32)
    in_threads(partial(_count, *graph, degrees), n)
    out_indptr = np.concatenate([[0], np.cumsum(degrees)])
    out = np.empty(out_indptr[-1], np.int32)
    in_threads(partial(_fill, *graph, out_indptr, out, n_targets), n)
    return Neighborhoods(out_indptr, out, n_targets, n_hubs, getattr(neighbors, "cells", None))


def _hubs(  # type: ignore[no-untyped-def]
    indptr, indices, held, named, hub_limit: float | None
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """For each row, how many places of a list count in full as naming it, and what is left over.

    The lists that name a hub at the next place share what is left of its limit.
    """
    longest = int(np.diff(indptr).max(initial=0))
    last_rank, spare = np.full(len(named), longest, np.int32), np.zeros(len(named), np.int32)
    if hub_limit is None or not named.any():
        return last_rank, spare, 0
    limit = max(1, int(hub_limit * named.mean()))
    hubs = np.flatnonzero(named > limit)
    _share(_places(indptr, indices, held, hubs, longest), hubs, limit, last_rank, spare)
    named[hubs] = limit
    return last_rank, spare, len(hubs)


def as_graph(neighbors: NeighborLists, n: int) -> sparse.csr_array:
    """Check ready-made neighbour lists and give them as an (n, n) graph without self-loops."""
    indptr, indices = check_lists(neighbors, n)
    row = np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr))
    keep = (indices != row) & (indices >= 0)
    if not keep.all():
        counts = np.bincount(row[keep], minlength=n)
        indptr, indices = np.concatenate([[0], np.cumsum(counts)]), indices[keep]
    entries = np.ones(len(indices), bool)
    # Copies: sum_duplicates works in place.
    graph = sparse.csr_array((entries, indices.copy(), indptr.copy()), shape=(n, n))
    graph.sum_duplicates()
    return graph


def check_lists(neighbors: NeighborLists, n: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Check ready-made neighbour lists and give them as (indptr, indices), as they are."""
    lists = as_lists(neighbors, n)
    if isinstance(lists, Neighborhoods):
        return lists.indptr, lists.indices
    if sparse.issparse(lists):
        check_range(lists.indices, 0, n, "a graph leaves out what is not there")
        return lists.indptr, lists.indices
    check_range(lists, -1, n, "-1 stands for no neighbour")
    return np.arange(n + 1) * lists.shape[1], lists.astype(np.int32, copy=False).reshape(-1)


def as_lists(neighbors: NeighborLists, n: int) -> NeighborLists:
    """`Neighborhoods`, a CSR graph or an array, of the right shape; the indices are not read."""
    if isinstance(neighbors, Neighborhoods):
        if len(neighbors.n_targets) != n:
            raise ValueError(
                f"neighbors holds neighbourhoods of {len(neighbors.n_targets)} rows; X has {n}: "
                "make them from the same rows"
            )
        return neighbors
    return _as_csr(neighbors, n) if sparse.issparse(neighbors) else _as_array(neighbors, n)


def _as_csr(neighbors: Any, n: int) -> sparse.csr_array:
    if neighbors.shape != (n, n):
        raise ValueError(f"neighbors is a graph of shape {neighbors.shape}; ({n}, {n}) is expected")
    try:
        graph = sparse.csr_array(neighbors)
        if (graph.indptr[1:] < graph.indptr[:-1]).any():
            raise ValueError("its indptr must not decrease")
    except ValueError as error:
        raise ValueError(
            f"neighbors is not a sound CSR graph ({error}); give a scipy graph as it was made, or "
            "an (n, k) array of row indices"
        ) from None
    return graph


def _as_array(neighbors: Any, n: int) -> NDArray[Any]:
    expected = (
        f"an (n, k) array of row indices with n={n}, one list for each row of X, is expected: "
        "fill short lists up with -1, or give a scipy CSR graph"
    )
    try:
        lists = np.asanyarray(neighbors)
    except ValueError:
        raise ValueError(f"neighbors holds lists of different lengths; {expected}") from None
    if lists.ndim != 2 or len(lists) != n:
        raise ValueError(f"neighbors has shape {lists.shape}; {expected}")
    return lists


def check_range(indices: NDArray[Any], low: int, n: int, remark: str, among: str = "rows") -> None:
    """Refuse indices that are no rows: compiled code would read beyond its arrays."""
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
def _times_named(indptr, indices, held):  # type: ignore[no-untyped-def]
    named = np.zeros(len(held), np.int64)
    for i in range(len(held)):
        if not held[i]:
            for j in indices[indptr[i] : indptr[i + 1]]:
                if j >= 0 and j != i and not held[j]:
                    named[j] += 1
    return named


@compiled(fastmath=False)
def _places(indptr, indices, held, hubs, longest):  # type: ignore[no-untyped-def]
    """How often each hub is named at each place of a list."""
    number = np.full(len(held), -1, np.int64)
    for h in range(len(hubs)):
        number[hubs[h]] = h
    places = np.zeros((len(hubs), longest), np.int32)
    for i in range(len(held)):
        if not held[i]:
            for rank in range(indptr[i + 1] - indptr[i]):
                j = indices[indptr[i] + rank]
                if j >= 0 and j != i and number[j] >= 0:
                    places[number[j], rank] += 1
    return places


@compiled(fastmath=False)
def _share(places, hubs, limit, last_rank, spare):  # type: ignore[no-untyped-def]
    """Whole places of a list while the limit allows; a hub is named more often than that."""
    for h in range(len(hubs)):
        rank, left = 0, limit
        while places[h, rank] <= left:
            left -= places[h, rank]
            rank += 1
        last_rank[hubs[h]], spare[hubs[h]] = rank, left


@compiled(fastmath=False)
def _transposed(indptr, indices, held, named, last_rank, spare):  # type: ignore[no-untyped-def]
    """Who names each row, in ascending order; uses up `spare`."""
    t_indptr = np.zeros(len(named) + 1, np.int64)
    copy(t_indptr[1:], np.cumsum(named))
    t_indices, at = np.empty(t_indptr[-1], np.int32), t_indptr[:-1].copy()
    for i in range(len(held)):
        if not held[i]:
            for rank in range(indptr[i + 1] - indptr[i]):
                j = indices[indptr[i] + rank]
                if j < 0 or j == i or held[j] or rank > last_rank[j]:
                    continue
                if rank == last_rank[j]:
                    if spare[j] == 0:
                        continue
                    spare[j] -= 1
                t_indices[at[j]] = i
                at[j] += 1
    return t_indptr, t_indices


@compiled(fastmath=False)
def _union(own, i, named_by, held, out):  # type: ignore[no-untyped-def]
    """Row i's own list and those who name it, ascending, without repetition; the length."""
    n = 0
    for j in own:
        if j >= 0 and j != i and not held[j]:
            out[n] = j
            n += 1
    for j in named_by:
        out[n] = j
        n += 1
    both = np.sort(out[:n])
    n = 0
    for j in both:
        if n == 0 or out[n - 1] != j:
            out[n] = j
            n += 1
    return n


@compiled(fastmath=False)
def _room(indptr, t_indptr, lo, hi):  # type: ignore[no-untyped-def]
    most = 0
    for i in range(lo, hi):
        most = max(most, indptr[i + 1] - indptr[i] + t_indptr[i + 1] - t_indptr[i])
    return np.empty(most, np.int32)


@compiled(fastmath=False)
def _count(indptr, indices, t_indptr, t_indices, held, labels, degrees, lo, hi):  # type: ignore[no-untyped-def]
    row = _room(indptr, t_indptr, lo, hi)
    for i in range(lo, hi):
        if not held[i]:
            own = indices[indptr[i] : indptr[i + 1]]
            degrees[i] = _union(own, i, t_indices[t_indptr[i] : t_indptr[i + 1]], held, row)


@compiled(fastmath=False)
def _fill(  # type: ignore[no-untyped-def]
    indptr, indices, t_indptr, t_indices, held, labels, out_indptr, out, n_targets, lo, hi
):
    """Row by row: the neighbours, targets before impostors."""
    row = _room(indptr, t_indptr, lo, hi)
    for i in range(lo, hi):
        if held[i]:
            continue
        own = indices[indptr[i] : indptr[i + 1]]
        m = _union(own, i, t_indices[t_indptr[i] : t_indptr[i + 1]], held, row)
        at = out_indptr[i]
        for same in (True, False):
            for j in row[:m]:
                if (labels[j] == labels[i]) == same:
                    out[at] = j
                    at += 1
            if same:
                n_targets[i] = at - out_indptr[i]
