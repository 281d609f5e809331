"""Scores of listed pairs and edges, Eq. 6, and the smallest of many: compiled code around threads.

Arrays and scalars in, arrays out. Everything here releases the GIL; threads are laid around it,
each with rows of its own.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin._blas import multiply_into
from nearkin._rules import RULES, apply_rule
from nearkin._threads import in_threads
from nearkin._vectors import copy, dot, jit, read_only

Graph = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
ALL = RULES["all"]
SCORE_ROWS = 4_096


@jit
def _pair_scores(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        q = Q[i]
        for n in range(indices.shape[1]):
            j = indices[i, n]
            out[i, n] = dot(q, Z[j]) if j >= 0 else -np.inf


@jit
def _pair_squared_distances(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        for n in range(indices.shape[1]):
            j = indices[i, n]
            total = np.float32(0)
            if j < 0:
                total = np.float32(np.inf)
            else:
                q, z = Q[i], Z[j]
                for d in range(len(q)):
                    total += (q[d] - z[d]) * (q[d] - z[d])
            out[i, n] = total


@jit
def _edge_scores(X, graph, Q, first, out, lo, hi):  # type: ignore[no-untyped-def]
    indptr, indices, _ = graph
    for b in range(lo, hi):
        for e in range(indptr[first + b], indptr[first + b + 1]):
            out[e] = dot(Q[b], X[indices[e]])


@jit
def _objective(graph, scores, margin, lo, hi):  # type: ignore[no-untyped-def]
    indptr, _, n_targets = graph
    total = 0.0
    for i in range(lo, hi):
        row = scores[indptr[i] : indptr[i + 1]]
        n_impostors = len(row) - n_targets[i]
        if n_targets[i] > 0 and n_impostors > 0:
            c = np.empty(len(row), np.float32)
            mean = apply_rule(ALL, row, n_targets[i], margin, 1.0, 0.0, c)
            total += mean * n_targets[i] * n_impostors
    return total


@jit
def _smallest(D, offsets, columns, out, lo, hi):  # type: ignore[no-untyped-def]
    n, wanted = D.shape[1], out.shape[1]
    rounds = 32
    while rounds > 1 and n // rounds < 2 * wanted:
        rounds //= 2
    lowest = np.empty(n // rounds, np.float32)
    places, values = np.empty(n, np.int64), np.empty(n, np.float32)
    for i in range(lo, hi):
        _lowest_of_lanes(D[i], offsets, lowest)
        # As many lanes as are wanted hold a value up to here, so no wanted value lies above.
        limit = np.float32(np.inf)
        if wanted < len(lowest):
            copy(values, lowest)
            limit = _nth_smallest(values[: len(lowest)], wanted - 1)
        found = _up_to(limit, D[i], offsets, lowest, places, values)
        if found > 4 * wanted:  # many equal ones: do not sort them all
            found = _first_of(wanted, found, places, values)
        order = np.argsort(values[:found])[:wanted]
        for rank in range(len(order)):
            columns[i, rank], out[i, rank] = places[order[rank]], values[order[rank]]


@jit
def _lowest_of_lanes(row, offsets, lowest):  # type: ignore[no-untyped-def]
    """Fold a row: lane c holds the values c, c + lanes, c + 2·lanes …, but for an odd end."""
    lanes = len(lowest)
    lowest[:] = np.inf
    for start in range(0, len(row) - lanes + 1, lanes):
        part, more = row[start : start + lanes], offsets[start : start + lanes]
        for c in range(lanes):
            value = part[c] + more[c]
            lowest[c] = value if value < lowest[c] else lowest[c]


@jit
def _up_to(limit, row, offsets, lowest, places, values):  # type: ignore[no-untyped-def]
    """Collect the values up to the limit, looking only into the lanes that have some."""
    lanes, found = len(lowest), 0
    whole = len(row) - len(row) % lanes
    for c in range(lanes):
        if lowest[c] <= limit:
            for j in range(c, whole, lanes):
                places[found], values[found] = j, row[j] + offsets[j]
                found += not (values[found] > limit)  # what overflowed to NaN counts, too
    for j in range(whole, len(row)):
        places[found], values[found] = j, row[j] + offsets[j]
        found += not (values[found] > limit)
    return found


@jit
def _first_of(wanted, found, places, values):  # type: ignore[no-untyped-def]
    """Move as many values as are wanted to the front, none of them larger than one left out."""
    finite = np.empty(found, np.float32)
    for m in range(found):
        finite[m] = np.inf if np.isnan(values[m]) else values[m]
    limit = _nth_smallest(finite, wanted - 1)
    room = wanted
    for m in range(found):
        room -= values[m] < limit
    kept = 0
    for m in range(found):
        equal = room > 0 and not (values[m] < limit or values[m] > limit)
        if values[m] < limit or equal:
            places[kept], values[kept] = places[m], values[m]
            kept += 1
            room -= equal
    return kept


@jit
def _nth_smallest(values, n):  # type: ignore[no-untyped-def]
    """By Hoare's selection, which changes the order; numpy's takes eight seconds to compile."""
    lo, hi = 0, len(values) - 1
    while lo < hi:
        pivot, i, j = values[(lo + hi) // 2], lo, hi
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if j < n < i:
            break
        lo, hi = (lo, j) if n <= j else (i, hi)
    return values[n]


@jit
def _nearest_of(D, offsets, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        best = np.float32(np.inf)
        for j in range(len(offsets)):
            value = D[i, j] + offsets[j]
            if value < best:
                best, out[i] = value, j


def nearest_of(D: NDArray[np.float32], offsets: NDArray[np.float32]) -> NDArray[np.int64]:
    """Column of the smallest value of ``D + offsets`` in each row."""
    out = np.zeros(len(D), np.int64)
    in_threads(partial(_nearest_of, D, offsets, out), len(D))
    return out


def smallest(
    D: NDArray[np.float32], offsets: NDArray[np.float32], wanted: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The `wanted` smallest values of ``D + offsets`` in each row and their columns, ascending.

    Made for few wanted among very many: one pass over a row, where a heap would take several.
    """
    columns, values = np.empty((len(D), wanted), np.int64), np.empty((len(D), wanted), np.float32)
    in_threads(partial(_smallest, D, offsets, columns, values), len(D))
    return values, columns


