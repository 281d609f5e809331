"""Compiled vector operations on rows: dot products, scaled sums, copies, prefetching.

Two conventions keep compile times short. Arrays that are only read are passed through `read_only`,
so that memory maps and arrays share one specialisation; and slices are copied with `copy`, because
``a[:] = b`` in numba compiles its error message as well, which takes two seconds.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import prefetch
from nearkin.native.jit import compiled

T = TypeVar("T", bound=np.generic)

PREFETCH_BYTES = 4_000  # in flight while a row is read; measured for rows of 128 to 4,000 bytes
CACHE_BYTES = 8 << 20  # arrays up to this size stay in the cache and need no prefetching

# Reassociation lets dot products vectorise; NaN and infinity must be preserved.
# Division by zero gives infinity, as in numpy: a fit that diverges is reported after its epoch.
jit = compiled(fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")


def read_only(array: NDArray[T]) -> NDArray[T]:
    """A plain, read-only view of the array."""
    view = np.asarray(array)[:]
    view.flags.writeable = False
    return view


@jit
def dot(a, b):  # type: ignore[no-untyped-def]
    """Inner product in float32; the order of summation is the compiler's."""
    total = np.float32(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@jit
def add_scaled(out, scale, row):  # type: ignore[no-untyped-def]
    """``out += scale · row``."""
    for d in range(len(out)):
        out[d] += scale * row[d]


@jit
def copy(out, row):  # type: ignore[no-untyped-def]
    """``out[:] = row``."""
    for d in range(len(out)):
        out[d] = row[d]


@jit
def prefetch_row(row):  # type: ignore[no-untyped-def]
    """Prefetch all cache lines of a row."""
    for byte in range(0, len(row) * row.itemsize, 64):
        prefetch(row, byte)


@jit
def prefetch_distance(X):  # type: ignore[no-untyped-def]
    """How many rows ahead to prefetch; 0 where all of `X` fits the cache."""
    if X.size * X.itemsize <= CACHE_BYTES:
        return 0
    return PREFETCH_BYTES // max(1, X.shape[1] * X.itemsize) + 1


@jit
def quickselect(values, n):  # type: ignore[no-untyped-def]
    """The n-th smallest value, by Hoare's algorithm; reorders `values`.

    Hand-written because numba's ``np.partition`` takes eight seconds to compile.
    """
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
