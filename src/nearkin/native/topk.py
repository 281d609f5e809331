"""Selection of the smallest values of each row, in parallel over rows."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.listed_values import fill_values
from nearkin.native.threads import in_threads
from nearkin.native.vectors import copy, jit, quickselect, read_only

_MAX_FOLDS = 32
_PAIR_BYTES = 1 << 18  # that are sorted at a time, in the cache


def nearest_of(D: NDArray[np.float32], offsets: NDArray[np.float32]) -> NDArray[np.int64]:
    """Column of the smallest value of ``D + offsets`` in each row."""
    out = np.zeros(len(D), np.int64)
    in_threads(partial(_nearest_of, D, offsets, out), len(D))
    return out


def smallest(
    D: NDArray[np.float32], offsets: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The `k` smallest values of ``D + offsets`` in each row and their columns, ascending.

    Made for small `k` and long rows: the minima of interleaved lanes give a threshold, and only
    lanes with a value up to it are searched. One pass over a row, where a heap takes several.
    """
    columns, values = np.empty((len(D), k), np.int64), np.empty((len(D), k), np.float32)
    in_threads(partial(_smallest, D, offsets, columns, values), len(D))
    return values, columns


def smallest_pairs(
    values: NDArray[np.float32], numbers: NDArray[np.int32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """The `k` smallest pairs of a value and its number in each row, ascending.

    Made for short rows: pairs are sorted as integers, several times as fast as by `argsort`.
    """
    best, chosen = np.empty((len(values), k), np.float32), np.empty((len(values), k), np.int32)

    at_once = max(1, _PAIR_BYTES // (8 * max(1, values.shape[1])))

    def fill(lo: int, hi: int) -> None:
        for first in range(lo, hi, at_once):
            part = slice(first, min(first + at_once, hi))
            pairs = _ordered(values[part].view(np.int32)).astype(np.int64)
            pairs <<= 32
            pairs |= numbers[part].view(np.uint32)
            if 2 * k < pairs.shape[1]:
                pairs.partition(k - 1, axis=1)
                pairs = pairs[:, :k]
            pairs = np.sort(pairs, axis=1)[:, :k]
            chosen[part] = pairs.astype(np.int32)  # the lower half
            best[part] = _ordered((pairs >> 32).astype(np.int32)).view(np.float32)

    in_threads(fill, len(values))
    return best, chosen


def _ordered(bits: NDArray[np.int32]) -> NDArray[np.int32]:
    """Integers in the order of the floats with these bits, and back."""
    return bits ^ (bits >> 31 & 0x7FFFFFFF)


def nearest_within(
    D: NDArray[np.float32],
    offsets: NDArray[np.float32],
    limits: NDArray[np.float32],
    queries: NDArray[np.float32],
    rows: NDArray[np.float32],
    first: int,
    indices: NDArray[np.int64],
    distances: NDArray[np.float32],
    by_products: bool,
) -> None:
    """Merge rows whose ``D + offsets`` is within the query's limit into its nearest so far.

    `indices` and `distances` hold, for each query, the nearest rows so far by their true squared
    distance (`by_products`: minus their dot product), ascending; they are updated in place. Row
    numbers start at `first`.
    """
    Q, Z = read_only(queries), read_only(rows)
    so_far = indices, distances, by_products
    fill = partial(_nearest_within, D, offsets, limits, Q, Z, first, *so_far)
    in_threads(fill, len(Q))


@jit
def _nearest_of(D, offsets, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        best = np.float32(np.inf)
        for j in range(len(offsets)):
            value = D[i, j] + offsets[j]
            if value < best:
                best, out[i] = value, j


@jit
def _nearest_within(D, offsets, limits, Q, Z, first, indices, distances, by_products, lo, hi):  # type: ignore[no-untyped-def]
    last, number, true = indices.shape[1] - 1, np.empty(1, np.int32), np.empty(1, np.float32)
    for i in range(lo, hi):
        for j in range(len(offsets)):
            if D[i, j] + offsets[j] > limits[i]:
                continue
            number[0] = j
            fill_values(by_products, Z, number, Q[i], true)
            value = -true[0] if by_products else true[0]
            if value < distances[i, last]:
                m = last
                while m > 0 and distances[i, m - 1] > value:
                    indices[i, m], distances[i, m] = indices[i, m - 1], distances[i, m - 1]
                    m -= 1
                indices[i, m], distances[i, m] = first + j, value


@jit
def _smallest(D, offsets, columns, out, lo, hi):  # type: ignore[no-untyped-def]
    n, k = D.shape[1], out.shape[1]
    folds = _MAX_FOLDS
    while folds > 1 and n // folds < 2 * k:
        folds //= 2
    minima = np.empty(n // folds, np.float32)
    places, values = np.empty(n, np.int64), np.empty(n, np.float32)
    for i in range(lo, hi):
        _lane_minima(D[i], offsets, minima)
        # k lanes hold a value up to the k-th smallest minimum, so none of the k lies above it.
        limit = np.float32(np.inf)
        if k < len(minima):
            copy(values[: len(minima)], minima)
            limit = quickselect(values[: len(minima)], k - 1)
        found = _collect(limit, D[i], offsets, minima, places, values)
        if found > 4 * k:  # many ties: do not sort them all
            found = _truncate(k, found, places, values)
        order = np.argsort(values[:found])[:k]
        for rank in range(len(order)):
            columns[i, rank], out[i, rank] = places[order[rank]], values[order[rank]]


@jit
def _lane_minima(row, offsets, minima):  # type: ignore[no-untyped-def]
    """Minimum of each lane: lane c holds the values c, c + lanes, c + 2·lanes … of whole folds."""
    lanes = len(minima)
    minima[:] = np.inf
    for start in range(0, len(row) - lanes + 1, lanes):
        part, more = row[start : start + lanes], offsets[start : start + lanes]
        for c in range(lanes):
            value = part[c] + more[c]
            minima[c] = value if value < minima[c] else minima[c]


@jit
def _collect(limit, row, offsets, minima, places, values):  # type: ignore[no-untyped-def]
    """Collect the values up to the limit from the lanes that have some; return their number."""
    lanes, found = len(minima), 0
    whole = len(row) - len(row) % lanes
    for c in range(lanes):
        if minima[c] <= limit:
            for j in range(c, whole, lanes):
                places[found], values[found] = j, row[j] + offsets[j]
                found += not (values[found] > limit)  # NaN from an overflow counts as found
    for j in range(whole, len(row)):
        places[found], values[found] = j, row[j] + offsets[j]
        found += not (values[found] > limit)
    return found


@jit
def _truncate(k, found, places, values):  # type: ignore[no-untyped-def]
    """Move `k` smallest values to the front, unordered; the first of equal ones. Return `k`."""
    finite = np.empty(found, np.float32)
    for m in range(found):
        finite[m] = np.inf if np.isnan(values[m]) else values[m]
    limit = quickselect(finite, k - 1)
    ties = k
    for m in range(found):
        ties -= values[m] < limit
    kept = 0
    for m in range(found):
        tie = ties > 0 and not (values[m] < limit or values[m] > limit)
        if values[m] < limit or tie:
            places[kept], values[kept] = places[m], values[m]
            kept += 1
            ties -= tie
    return kept
