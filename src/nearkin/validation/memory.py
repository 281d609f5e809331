"""The memory that a fit needs beside its rows: one formula, checked before anything is started.

Rows in a memory map are read through the page cache, which the system takes back when it is
needed elsewhere; what counts is the memory that is the process's own. The numbers of bytes were
measured (``python benchmarks/memory.py`` compares) and rounded up.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nearkin.learning.blocks import BLOCK
from nearkin.native.intrinsics import LINE
from nearkin.native.threads import n_threads
from nearkin.neighborhoods import Neighborhoods, NeighborLists
from nearkin.neighbors.base import EXACT_ROWS
from nearkin.neighbors.exact import DATABASE_BYTES, PRODUCT_BYTES
from nearkin.neighbors.faiss import FaissIndex
from nearkin.neighbors.lists import QUERY_BLOCK
from nearkin.neighbors.partition import DIMS, TRAIN_ROWS_A_CELL

Stages = dict[str, int]

DEGREE = 2  # edges a row after symmetrising, in units of k, at most; about 1.4 on real data
_FIXED = 48 << 20  # buffers of BLAS, compiled code, threads
_LIST, _DISTANCES = 4, 4  # bytes a listed neighbour
_GRAPH = 4 + 4 * DEGREE  # … while the graph is made from the lists, and the graph itself
_CANDIDATES = 4  # for each neighbour, in a search by cells; 2 or 3 on most data
_SEARCH = 72  # … of a block of queries, while the nearest are merged
_ROW = 150  # bytes a row for labels, order, steps and the like


def fit_bytes(
    rows: int,
    dims: int,
    k: int,
    *,
    index: str = "auto",
    ready_lists: bool = False,
    batch_size: int = 1,
    early_stopping: bool = False,
    spectral: bool = False,
    rounded: bool = False,
) -> Stages:
    """Bytes that each stage of a fit of SL-NE needs beside its rows; the largest is the bound.

    Examples
    --------
    >>> {stage: size >> 20 for stage, size in fit_bytes(1_200_000, 1_000, 50).items()}
    {'neighbours': 2681, 'graph': 1135, 'learning': 923}
    """
    lists = 0 if ready_lists else _LIST * rows * k
    extra = _ROW * rows + _FIXED
    stages = {} if ready_lists else {"neighbours": search_bytes(rows, dims, k, index) + extra}
    stages["graph"] = lists + _GRAPH * rows * k + extra
    block = min(BLOCK if batch_size == 1 else batch_size, rows)
    matrices = 4 * (2 + early_stopping + 4 * spectral) * dims**2
    blocks = 4 * block * (9 * dims + 4 * block if batch_size == 1 else 6 * dims)
    edges = 4 * DEGREE * rows * k
    copy = _rounded_bytes(rows, dims) if rounded else 0
    stages["learning"] = lists + edges + matrices + blocks + copy + extra
    return stages


def search_bytes(rows: int, dims: int, k: int, index: str) -> int:
    """Bytes of a search for the `k` nearest of all rows."""
    whole = 4 * rows * dims
    asking = min(QUERY_BLOCK, rows)
    queries = asking * (8 * dims + _SEARCH * (k + 1))
    lists = (_LIST + _DISTANCES) * rows * k + min(PRODUCT_BYTES, 4 * asking * rows)
    if index == "exact" or (index == "auto" and rows <= EXACT_ROWS):
        return lists + queries + min(whole, 2 * DATABASE_BYTES) + 16 * rows * n_threads()
    if index.startswith(("auto", "cells")):
        reduced = 3 * 4 * rows * min(DIMS, dims)  # as they come, in cells, and those of a search
        return lists + _CANDIDATES * queries + max(reduced, _partition_bytes(rows, dims))
    # An index grows by half as it fills, and keeps every row; a compressing one keeps less.
    sample = 2 * 4 * dims * min(rows, 2 * FaissIndex.TRAIN_ROWS)
    return lists + queries + max(3 * whole // 2 + 8 * rows, sample)


def _rounded_bytes(rows: int, dims: int) -> int:
    """Bytes of the rows that are compared where they are rounded."""
    return rows * -(-dims // LINE) * LINE


def _partition_bytes(rows: int, dims: int) -> int:
    """Bytes of the rows that k-means sees."""
    return 4 * dims * min(TRAIN_ROWS_A_CELL * 4 * int(rows**0.5), rows)


def ensemble_bytes(
    rows: int,
    dims: int,
    k: int,
    *,
    width: int,
    members: int,
    jobs: int,
    joint: bool = False,
    local: bool = False,
    rounded: bool = False,
    **search: Any,
) -> Stages:
    """The same for an ensemble of `members` projections to `width` dimensions, `jobs` at once.

    Rows of members and their graph are files that the workers map.
    """
    alone = fit_bytes(rows, dims, k, **search)
    stages = {name: alone[name] for name in alone if name != "learning"}
    if local:
        graph = (_LIST + 4 * DEGREE) * rows * k
        stages["cells"] = graph + _partition_bytes(rows, dims) + _ROW * rows + _FIXED
    projections = 4 * members * width * dims
    stages["projections"] = projections + 48 * min(rows, dims, 5_000) ** 2 + _FIXED
    shared = _LIST * rows * k + 4 * DEGREE * rows * k + _ROW * rows + projections
    # A worker starts with what its libraries take.
    a_worker = 24 * width**2 + 4 * BLOCK * (6 * width + 2 * BLOCK) + _ROW * rows + _FIXED
    copy = _rounded_bytes(rows, width) if rounded else 0
    a_worker += copy
    stages["members"] = shared + jobs * (a_worker + (200 << 20 if jobs > 1 else 0))
    total = shared + 8 * dims**2 + 4 * members * width**2
    stages["ensemble"] = total + (20 * DEGREE * rows * k + 4 * rows * width + copy if joint else 0)
    return stages


def listed(neighbors: NeighborLists, n: int) -> int:
    """Neighbours a row in ready-made lists or a graph, at least one."""
    if isinstance(neighbors, Neighborhoods):
        return max(1, len(neighbors.indices) // n)
    return max(1, (neighbors.nnz if sparse.issparse(neighbors) else np.size(neighbors)) // n)


def conversion_bytes(X: Any) -> int:
    """Bytes of the copy that is made of rows that are not float32 in C order."""
    shape = getattr(X, "shape", None) or (0, 0)
    ready = isinstance(X, np.ndarray) and X.dtype == np.float32 and X.flags.c_contiguous
    if ready or sparse.issparse(X) or len(shape) != 2:  # sparse rows are refused elsewhere
        return 0
    return 4 * int(shape[0]) * int(shape[1])


def check(what: str, stages: Mapping[str, int], advice: str) -> None:
    """Refuse to start what does not fit into the memory that is there."""
    there = available()
    stage = max(stages, key=lambda name: stages[name])
    if there is None or stages[stage] <= there:
        return
    raise MemoryError(
        f"{what} needs about {_shown(stages[stage])} of memory for its stage {stage!r}, and "
        f"{_shown(there)} are there; {advice}"
    )


def check_conversion(X: Any) -> None:
    """Refuse rows whose conversion to float32 does not fit into memory."""
    advice = "write them to a float32 .npy file and map it: np.load(path, mmap_mode='r')"
    size = conversion_bytes(X)
    if size:
        check("X", {"conversion to float32 in C order": size}, advice)


def available() -> int | None:
    """Bytes that this process can still have: of the machine, its control group, its limits."""
    known = [size for size in (_machine(), _group(), *_limits()) if size is not None]
    return max(0, min(known)) if known else None


def _machine() -> int | None:
    return _entry(Path("/proc/meminfo"), "MemAvailable")


def _entry(path: Path, name: str) -> int | None:
    """A line of the form ``name: 12 kB``, in bytes."""
    with suppress(OSError, ValueError, IndexError):
        for line in path.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return None


def _group(
    root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> int | None:
    """Room in the control groups, of either version, that the process is in."""
    rooms: list[int] = []
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            base = root / controllers
            folder = base / path.lstrip("/")
            names = ("memory.max", "memory.current")
            if controllers:
                names = "memory.limit_in_bytes", "memory.usage_in_bytes"
            # A limit may lie on any group above; inside a container the path may lead nowhere.
            for level in {base, folder, *folder.parents}:
                if level.is_relative_to(base):
                    rooms += _room(level, *names)
    return min(rooms, default=None)


def _room(level: Path, limit: str, used: str) -> list[int]:
    with suppress(OSError, ValueError):  # not there, or "max"
        most, now = int((level / limit).read_text()), int((level / used).read_text())
        # Pages of files count as used, but are given back when they are wanted.
        stat = dict(line.split() for line in (level / "memory.stat").read_text().splitlines())
        files = int(stat.get("inactive_file", 0)) + int(stat.get("active_file", 0))
        return [most - now + files]
    return []


def _limits() -> list[int]:
    """Room under ``ulimit -v`` (which counts memory maps, too) and ``ulimit -d``."""
    with suppress(ImportError):
        import resource

        status = Path("/proc/self/status")
        kinds = ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData"))
        limits = [(resource.getrlimit(kind)[0], _entry(status, name)) for kind, name in kinds]
        return [m - now for m, now in limits if m != resource.RLIM_INFINITY and now is not None]
    return []


def _shown(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"
