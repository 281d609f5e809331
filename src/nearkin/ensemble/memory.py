"""The memory that a fit of SL-DE needs beside its rows, stage by stage."""

from typing import Any

from nearkin.learning.blocks import BLOCK
from nearkin.learning.memory import DEGREE, ROW_BYTES, fit_bytes, quantized_bytes
from nearkin.neighbors.memory import FIXED_BYTES, LIST_BYTES, partition_bytes
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
