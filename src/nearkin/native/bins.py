"""The best of a buffer of values: those of the first bins, which bisection counts.

Passes that vectorise leave the best and a few others of the last bin; those are told apart exactly,
by Hoare's algorithm, ties by number.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.byte_products import PANEL_ROWS, compress
from nearkin.native.jit import compiled
from nearkin.native.threads import in_threads
from nearkin.native.vectors import quickselect

_BINS = 256
# Neither fused nor reassociated: bits do not depend on the processor.
_jit = compiled(fastmath=False, error_model="numpy")


def smallest_columns(
    D: NDArray[np.float32], offsets: NDArray[np.float32], k: int
) -> NDArray[np.int32]:
    """Columns of the `k` smallest values of ``D + offsets`` in each row, ascending; ties by column.

    Made for rows of a few hundred values: nothing but the smallest is sorted.
    """
    keys, found = np.empty((len(D), k), np.uint64), np.empty(len(D), np.int64)
    in_threads(partial(_smallest_columns, D, offsets, keys, found), len(D))
    keys.sort(axis=1)
    columns = keys.astype(np.int32)  # the lower half
    unsure = np.flatnonzero(found < k)  # infinity or NaN is among the values
    if len(unsure):
        with np.errstate(over="ignore", invalid="ignore"):
            values = D[unsure] + offsets
        columns[unsure] = np.argsort(values, axis=1, kind="stable")[:, :k]
    return columns


@_jit
def best_bins(wanted, found, values, scratch):  # type: ignore[no-untyped-def]
    """Smallest value, bins in a unit, and how many bins hold the best, of `_BINS` bins.

    By bisection: passes that vectorise take less time than one that counts the values of each bin,
    and Hoare's algorithm would mispredict every other comparison.
    """
    low, high = extremes(values, found, scratch)
    scale = np.float32(_BINS - 1) / (high - low) if high > low else np.float32(0)
    few, edge = 0, _BINS
    while edge - few > 1:
        middle = (few + edge) // 2
        if _count(values, found, low, scale, np.float32(middle)) < wanted:
            few = middle
        else:
            edge = middle
    return low, scale, edge


@_jit
def _count(values, found, low, scale, edge):  # type: ignore[no-untyped-def]
    """How many of the values `compress` would keep."""
    count = np.int32(0)
    for n in range(found):
        count = np.int32(count + np.int32((values[n] - low) * scale < edge))
    return count


@_jit
def keep_best(found, values, slots, bins):  # type: ignore[no-untyped-def]
    """Move the best, and those of the same bin, to the front; return their number."""
    low, scale, edge = bins
    return compress(values, slots, found, low, scale, np.float32(edge))


@_jit
def keep_exactly(wanted, found, values, slots, bins, keys):  # type: ignore[no-untyped-def]
    """Move the best of what `keep_best` has kept to the front: only the last bin has others."""
    low, scale, edge = bins
    bits, last_bin, count = values.view(np.uint32), np.float32(edge - 1), 0
    for n in range(found):
        keys[count] = key_of(bits[n], slots[n])
        count += (values[n] - low) * scale >= last_bin
    last, kept = quickselect(keys[:count], wanted - (found - count) - 1), 0
    for n in range(found):
        values[kept], slots[kept] = values[n], slots[n]
        kept += key_of(bits[n], slots[n]) <= last


@_jit
def extremes(values, found, scratch):  # type: ignore[no-untyped-def]
    """Smallest and largest value, by integers in the same order, whose comparison vectorises."""
    bits, mask = values.view(np.int32), np.int32(0x7FFFFFFF)
    low, high = mask, ~mask
    for n in range(found):
        ordered = np.int32(bits[n] ^ (bits[n] >> np.int32(31) & mask))
        low, high = min(low, ordered), max(high, ordered)
    scratch[0], scratch[1] = (
        low ^ (low >> np.int32(31) & mask),
        high ^ (high >> np.int32(31) & mask),
    )
    decoded = scratch.view(np.float32)
    return decoded[0], decoded[1]


@_jit
def key_of(bits, number):  # type: ignore[no-untyped-def]
    """An integer that orders pairs of a float, given by its bits, and a number."""
    negative = bits >> np.uint32(31) != 0
    ordered = ~bits if negative else bits | np.uint32(0x80000000)
    return np.uint64(ordered) << np.uint64(32) | np.uint64(number)


@_jit
def _smallest_columns(D, offsets, keys, found, lo, hi):  # type: ignore[no-untyped-def]
    """Keys of the smallest values of each row, in any order, and how many there are."""
    width, k = D.shape[1], keys.shape[1]
    whole = width + -width % PANEL_ROWS  # vectors are read and written
    values, columns = np.empty(whole, np.float32), np.empty(whole, np.int32)
    bits, scratch, room = values.view(np.uint32), np.empty(2, np.int32), np.empty(whole, np.uint64)
    for i in range(lo, hi):
        for j in range(width):
            values[j], columns[j] = D[i, j] + offsets[j], j
        bins = best_bins(k, width, values, scratch)
        found[i] = keep_best(width, values, columns, bins)
        if found[i] > k:
            keep_exactly(k, found[i], values, columns, bins, room)
        for n in range(min(found[i], k)):
            keys[i, n] = key_of(bits[n], columns[n])
