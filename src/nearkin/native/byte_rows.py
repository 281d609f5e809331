"""The nearest of some candidates by bytes of all dimensions, by float32 where those leave a doubt.

A row z is kept as ẑ, one byte for each column in steps of the column's own, relative to a common
centre. With e = z − ẑ, whose length is kept,

    |q − z|² = |q − ẑ|² − 2 (q − ẑ)·e + |e|²,

of which the product with e is not known. It is at most |q − ẑ| |e|; and since rounding is as good
as random, evenly spread over a step, its standard deviation is at most |q − ẑ| s/√12, where s is
the longest step. Candidates whose distance differs from the k-th by more than `DEVIATIONS` of these
need not be read: the k-th of many values is off by much less than a single one. The others are
decided by their true distances. In few dimensions twice the bound is smaller, and nothing can
exceed it.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import CACHE_LINE
from nearkin.native.jit import compiled
from nearkin.native.listed_values import fill_fetched
from nearkin.native.quantize import aligned_codes, quantize_query, quantized_dot
from nearkin.native.threads import in_threads
from nearkin.native.vectors import prefetch_row, quickselect, read_only

Array = NDArray[np.float32]

DEVIATIONS = 5.0  # of an error's standard deviation: one in a million is larger
_MAX_CODE = 127
_AHEAD = 4  # rows that are prefetched
_QUERIES_AT_ONCE = 64  # their keys stay in the cache
# Neither fused nor reassociated: bits do not depend on the processor.
_jit = compiled(fastmath=False, error_model="numpy")


class ByteRows(NamedTuple):
    """Rows as bytes, in any order; ``rows[n] ≈ centre + codes[n] * scales``.

    Attributes
    ----------
    codes : rows padded with zeros to whole cache lines
    centre, scales : one number a column
    squares : of each coded row, ``|ẑ|² + |e|²``
    errors : length of each row's error
    """

    codes: NDArray[np.int8]
    centre: Array
    scales: Array
    squares: NDArray[np.float64]
    errors: Array


def code_rows(rows: Array, order: NDArray[np.integer], centre: Array) -> ByteRows:
    """Code the rows `order`; -1 in it leaves a place empty."""
    n, dims = len(order), rows.shape[1]
    order, X, middle = read_only(order.astype(np.int64)), read_only(rows), read_only(centre)
    parts = in_threads(partial(_largest, X, middle), len(rows))
    scales = np.max(parts, axis=0) / np.float32(_MAX_CODE)
    scales[scales < np.finfo(np.float32).tiny] = 0  # subnormal: the column counts as error
    codes = aligned_codes(n, dims)
    squares, errors = np.zeros(n), np.zeros(n, np.float32)
    in_threads(partial(_code, X, order, middle, scales, codes, squares, errors), n)
    return ByteRows(codes, centre, scales, squares, errors)


def check_byte_rows(coded: ByteRows, n: int, dims: int) -> None:
    """Refuse arrays, perhaps of a file, that `code_rows` cannot have made of `n` rows."""
    width = dims + -dims % CACHE_LINE
    expected = {
        "codes": ((n, width), "i1"), "centre": ((dims,), "f4"), "scales": ((dims,), "f4"),
        "squares": ((n,), "f8"), "errors": ((n,), "f4"),
    }  # fmt: skip
    for name, (shape, kind) in expected.items():
        array = getattr(coded, name)
        if array.shape != shape or array.dtype != kind or not array.flags.c_contiguous:
            raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}")


@_jit
def _largest(rows, centre, lo, hi):  # type: ignore[no-untyped-def]
    largest = np.zeros(len(centre), np.float32)
    for i in range(lo, hi):
        for d in range(len(centre)):
            largest[d] = max(largest[d], abs(rows[i, d] - centre[d]))
    return largest


@_jit
def _code(rows, order, centre, scales, codes, squares, errors, lo, hi):  # type: ignore[no-untyped-def]
    inverse, largest = np.zeros(len(scales), np.float32), np.float32(_MAX_CODE)
    for d in range(len(scales)):
        if scales[d] > 0:
            inverse[d] = np.float32(1) / scales[d]
    for n in range(lo, hi):
        codes[n, :] = 0
        if order[n] < 0:
            continue
        row, square, error = rows[order[n]], 0.0, 0.0
        for d in range(len(row)):
            value = row[d] - centre[d]
            code = min(max(np.rint(value * inverse[d]), -largest), largest)
            codes[n, d] = np.int8(code)
            coded = np.float64(scales[d]) * code
            square += coded * coded
            error += (value - coded) * (value - coded)
        squares[n] = square + error
        errors[n] = math.sqrt(error)


def nearest_of_candidates(
    coded: ByteRows,
    rows: Array,
    row_of: NDArray[np.int32],
    queries: Array,
    near: NDArray[np.int32],
    own: NDArray[np.int64],
    k: int,
) -> NDArray[np.int32]:
    """The `k` nearest of each query's candidates `near`, nearest first as far as is known.

    `near` holds at least `k` places in `coded`, -1 where there is none; `row_of` the row of each
    place, and -1 at its end. The row `own` of a query is left out. Of equal distances the smaller
    row comes first; places that stay empty hold -1.
    """
    found = np.empty((len(queries), k), np.int32)
    frozen = ByteRows(*(read_only(array) for array in coded))  # type: ignore[arg-type]
    Q, Z, at = read_only(queries), read_only(rows), read_only(row_of)
    candidates, mine = read_only(near), read_only(own)

    def fill(lo: int, hi: int) -> None:
        for first in range(lo, hi, _QUERIES_AT_ONCE):
            last = min(first + _QUERIES_AT_ONCE, hi)
            keys = np.empty((last - first, near.shape[1]), np.uint64)
            doubts = np.empty(last - first, np.float64)
            _by_bytes(frozen, at, Q, candidates, mine, keys, doubts, first)
            keys.sort(axis=1)  # by vectors, several times as fast as compiled code would
            _settle(Z, at, Q, keys, doubts, k, first)
            best = np.sort(keys[:, :k], axis=1)
            found[first:last] = best.astype(np.uint32).view(np.int32)

    in_threads(fill, len(queries))
    return found


@_jit
def _by_bytes(coded, row_of, queries, near, own, keys, doubts, first):  # type: ignore[no-untyped-def]
    """Keys of all candidates, by value and place, and how far off a query's values may be."""
    dims, width = queries.shape[1], near.shape[1]
    terms, codes = np.empty(dims, np.float32), np.zeros(coded.codes.shape[1], np.int16)
    values = np.empty(width, np.float32)
    bits = values.view(np.uint32)
    spread, root = DEVIATIONS / math.sqrt(12.0), math.sqrt(dims)
    step_error, rounding = spread * np.max(coded.scales), 2.0**-23 * 10 * (4 + root)
    for i in range(len(keys)):
        square = 0.0
        for d in range(dims):
            terms[d] = queries[first + i, d] - coded.centre[d]
            square += np.float64(terms[d]) * np.float64(terms[d])
        step = np.float64(quantize_query(terms, coded.scales, codes[:dims]))
        largest, error = 0.0, np.float32(0)
        for n in range(width):
            if n + _AHEAD < width:
                prefetch_row(coded.codes[max(near[first + i, n + _AHEAD], 0)])
            place = near[first + i, n]
            if place < 0 or row_of[place] == own[first + i]:
                values[n] = np.inf
                keys[i, n] = _key(bits[n], -1)
                continue
            product = step * quantized_dot(codes, coded.codes[place])
            value = max(square + coded.squares[place] - 2 * product, 0.0)
            largest, error = max(largest, value), max(error, coded.errors[place])
            values[n] = value
            keys[i, n] = _key(bits[n], place)
        row_error = min(step_error, 2 * np.float64(error))
        query_error = step * _MAX_CODE * min(spread * root, 1.02 * dims)  # of the query's codes
        doubts[i] = 2 * (math.sqrt(largest) * row_error + query_error) + rounding * largest


