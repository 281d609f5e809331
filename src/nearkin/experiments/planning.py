"""What a training run will take on this machine: memory, disk and time, from a short probe."""

import time
from typing import Any

import numpy as np

from nearkin import _memory
from nearkin._blas import multiply_into, serial_blas
from nearkin._kernel import pair_scores
from nearkin._threads import limited
from nearkin._validation import check_number
from nearkin.neighbors import EXACT_ROWS

PROBE_SECONDS = 0.6
DEGREE = 1.4  # edges a row after symmetrising, in units of k (measured on real data)


def memory(rows: int, dims: int, k: int, members: int = 0) -> _memory.Stages:
    """Bytes of each stage, beside the rows."""
    if not members:
        return _memory.fit_bytes(rows, dims, k)
    width = max(1, dims // members)
    return _memory.ensemble_bytes(rows, dims, k, width=width, members=members, jobs=1, joint=False)


def estimate(rows: int, dims: int, k: int, members: int = 0) -> dict[str, Any]:
    """Memory, disk and seconds to expect for a fit.

    Examples
    --------
    >>> plan = estimate(10_000, 64, 20)
    >>> plan["rows_MiB"], plan["seconds_an_epoch"] > 0
    (2.4, True)
    """
    for name, value, low in (("rows", rows, 2), ("dims", dims, 1), ("k", k, 1)):
        check_number(name, value, low)
    if k >= rows:
        raise ValueError(f"k={k} must be smaller than the number of rows, {rows}")
    edges, stages = DEGREE * k * rows, memory(rows, dims, k, members)
    flops, gather = _product_speed(), _gather_speed(dims)
    width = max(1, dims // members) if members else dims
    per_row = 4.0 * width**2 / flops + DEGREE * k * width * 4 / gather
    result: dict[str, Any] = {
        "rows_MiB": _mib(4.0 * rows * dims),
        "graph_MiB": _mib(4 * edges),
        "matrix_MiB": _mib(4.0 * dims**2),
        "memory_beside_rows_MiB": {s: _mib(size) for s, size in stages.items()},
        "memory_there_MiB": _mib(_memory.available() or 0),
        "seconds_an_epoch": round(rows * per_row * max(1, members), 2),
        "seconds_for_exact_neighbors": round(2.0 * rows * rows * dims / flops, 1),
        "neighbors": "exact" if rows <= EXACT_ROWS else "approximate by default: faster",
    }
    if members:
        result["disk_MiB_a_member"] = _mib(4.0 * rows * width)
    return result


def _mib(size: float) -> float:
    return round(size / 2**20, 1)


def _product_speed(size: int = 1_024) -> float:
    A = np.ones((size, size), np.float32)
    out = np.empty_like(A)
    with serial_blas():
        return 2.0 * size**3 / _fastest(lambda: multiply_into(out, A, A))


def _gather_speed(dims: int) -> float:
    """Bytes a second of scoring rows in random order, on one core, as learning does."""
    rows = np.ones((max(1_000, (256 << 18) // dims), dims), np.float32)
    near = np.random.default_rng(0).integers(0, len(rows), (32, 200)).astype(np.int32)
    queries = rows[:32]
    with limited(1):
        return near.size * dims * 4 / _fastest(lambda: pair_scores(queries, rows, near))


def _fastest(work: Any) -> float:
    work()  # compile, touch
    best, began = np.inf, time.perf_counter()
    while time.perf_counter() - began < PROBE_SECONDS:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)
