"""Rows at half their size: the upper sixteen bits of a float32 (bfloat16), rounded to nearest.

They keep float32's range and about three digits. Scoring is bound by memory, and rows of half the
size are half as much to read; sums and M itself stay in float32.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
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


@intrinsic
def widened(_: Any, number: Any) -> Any:
    """In compiled code: the float32 behind sixteen bits; a float32 is itself."""

    def widen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if number == types.float32:
            return arguments[0]
        word = ir.IntType(32)
        bits = builder.shl(builder.zext(arguments[0], word), ir.Constant(word, 16))
        return builder.bitcast(bits, ir.FloatType())

    if number in (types.float32, types.uint16):
        return types.float32(number), widen
    return None