@_jit
def _settle(rows, row_of, queries, keys, doubts, k, first):  # type: ignore[no-untyped-def]
    """Move the `k` nearest to the front: keys of value and row, the true value if it decides."""
    width, numbers = keys.shape[1], np.uint64(0xFFFFFFFF)
    true, doubtful = np.empty(width, np.float32), np.empty(width, np.int32)
    bits = true.view(np.uint32)
    for i in range(len(keys)):
        own, values = keys[i], keys[i].view(np.float32)[1::2]
        begin, end = k, k
        if k < width:
            below = values[k] - doubts[i]
            while begin > 0 and not values[begin - 1] < below:
                begin -= 1
            above = values[k - 1] + doubts[i]
            while end < width and values[end] <= above:
                end += 1
        if end == k:  # all of the first are among the nearest
            begin = k
        for n in range(begin, end):
            doubtful[n] = max(row_of[np.int32(own[n] & numbers)], 0)
        fill_fetched(False, rows, doubtful[begin:end], queries[first + i], true[begin:end])
        for n in range(end):
            row = row_of[np.int32(own[n] & numbers)]
            if n >= begin and row >= 0:
                own[n] = _key(bits[n], row)
            else:
                own[n] = own[n] & ~numbers | np.uint64(np.uint32(row))
        if end > k:
            _move_smallest(own[begin:end], k - begin)


@_jit
def _move_smallest(keys, count):  # type: ignore[no-untyped-def]
    """Move the smallest keys to the front."""
    if count == 0:
        return
    last, kept = quickselect(keys.copy(), count - 1), 0
    for n in range(len(keys)):
        if keys[n] <= last and kept < count:
            keys[kept], kept = keys[n], kept + 1


@_jit
def _key(bits, number):  # type: ignore[no-untyped-def]
    """An integer in the order of a value that is not negative, by its bits, and of a number."""
    return np.uint64(bits) << np.uint64(32) | np.uint64(np.uint32(number))
