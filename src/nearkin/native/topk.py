"""The smallest of many, row by row; compiled code around threads."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.pairs import squared_distance
from nearkin.native.threads import in_threads
from nearkin.native.vectors import copy, jit, read_only


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


@jit
def _nearest_within(D, offsets, limits, Q, Z, first, places, values, lo, hi):  # type: ignore[no-untyped-def]
    last = places.shape[1] - 1
    for i in range(lo, hi):
        for j in range(len(offsets)):
            if D[i, j] + offsets[j] > limits[i]:
                continue
            value = squared_distance(Q[i], Z[j])
            if value < values[i, last]:
                m = last
                while m > 0 and values[i, m - 1] > value:
                    places[i, m], values[i, m] = places[i, m - 1], values[i, m - 1]
                    m -= 1
                places[i, m], values[i, m] = first + j, value


def nearest_within(
    D: NDArray[np.float32],
    offsets: NDArray[np.float32],
    limits: NDArray[np.float32],
    queries: NDArray[np.float32],
    rows: NDArray[np.float32],
    first: int,
    places: NDArray[np.int64],
    values: NDArray[np.float32],
) -> None:
    """Take up the rows whose ``D + offsets`` is not beyond the limit, by their true distance.

    `places` and `values`, a line a query, hold the nearest so far, ascending, and what else there
    is room for; rows are numbered from `first`.
    """
    Q, Z = read_only(queries), read_only(rows)
    fill = partial(_nearest_within, D, offsets, limits, Q, Z, first, places, values)
    in_threads(fill, len(Q))
