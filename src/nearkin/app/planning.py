"""Memory, disk and time that a training takes on this machine, estimated by a short probe."""

import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.ensemble.memory import ensemble_bytes
from nearkin.learning.memory import fit_bytes
from nearkin.native.threads import limited
from nearkin.neighborhoods import Neighborhoods
from nearkin.neighbors.exact import SIEVE_QUERIES
from nearkin.neighbors.lists import QUERY_BLOCK
from nearkin.neighbors.registry import EXACT_ROWS
from nearkin.neighbors.search import nearest
from nearkin.neighbors.sizes import CODED_DIMS
from nearkin.slne import SLNE
from nearkin.validation import expect
from nearkin.validation.memory import available
from nearkin.validation.parameters import checked

PROBE_SECONDS = 0.7  # of the learner; the probe of the search takes less
SEARCH_SECONDS = 0.2  # of a probe of the search that is long enough
PROBE_FLOATS = 16 << 20  # of the probe's rows: more than the caches hold
MAX_DIMS = 8_192  # of the probe; beyond, matrix products dominate and the cost grows with dims²
MAX_DEGREE = 2_000
# A search by cells is not probed. Measured, as CPU seconds of a core (docs/performance.md): 50,000
# rows at D=1,000, k=15, 100 and 500 in 4.0, 5.3 and 9.8 s. Made-up rows in clusters, by hand:
# 110,000 rows in 3.2 s at D=32, k=10, 4.8 s at D=64, k=50, 7.2 s at D=256, k=20. All are met
# within a factor of two.
CELLS_ROWS, CELLS_POWER = 1.2e6, 1.25
# Of CELLS_ROWS, each: on two cores; for each coded dimension; for each number of k·D.
CELLS_SECONDS, CELLS_SECONDS_PER_DIM, CELLS_SECONDS_PER_NUMBER = 1e-5, 4e-7, 2.7e-10
TIMES = {"seconds": 1, "minutes": 60, "hours": 3_600, "days": 86_400}
SIZES = {"MiB": 1, "GiB": 1_024, "TiB": 1_024**2}
DEGREE = 1.4  # edges per row after symmetrising, in units of k (measured on real data)


@checked(
    rows=expect.whole(2, 10**12),
    dims=expect.whole(1),
    k=expect.whole(1),
    members=expect.whole(0),
    epochs=expect.whole(1),
)
def estimate(rows: int, dims: int, k: int, members: int = 0, epochs: int = 5) -> dict[str, Any]:
    """Estimate memory, disk and seconds of a fit.

    Parameters
    ----------
    rows, dims, k : int
        Shape of the data after preprocessing, and neighbours per row.
    members : int
        Members of an ensemble, which share the dimensions; 0: a single learner.
    epochs : int

    Examples
    --------
    >>> plan = estimate(10_000, 64, 20)
    >>> plan["rows_MiB"], plan["seconds_per_epoch"] > 0
    (2.4, True)
    """
    if k >= rows:
        raise ValueError(f"k={k} must be smaller than the number of rows, {rows}")
    if members > dims:
        raise ValueError(f"members={members} cannot share {dims} dims; give at most {dims}")
    width = dims // max(1, members)
    if members:
        stages = ensemble_bytes(rows, dims, k, width=width, members=members, jobs=1, coupled=True)
    else:
        stages = fit_bytes(rows, dims, k)
    epoch = rows * _step_seconds(rows, width, k, bool(members)) * max(1, members)
    free = available()
    result: dict[str, Any] = {
        "rows_MiB": _mib(4.0 * rows * dims),
        "graph_MiB": _mib(4 * DEGREE * k * rows),
        "matrix_MiB": _mib(4.0 * dims**2),
        "memory_without_rows_MiB": {s: _mib(size) for s, size in stages.items()},
        "memory_available_MiB": None if free is None else _mib(free),
        "verdict": verdict(stages, free),
        "disk_for_rows_and_model_MiB": _mib(4.0 * (2 * rows * dims + dims**2)),
        "disk_for_neighbors_MiB": _mib(8.0 * rows * k),
        **_search(rows, dims, k),
        "seconds_per_epoch": _rounded(epoch),
        "seconds_for_all_epochs": _rounded(epoch * epochs),
        "note": "at the machine's current load; cells as on two cores, within a factor of two; "
        "choosing the vote takes a second fit",
    }
    if members:
        result["disk_per_member_MiB"] = _mib(4.0 * rows * width)
        result["disk_for_scores_MiB"] = _mib(4 * DEGREE * k * rows)  # of edges, by all members
    return result


def verdict(stages: Mapping[str, int], free: int | None) -> str:
    """Whether the memory suffices for all stages; rows in a memory map need none.

    Examples
    --------
    >>> verdict({"graph": 2 << 30, "neighbours": 9 << 30}, 4 << 30)
    "too little memory: 'neighbours' needs 9.0 GiB of 4.0 GiB; lower k, or keep lists on disk"
    >>> verdict({"graph": 2 << 30}, 4 << 30)
    'fits: at most 2.0 GiB of 4.0 GiB'
    """
    stage = max(stages, key=lambda name: stages[name])
    need = _in_units(_mib(stages[stage]), SIZES)
    if free is None:
        return f"unknown: needs {need}, and this system does not say what there is"
    there = _in_units(_mib(free), SIZES)
    if stages[stage] <= free:
        return f"fits: at most {need} of {there}"
    advice = "lower k, or keep lists on disk" if stage == "neighbours" else "lower k or dims"
    return f"too little memory: {stage!r} needs {need} of {there}; {advice}"


