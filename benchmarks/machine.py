"""Facts about the machine and the revision, and its limits, for the head of every table."""

import os
import platform
import subprocess
import time

import numpy as np
from numba import njit

from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.byte_products import GROUPS, PANEL_ROWS, TILE_QUERIES, compare_tile
from nearkin.native.listed_scores import pair_scores


def facts() -> str:
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"{_cpu()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, numpy {np.__version__}, nearkin {revision}"
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def best_of(work, repeats: int = 5, clock=time.perf_counter) -> float:
    """Seconds of the fastest run: the one that others disturbed least."""
    times = []
    for _ in range(repeats):
        began = clock()
        work()
        times.append(clock() - began)
    return min(times)


def product_peak(size: int = 2_048) -> float:
    """Operations per second of a large single-precision matrix product, on all cores."""
    A = np.ones((size, size), np.float32)
    out = np.empty_like(A)
    with serial_blas():
        multiply_into(out, A, A)
        return 2 * size**3 / best_of(lambda: multiply_into(out, A, A))


@njit
def _tiles(panels, codes, start, factors, values, masks, repeats):
    for _ in range(repeats):
        for panel in range(len(panels)):
            compare_tile(
                panels, panel, codes, panels.shape[1] // 64, TILE_QUERIES, start, factors, factors,
                factors, values, masks,
            )  # fmt: skip


def byte_product_peak() -> float:
    """Products of bytes per second, of tiles whose factors stay in the first cache; one core."""
    panels, codes = np.ones((4, 16 * 192), np.uint8), np.ones((1, TILE_QUERIES, GROUPS), np.int32)
    start, factors = np.zeros(TILE_QUERIES, np.int32), np.zeros(4 * TILE_QUERIES, np.float32)
    values = np.empty((TILE_QUERIES, PANEL_ROWS), np.float32)
    masks = np.empty(TILE_QUERIES, np.uint16)
    _tiles(panels, codes, start, factors, values, masks, 1)
    given = panels, codes, start, factors, values, masks, 10_000
    seconds = best_of(lambda: _tiles(*given), clock=time.process_time)
    return 10_000 * panels.size * TILE_QUERIES / seconds


@njit(cache=True, fastmath=True)
def _read(a):
    total = np.float32(0)
    for i in range(len(a)):
        total += a[i]
    return total


def copy_bandwidth(megabytes: int = 512) -> float:
    """Bytes per second of reading in order, on one core."""
    a = np.ones(megabytes << 18, np.float32)
    _read(a)
    return a.nbytes / best_of(lambda: _read(a), clock=time.process_time)


def gather_bandwidth(D: int, megabytes: int = 2_048, threads: int | None = None) -> float:
    """Bytes per second of inner products with rows in random order, as scoring does them."""
    from nearkin.native.threads import limited, n_threads

    rows = np.ones((max(1, (megabytes << 18) // D), D), np.float32)
    near = np.random.default_rng(0).integers(0, len(rows), (64, 500)).astype(np.int32)
    queries = rows[:64]
    with limited(threads or n_threads()):
        pair_scores(queries, rows, near)
        return near.size * D * 4 / best_of(lambda: pair_scores(queries, rows, near))
