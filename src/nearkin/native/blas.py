"""Matrix products in place, cut into panels that threads share.

Numpy's and scipy's products are not used for learning, for three reasons, each measured:

* numpy and scipy bring a BLAS each, with threads that spin while idle; taking turns between the
  two, or sharing a core with another process, turns a product of 0.1 ms into one of 17 ms;
* their results change in the last bits with the number of threads; panels of a fixed width do
  not, so that a seed gives the same matrix on any number of cores;
* ``M += AᵀB`` would need a D×D temporary.

So BLAS itself runs single-threaded here, called without the GIL, one panel a call.
"""

import ctypes
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock

import numpy as np
from numba.extending import get_cython_function_address
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from nearkin.native.threads import in_parallel

Array = NDArray[np.float32]

PANEL = 512
WORTH_SHARING = 20e6  # operations; less is done before another thread has woken up
_INT, _FLOAT = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_float)
_sgemm = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_char_p, _INT, _INT, _INT, _FLOAT,
    ctypes.c_void_p, _INT, ctypes.c_void_p, _INT, _FLOAT, ctypes.c_void_p, _INT,
)(get_cython_function_address("scipy.linalg.cython_blas", "sgemm"))  # fmt: skip


@cache  # looking through all that a process has loaded takes 5 ms
def _libraries() -> ThreadpoolController:
    """The BLAS of numpy and scipy."""
    return ThreadpoolController().select(user_api="blas")


class _Serial:
    """The limit is the process's: the first to ask sets it, the last to leave takes it back."""

    def __init__(self) -> None:
        self.lock, self.users, self.limit = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                self.limit.enter_context(_libraries().limit(limits=1))
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.close()


_serial = _Serial()


@contextmanager
def serial_blas() -> Iterator[None]:
    """Keep BLAS to one thread a call inside the block; the panels make use of the cores."""
    _serial.enter()
    try:
        yield
    finally:
        _serial.leave()


def multiply_into(
    out: Array,
    A: Array,
    B: Array,
    *,
    scale: float = 1.0,
    keep: float = 0.0,
    left_transposed: bool = False,
    right_transposed: bool = False,
    panel: int = PANEL,
) -> None:
    """``out ← scale·A·B + keep·out``, with A or B transposed if asked.

    All arrays are float32 with contiguous rows. Threads share panels of `panel` columns.

    Examples
    --------
    >>> out = np.ones((2, 2), np.float32)
    >>> multiply_into(out, np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), keep=10)
    >>> out.tolist()
    [[11.0, 10.0], [10.0, 11.0]]
    """
    depth = A.shape[0] if left_transposed else A.shape[1]
    if out.size == 0:
        return

    def fill(lo: int, hi: int) -> None:
        part = B[lo:hi] if right_transposed else B[:, lo:hi]
        _gemm(out[:, lo:hi], A, part, scale, keep, left_transposed, right_transposed, depth)

    width = out.shape[1]
    panels = [(lo, min(lo + panel, width)) for lo in range(0, width, panel)]
    if 2 * out.size * depth < WORTH_SHARING:
        for lo, hi in panels:
            fill(lo, hi)
    else:
        in_parallel(fill, panels)


def _gemm(
    out: Array, A: Array, B: Array, scale: float, keep: float, ta: bool, tb: bool, depth: int
) -> None:
    """One call of BLAS, which reads columns first: hand it (A·B)ᵀ = Bᵀ·Aᵀ."""
    assert all(a.strides[1] == 4 or a.size == 0 or a.shape[1] == 1 for a in (out, A, B)), "rows"
    m, n, k = (ctypes.c_int(v) for v in (out.shape[1], out.shape[0], depth))
    # Of a matrix of one row or none numpy does not say how far the next row would be.
    lda, ldb, ldc = (ctypes.c_int(max(1, a.shape[1], a.strides[0] // 4)) for a in (B, A, out))
    _sgemm(
        b"T" if tb else b"N", b"T" if ta else b"N", m, n, k, ctypes.c_float(scale),
        B.ctypes.data, lda, A.ctypes.data, ldb, ctypes.c_float(keep), out.ctypes.data, ldc,
    )  # fmt: skip