def readable(estimate: dict[str, Any]) -> dict[str, Any]:
    """The estimate with sizes and times as text in suitable units.

    Examples
    --------
    >>> readable({"rows_MiB": 4577.6, "seconds_per_epoch": 529.0})
    {'rows': '4.5 GiB', 'time_per_epoch': '8.8 minutes'}
    """
    shown: dict[str, Any] = {}
    for name, value in estimate.items():
        if name.endswith("_MiB"):
            shown[name.removesuffix("_MiB")] = _in_units(value, SIZES)
        elif name.startswith("seconds_"):
            shown[name.replace("seconds", "time")] = _in_units(value, TIMES)
        else:
            shown[name] = value
    return shown


def _in_units(value: Any, units: Mapping[str, float]) -> Any:
    """A number in the largest unit that does not exceed it."""
    if isinstance(value, dict):
        return {name: _in_units(part, units) for name, part in value.items()}
    if value is None:
        return "unknown"
    smallest = next(iter(units))
    unit = max((u for u in units if value >= units[u]), key=lambda u: units[u], default=smallest)
    count = value / units[unit]
    return f"{count:.1f} {unit}" if count < 10 else f"{count:,.0f} {unit}"


def _search(rows: int, dims: int, k: int) -> dict[str, Any]:
    """The default method of the neighbour search, and its seconds."""
    pairs = float(rows) ** 2 * _pair_seconds(rows, dims, k)
    exact = {"seconds_for_exact_neighbors": _rounded(pairs)}
    if rows <= EXACT_ROWS:
        return {"neighbors": "exact"} | exact
    each = CELLS_SECONDS + CELLS_SECONDS_PER_DIM * min(dims, CODED_DIMS)
    each += CELLS_SECONDS_PER_NUMBER * k * dims
    cells = CELLS_ROWS * (rows / CELLS_ROWS) ** CELLS_POWER * each
    return {
        "neighbors": "by cells; exact with index='exact'",
        "seconds_for_neighbors_by_cells": _rounded(cells),
    } | exact


def _mib(size: float) -> float:
    return round(size / 2**20, 1)


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.3g}")


def _sample(rows: int, dims: int) -> NDArray[np.float32]:
    n = max(4, min(rows, PROBE_FLOATS // dims))
    X = np.random.default_rng(0).random((n, dims), np.float32) - np.float32(0.5)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def _step_seconds(rows: int, dims: int, k: int, one_thread: bool) -> float:
    """Seconds per row of an epoch, from a probe on rows with random neighbours."""
    probed, degree = min(dims, MAX_DIMS), min(int(DEGREE * k) + 1, MAX_DEGREE)
    X = _sample(rows, probed)
    _epoch(X, degree, 32)  # loads the compiled code
    few = min(256, len(X))
    guess = max(_epoch(X, degree, few), 1e-6) / few
    many = int(np.clip(PROBE_SECONDS / guess, few, len(X)))
    with limited(1) if one_thread else nullcontext():
        seconds = _epoch(X, degree, many) / many
    return seconds * (dims / probed) ** 2 * max(1.0, DEGREE * k / degree)


def _epoch(X: NDArray[np.float32], degree: int, visited: int) -> float:
    """Seconds of one epoch in which only the first `visited` rows have neighbours."""
    n = len(X)
    visited = min(visited, n)
    indptr = np.minimum(np.arange(n + 1), visited).astype(np.int64) * degree
    indices = np.random.default_rng(1).integers(0, n, visited * degree).astype(np.int32)
    targets = np.where(np.arange(n) < visited, degree // 2, 0).astype(np.int32)
    labels = np.arange(n) % 2
    model = SLNE("softmax", max_epochs=1, tol=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, labels, neighbors=Neighborhoods(indptr, indices, targets))
    return model.history_[0]["seconds"]


def _pair_seconds(rows: int, dims: int, k: int) -> float:
    """Seconds per pair of rows of the exact search."""
    probed = min(dims, MAX_DIMS)
    X = _sample(rows, probed)
    k, few, most = min(k, len(X)), 2, min(QUERY_BLOCK, len(X))

    def search(queries: int) -> float:
        start = time.perf_counter()
        nearest(X, k, queries=X[:queries], index="exact")
        return time.perf_counter() - start

    search(few)
    # As many queries as are sieved: a real search has them.
    fixed, many, seconds = min(search(few), search(few)), min(SIEVE_QUERIES, most), 0.0
    while (seconds := search(many)) < SEARCH_SECONDS and many < most:
        many = min(4 * many, most)  # a whole block of queries, where that is quick
    seconds = min(seconds, search(many))  # the machine may have been busy
    # The fixed cost of a search does not count: a real one has many more queries.
    return max(seconds - fixed, 1e-7) / (max(1, many - few) * len(X)) * dims / probed
