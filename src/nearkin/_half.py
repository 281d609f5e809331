"""Rows at half their size: the upper sixteen bits of a float32 (bfloat16), rounded to nearest.

They keep float32's range and about three digits. Scoring is bound by memory, and rows of half the
size are half as much to read; sums and M itself stay in float32.
"""

import numpy as np
from numpy.typing import NDArray

_ROWS = 16_384


def halved(X: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round every number of `X` to sixteen bits, as unsigned integers.

    Examples
    --------
    >>> bits = halved(np.array([[1.0, -2.0, 0.1]], np.float32))
    >>> (bits.astype(np.uint32) << 16).view(np.float32).tolist()
    [[1.0, -2.0, 0.10009765625]]
    """
    out = np.empty(X.shape, np.uint16)
    for lo in range(0, len(X), _ROWS):
        bits = np.ascontiguousarray(X[lo : lo + _ROWS], np.float32).view(np.uint32)
        # To nearest, ties to even.
        out[lo : lo + _ROWS] = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return out
