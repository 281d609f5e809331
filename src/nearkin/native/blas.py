"""In-place matrix products by single-threaded BLAS calls, parallel over column panels.

Learning does not use numpy's ``@`` for three reasons, each measured:

* numpy and scipy bring a BLAS each, whose idle threads spin; alternating between the two, or
  sharing a core with another process, slows a product of 0.1 ms down to 17 ms;
* their results depend, in the last bits, on the number of threads; those of panels of a fixed
  width do not, so that a seed gives the same matrix on any number of cores;
* ``M += AᵀB`` would need a D×D temporary.

BLAS is therefore called without the GIL, on one thread, once per panel.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

from nearkin.native.threads import blas_limit, in_parallel

Array = NDArray[np.float32]

PANEL = 512
TILE = 48  # rows: what BLAS has left over of its tiles (12, 16) it sums in another order
_PARALLEL_FLOPS = 20e6  # smaller products are done before another thread has woken up
_INT, _FLOAT = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_float)
_sgemm = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_char_p, _INT, _INT, _INT, _FLOAT,
    ctypes.c_void_p, _INT, ctypes.c_void_p, _INT, _FLOAT, ctypes.c_void_p, _INT,
)(get_cython_function_address("scipy.linalg.cython_blas", "sgemm"))  # fmt: skip


@contextmanager
def serial_blas() -> Iterator[None]:
    """Run BLAS on one thread inside the block; `multiply_into` uses the cores by its panels."""
    with blas_limit.to(1):
        yield


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
    """``out ← scale·A·B + keep·out``, optionally with A or B transposed.

    All arrays are float32 with contiguous rows. Panels of `panel` columns run in parallel.

    Examples
    --------
    >>> out = np.ones((2, 2), np.float32)
    >>> multiply_into(out, np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), keep=10)
    >>> out.tolist()
    [[11.0, 10.0], [10.0, 11.0]]
    """
    left, depth = A.shape[::-1] if left_transposed else A.shape
    right = B.shape[::-1] if right_transposed else B.shape
    if right != (depth, out.shape[1]) or left != out.shape[0]:
        raise ValueError(f"out, A and B have shapes {out.shape}, {A.shape} and {B.shape}")
    if out.size == 0:
        return

    def fill(lo: int, hi: int) -> None:
        part = B[lo:hi] if right_transposed else B[:, lo:hi]
        _gemm(out[:, lo:hi], A, part, scale, keep, left_transposed, right_transposed, depth)

    width = out.shape[1]
    panels = [(lo, min(lo + panel, width)) for lo in range(0, width, panel)]
    if 2 * out.size * depth < _PARALLEL_FLOPS:
        for lo, hi in panels:
            fill(lo, hi)
    else:
        in_parallel(fill, panels)


def project_rows(rows: Array, directions: Array, out: Array | None = None) -> Array:
    """``rows · directionsᵀ``; a row's bits depend neither on threads nor, among many, on others.

    A single direction is not left to BLAS: in a matrix-vector product the position of a row
    decides the order of its sum.
    """
    if len(directions) == 1:
        return np.einsum("nd,kd->nk", rows, directions, out=out)
    rows = np.asarray(rows, np.float32)
    made = np.empty((len(rows), len(directions)), np.float32) if out is None else out

    def fill(lo: int, hi: int) -> None:
        if hi <= len(rows):
            np.matmul(rows[lo:hi], directions.T, out=made[lo:hi])
            return
        whole = np.zeros((hi - lo, rows.shape[1]), np.float32)
        whole[: len(rows) - lo] = rows[lo:]
        made[lo:] = (whole @ directions.T)[: len(rows) - lo]

    with serial_blas():
        in_parallel(fill, _panels(len(rows)))
    return made


def _panels(n: int) -> list[tuple[int, int]]:
    """Ranges of rows that BLAS treats alike, whatever their number: the last is filled up."""
    if n <= TILE:
        return [(0, n)]
    first = min(PANEL, -(-n // TILE) * TILE)
    return [(0, first), *((lo, lo + PANEL) for lo in range(PANEL, n, PANEL))]


def _gemm(
    out: Array, A: Array, B: Array, scale: float, keep: float, ta: bool, tb: bool, depth: int
) -> None:
    """One BLAS call. BLAS is column-major, so it computes (A·B)ᵀ = Bᵀ·Aᵀ."""
    contiguous = all(a.strides[1] == 4 or a.size == 0 or a.shape[1] == 1 for a in (out, A, B))
    assert contiguous, "rows of out, A and B must be contiguous"
    m, n, k = (ctypes.c_int(v) for v in (out.shape[1], out.shape[0], depth))
    # numpy leaves the row stride of matrices with fewer than two rows undefined.
    lda, ldb, ldc = (ctypes.c_int(max(1, a.shape[1], a.strides[0] // 4)) for a in (B, A, out))
    _sgemm(
        b"T" if tb else b"N", b"T" if ta else b"N", m, n, k, ctypes.c_float(scale),
        B.ctypes.data, lda, A.ctypes.data, ldb, ctypes.c_float(keep), out.ctypes.data, ldc,
    )  # fmt: skip