def edge_scores(
    X: NDArray[np.float32], graph: Graph, M: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Similarity of the two ends of every edge, in the order of the graph's `indices`."""
    out = np.empty(len(graph[1]), np.float32)
    X = read_only(X)
    for first in range(0, len(X), SCORE_ROWS):
        Q = np.empty_like(X[first : first + SCORE_ROWS])
        multiply_into(Q, X[first : first + SCORE_ROWS], M)
        score = partial(_edge_scores, X, graph, Q, first, out)
        in_threads(score, len(Q))
    return out


def objective(graph: Graph, scores: NDArray[np.float32], margin: float) -> float:
    """Eq. 6: the hinge loss of all triplets, from the scores of all edges."""
    parts = in_threads(partial(_objective, graph, scores, margin), len(graph[0]) - 1)
    return float(sum(parts))


def pair_scores(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Inner products of each row of `Q` with the rows of `Z` that `indices` lists for it.

    ``-1`` in `indices` gives ``-inf``. Memory: the result alone.
    """
    return _of_pairs(_pair_scores, Q, Z, indices)


def pair_squared_distances(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Squared distances, in the manner of `pair_scores`; ``-1`` gives infinity."""
    return _of_pairs(_pair_squared_distances, Q, Z, indices)


def pair_closeness(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32], scale: float
) -> NDArray[np.float32]:
    """``scale − |q − z|²/2``, in the manner of `pair_scores`: for rows of length √scale, q·z."""
    closeness = pair_squared_distances(Q, Z, indices)
    closeness *= np.float32(-0.5)
    closeness += np.float32(scale)
    return closeness


def _of_pairs(
    fill: Callable[..., None],
    Q: NDArray[np.float32],
    Z: NDArray[np.float32],
    indices: NDArray[np.int32],
) -> NDArray[np.float32]:
    out = np.empty(indices.shape, np.float32)
    in_threads(partial(fill, read_only(Q), read_only(Z), read_only(indices), out), len(indices))
    return out
