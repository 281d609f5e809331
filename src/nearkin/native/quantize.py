"""int8 quantisation of rows, with one scale per column.

Scoring is bound by memory bandwidth, and int8 codes are a quarter of float32. The scale of a column
is that of its largest entry, so that small columns beside large ones keep their precision. Scales
are multiplied into the query, which is quantised to up to 16 bits; products are then sums of
integers, exact in any order. Steps along few rows, such as those of the hardest pair, use the
float32 rows; in a weighted sum of many rows the quantisation errors average out.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import CACHE_LINE, add_scaled_codes, int_dot
from nearkin.native.jit import compiled

_MAX_CODE, _MAX_QUERY_CODE, _MAX_SUM = 127, 2**15 - 1, 2**31 - 2**24
_MIN_NORMAL = np.float32(1e-30)  # smaller factors may lose digits in float32 products
_BLOCK_BYTES = 4 << 20  # of float32 rows that are quantised at a time
_ROWS_PER_GROUP = 16  # rows that are summed column block by column block; they stay in L1
_jit = compiled(fastmath=False, error_model="numpy")


class QuantizedRows(NamedTuple):
    """Rows as int8 codes: ``X[:, d] ≈ codes[:, d] * scales[d]``. Without rows, not in use.

    Rows of codes start at a cache line and are padded with zeros to the end of one. `row_error` is
    an upper bound of the Euclidean error of any row; `max_code_sum` one of any row's sum of
    absolute codes.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    row_error: float
    max_code_sum: float


def no_quantized_rows() -> QuantizedRows:
    """The empty value, for scoring with the float32 rows."""
    return QuantizedRows(np.empty((0, 0), np.int8), np.empty(0, np.float32), 0.0, 0.0)


def quantize_rows(X: NDArray[np.float32]) -> QuantizedRows:
    """Quantise `X` to int8, block by block.

    Examples
    --------
    >>> rows = quantize_rows(np.array([[1.0, -0.2], [0.5, 0.1]], np.float32))
    >>> rows.codes[:, :2].tolist()
    [[127, -127], [64, 64]]
    """
    n, dims = X.shape
    step = max(1, _BLOCK_BYTES // (4 * dims))
    blocks = [slice(lo, lo + step) for lo in range(0, n, step)]
    largest = np.zeros(dims, np.float32)
    for block in blocks:
        np.maximum(largest, np.abs(X[block]).max(axis=0), out=largest)
    scales = largest / np.float32(_MAX_CODE)
    scales[scales < np.finfo(np.float32).tiny] = 0  # subnormal: the column counts as error
    codes = aligned_codes(n, dims)
    divisors = np.where(scales > 0, scales, 1)
    error, length, code_sum = 0.0, 0.0, 0.0
    for block in blocks:
        whole = np.rint(X[block] / divisors)
        codes[block, :dims] = whole
        code_sum = max(code_sum, float(np.abs(whole).sum(axis=1).max()))
        error = max(error, _max_length(X[block] - whole * scales))
        length = max(length, _max_length(X[block]))
    # Float32 sums have rounding errors of their own, and so does the query length in the bound.
    unit = float(np.finfo(np.float32).eps) * (dims + 8)
    return QuantizedRows(codes, scales, (error + unit * length) * (1 + unit), code_sum)


def _max_length(rows: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64).max(initial=0)))


def aligned_codes(n: int, dims: int) -> NDArray[np.int8]:
    """An uninitialised (n, dims) array with rows padded by zeros to whole cache lines."""
    width = -(-dims // CACHE_LINE) * CACHE_LINE
    buffer = np.empty(n * width + CACHE_LINE, np.int8)
    start = -buffer.ctypes.data % CACHE_LINE
    codes = buffer[start : start + n * width].reshape(n, width)
    codes[:, dims:] = 0
    return codes


@_jit
def quantize_query(q, scales, codes):  # type: ignore[no-untyped-def]
    """Fill `codes` (int16) for ``q · scales``; return the quantisation step.

    The step is 0 for a query of zeros and NaN for one that is not finite.
    """
    terms = np.empty(len(scales), np.float32)
    for d in range(len(terms)):
        terms[d] = q[d] * scales[d]
    largest = _max_abs(terms)
    if not 0 < largest < np.inf:
        codes[:] = 0
        return np.float32(0 if largest == 0 else np.nan)
    # With fewer bits where a sum over all columns could overflow 32 bits.
    max_code = np.float32(min(float(_MAX_QUERY_CODE), _MAX_SUM / (_MAX_CODE * len(scales))))
    half = np.float32(0.5)
    for d in range(len(scales)):
        value = terms[d] / largest * max_code
        codes[d] = np.int16(value + half if value > 0 else value - half)
    return largest / max_code


@_jit
def _max_abs(terms):  # type: ignore[no-untyped-def]
    """Largest absolute value, or NaN if there is one.

    Without their sign, floats are ordered as their bits are, and comparing integers vectorises.
    """
    bits = terms.view(np.int32)
    largest = np.int32(0)
    for d in range(len(bits)):
        largest = max(largest, np.int32(bits[d] & np.int32(0x7FFFFFFF)))
    return np.array([largest], np.int32).view(np.float32)[0]


@_jit
def score_error_bound(length2, quantization_step, quantized):  # type: ignore[no-untyped-def]
    """Upper bound of the error of a quantised score, for a query of squared length `length2`."""
    if quantization_step < _MIN_NORMAL or length2 < _MIN_NORMAL:
        return np.inf
    # A query code is off by half a step, and a little more for three float32 operations.
    query_error = 0.51 * quantization_step
    return math.sqrt(length2) * quantized.row_error + query_error * quantized.max_code_sum


@_jit
def quantized_dot(query_codes, codes):  # type: ignore[no-untyped-def]
    """Integer inner product of a quantised query with a quantised row."""
    return int_dot(query_codes, codes)


@_jit
def add_quantized(out, weights, quantized, near, first, last):  # type: ignore[no-untyped-def]
    """``out += Σ_n weights[n] · x_near[n]`` in the columns ``first:last``.

    `first` is a multiple of the cache line: columns are summed in whole lines.
    """
    used = weights != 0
    near, weights = near[used], weights[used]
    sums = np.zeros(quantized.codes.shape[1], np.float32)
    for lo in range(0, len(near), _ROWS_PER_GROUP):
        hi = min(lo + _ROWS_PER_GROUP, len(near))
        for start in range(first, last, CACHE_LINE):
            add_scaled_codes(sums, weights, quantized.codes, near, lo, hi, start)
    for d in range(first, last):
        out[d] += quantized.scales[d] * sums[d]
