"""What a training run will take on this machine: memory, disk and time, from a short probe."""

import time
from typing import Any

import numpy as np

from nearkin._blas import multiply_into, serial_blas
from nearkin._kernel import pair_scores
from nearkin._threads import limited
from nearkin._validation import check_number
from nearkin.neighbors import EXACT_ROWS

PROBE_SECONDS = 0.6
DEGREE = 1.4  # edges a row after symmetrising, in units of k (measured on real data)


def estimate(rows: int, dims: int, k: int, members: int = 0, epochs: int = 20) -> dict[str, Any]:
    """Memory, disk and seconds to expect for a fit.

    Parameters
    ----------
    rows, dims, k : int
        Of the data as the learner gets it, after preprocessing.
    members : int
        Of an ensemble whose members share the dimensions; 0 is a single learner.
    epochs : int

    Examples
    --------
    >>> plan = estimate(10_000, 64, 20)
    >>> plan["rows_MiB"], plan["seconds_an_epoch"] > 0
    (2.4, True)
    """
    limits = (("rows", rows, 2), ("dims", dims, 1), ("k", k, 1), ("members", members, 0),
              ("epochs", epochs, 1))  # fmt: skip
    for name, value, low in limits:
        check_number(name, value, low)
    if k >= rows:
        raise ValueError(f"k={k} must be smaller than the number of rows, {rows}")
    if members > dims:
        raise ValueError(f"members={members} cannot share {dims} dims; give at most {dims}")
    edges = DEGREE * k * rows
    flops, gather = _product_speed(), _gather_speed(min(dims, 16_384))
    width = max(1, dims // members) if members else dims
    per_row = 4.0 * width**2 / flops + DEGREE * k * width * 4 / gather
    epoch = rows * per_row * max(1, members)
    search = 2.0 * rows * rows * dims / flops
    result: dict[str, Any] = {
        "rows_MiB": _mib(4.0 * rows * dims),
        "graph_MiB": _mib(4 * edges),
        "matrix_MiB": _mib(4.0 * dims**2),
        "memory_beside_rows_MiB": _mib(4 * edges + 8.0 * k * rows + 12.0 * width**2),
        "disk_for_rows_and_model_MiB": _mib(4.0 * (2 * rows * dims + dims**2)),
        "disk_for_neighbors_MiB": _mib(8.0 * rows * k),
        "seconds_for_exact_neighbors": _rounded(search),
        "neighbors": "exact" if rows <= EXACT_ROWS else "approximate by default: faster",
        "seconds_an_epoch": _rounded(epoch),
        "seconds_for_all_epochs": _rounded(epoch * epochs),
        "note": "one core; the vote is chosen by a second fit, which doubles the epochs",
    }
    if members:
        result["disk_MiB_a_member"] = _mib(4.0 * rows * width)
    return result


def _mib(size: float) -> float:
    return round(size / 2**20, 1)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")


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
