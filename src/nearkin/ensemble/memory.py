"""The memory that a fit of SL-DE needs beside its rows, stage by stage."""

from typing import Any

from joblib import cpu_count

from nearkin.learning.blocks import BLOCK
from nearkin.learning.memory import (
    DEGREE,
    ROW_BYTES,
    fit_bytes,
    listed,
    quantized_bytes,
    with_preparation,
)
from nearkin.learning.training_data import TrainingData
from nearkin.neighbors.memory import FIXED_BYTES, LIST_BYTES, partition_bytes
from nearkin.validation import memory
from nearkin.validation.memory import Stages


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
    quantized: bool = False,
    coupled: bool = False,
    **search: Any,
) -> Stages:
    """Bytes per stage for `members` projections to `width` dimensions, `jobs` at once.

    Rows of members and their graph are files that the workers map into memory.
    """
    alone = fit_bytes(rows, dims, k, **search)
    stages = {name: alone[name] for name in alone if name != "learning"}
    if local:
        graph = (LIST_BYTES + 4 * DEGREE) * rows * k
        stages["cells"] = graph + partition_bytes(rows, dims) + ROW_BYTES * rows + FIXED_BYTES
    projections = 4 * members * width * dims
    stages["projections"] = projections + 48 * min(rows, dims, 5_000) ** 2 + FIXED_BYTES
    shared = LIST_BYTES * rows * k + 4 * DEGREE * rows * k + ROW_BYTES * rows + projections
    # A worker process needs memory for its libraries, too.
    worker = 24 * width**2 + 4 * BLOCK * (6 * width + 2 * BLOCK) + ROW_BYTES * rows + FIXED_BYTES
    copy = quantized_bytes(rows, width) if quantized else 0
    worker += copy
    if coupled:  # the ensemble's score of each edge, mapped, and the others' part of it
        worker += 8 * DEGREE * rows * k
        shared += 4 * DEGREE * rows * k + 4 * dims**2
    stages["members"] = shared + jobs * (worker + (200 << 20 if jobs > 1 else 0))
    total = shared + 8 * dims**2 + 4 * members * width**2
    stages["ensemble"] = total + (20 * DEGREE * rows * k + 4 * rows * width + copy if joint else 0)
    return stages


def check_ensemble(model: Any, data: TrainingData, durable: bool) -> None:
    """Refuse a fit of SL-DE that does not fit into memory."""
    (n, D), neighbors = data.rows.shape, data.neighbors
    given = not isinstance(model.projection, str)
    members = len(model.projection) if given else model._size(D)
    width = max(map(len, model.projection)) if given else model.n_components
    width = int(width or max(1, D // members))
    k = min(model.n_neighbors, n - 1) if neighbors is None else listed(neighbors, n)
    jobs = min(members, cpu_count() if (model.n_jobs or 1) < 0 else model.n_jobs or 1)
    quantizes = getattr(model._prototype, "_quantizes", None)
    stages = ensemble_bytes(
        n, D, k, width=width, members=members, jobs=jobs, joint=model.joint_epochs > 0,
        local=model._local, quantized=bool(quantizes and quantizes(n, width)),
        coupled=model._coupling != "none", index=model.index, ready_lists=neighbors is not None,
    )  # fmt: skip
    if model.prepare is not None:
        stages = with_preparation(stages, n, D, durable)
    advice = f"lower n_neighbors={k}, n_components={width}, n_members={members} or n_jobs={jobs}"
    memory.check(f"an ensemble on {n} rows of {D} columns", stages, advice)
