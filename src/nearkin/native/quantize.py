"""Rows at a quarter of their size: a byte for every number, a scale for every column.

Scoring is bound by memory, and bytes are a quarter as much to read. A column's scale is that of its
largest number, so that the small ones behind a few large ones keep their digits; it is multiplied
into the query, whose numbers get up to sixteen bits. The products are then sums of whole numbers,
the same in whatever order. Steps along few rows, such as the hardest pair, are taken with the rows
as they are; where a rule weighs them all, their rounding averages out.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import LINE, add_scaled_codes, product_sum
from nearkin.native.jit import compiled
from nearkin.native.vectors import dot

_LARGEST, _LARGEST_WORD, _LARGEST_SUM = 127, 2**15 - 1, 2**31 - 2**24
_SMALLEST = np.float32(1e-30)  # what is smaller may lose digits when multiplied in float32
_BYTES = 4 << 20  # of the rows that are being rounded
_jit = compiled(fastmath=False, error_model="numpy")
_GROUP = 16  # rows that are added up line by line; they stay in the nearest cache


class Rounded(NamedTuple):
    """Rows as bytes; column d stands for ``codes[:, d] * scales[d]``. Without rows, not in use.

    Rows of codes begin with a cache line and are filled up with zeros to its end. No row is further
    than `off` from what its codes stand for, and no row's codes add up, without their signs, to
    more than `most`.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    off: float
    most: float


def no_rows() -> Rounded:
    """In the place of rounded rows where rows are compared as they are."""
    return Rounded(np.empty((0, 0), np.int8), np.empty(0, np.float32), 0.0, 0.0)


def rounded(X: NDArray[np.float32]) -> Rounded:
    """Round every number of `X` to a byte, block by block.

    Examples
    --------
    >>> rows = rounded(np.array([[1.0, -0.2], [0.5, 0.1]], np.float32))
    >>> rows.codes[:, :2].tolist()
    [[127, -127], [64, 64]]
    """
    n, dims = X.shape
    step = max(1, _BYTES // (4 * dims))
    parts = [slice(lo, lo + step) for lo in range(0, n, step)]
    largest = np.zeros(dims, np.float32)
    for part in parts:
        np.maximum(largest, np.abs(X[part]).max(axis=0), out=largest)
    scales = largest / np.float32(_LARGEST)
    scales[scales < np.finfo(np.float32).tiny] = 0  # few digits: as far off as the column is large
    codes = _lines(n, dims)
    divisors = np.where(scales > 0, scales, 1)
    off, length, most = 0.0, 0.0, 0.0
    for part in parts:
        whole = np.rint(X[part] / divisors)
        codes[part, :dims] = whole
        most = max(most, float(np.abs(whole).sum(axis=1).max()))
        off = max(off, _longest(X[part] - whole * scales))
        length = max(length, _longest(X[part]))
    # Sums in float32 are off, too, and so is the length of a query that this is multiplied by.
    unit = float(np.finfo(np.float32).eps) * (dims + 8)
    return Rounded(codes, scales, (off + unit * length) * (1 + unit), most)


def _longest(rows: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64).max(initial=0)))


def _lines(n: int, dims: int) -> NDArray[np.int8]:
    """Room for rows that begin with a cache line; what is left of their last line is zero."""
    width = -(-dims // LINE) * LINE
    room = np.empty(n * width + LINE, np.int8)
    start = -room.ctypes.data % LINE
    codes = room[start : start + n * width].reshape(n, width)
    codes[:, dims:] = 0
    return codes


@_jit
def round_query(q, scales, out):  # type: ignore[no-untyped-def]
    """Fill `out` with whole numbers for ``q · scales``; return what one of them is worth."""
    terms = np.empty(len(scales), np.float32)
    for d in range(len(terms)):
        terms[d] = q[d] * scales[d]
    largest = _largest(terms)
    if not 0 < largest < np.inf:
        out[:] = 0
        return np.float32(0 if largest == 0 else np.nan)
    most = np.float32(min(float(_LARGEST_WORD), _LARGEST_SUM / (_LARGEST * len(scales))))
    half = np.float32(0.5)
    for d in range(len(scales)):
        value = terms[d] / largest * most
        out[d] = np.int16(value + half if value > 0 else value - half)
    return largest / most


@_jit
def _largest(terms):  # type: ignore[no-untyped-def]
    """The largest size; no number, if one of them is none.

    Numbers without a sign are in the order of their bits, and whole numbers are compared many at a
    time.
    """
    bits = terms.view(np.int32)
    largest = np.int32(0)
    for d in range(len(bits)):
        largest = max(largest, np.int32(bits[d] & np.int32(0x7FFFFFFF)))
    return np.array([largest], np.int32).view(np.float32)[0]


@_jit
def doubt(q, worth, rounded):  # type: ignore[no-untyped-def]
    """How far the product of a query with a rounded row can be from that with the row itself."""
    length2 = dot(q, q)
    if worth < _SMALLEST or length2 < _SMALLEST:
        return np.inf
    # Numbers of a query are rounded to the nearest whole one, after three operations in float32.
    return math.sqrt(length2) * rounded.off + 0.51 * worth * rounded.most


@_jit
def whole_dot(q, codes):  # type: ignore[no-untyped-def]
    """Inner product of a rounded query with a rounded row."""
    return product_sum(q, codes)


@_jit
def add_rounded(out, weights, rounded, near, first, last):  # type: ignore[no-untyped-def]
    """``out += Σ_n weights[n] · x_near[n]`` in the columns ``first:last``.

    `first` begins a line (`_walk._columns` sees to it): lines are added up as a whole.
    """
    used = weights != 0
    near, weights = near[used], weights[used]
    sums = np.zeros(rounded.codes.shape[1], np.float32)
    for lo in range(0, len(near), _GROUP):
        hi = min(lo + _GROUP, len(near))
        for start in range(first, last, LINE):
            add_scaled_codes(sums, weights, rounded.codes, near, lo, hi, start)
    for d in range(first, last):
        out[d] += rounded.scales[d] * sums[d]
