"""The memory that a fit, of SL-NE or of a classifier, needs beside its rows, stage by stage.

Rows in a memory map are read through the page cache, which the system takes back when it is needed
elsewhere; what counts is the process's own memory. The bytes were measured
(``python benchmarks/memory.py`` compares) and rounded up.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.learning.blocks import BLOCK
from nearkin.learning.training_data import TrainingData
from nearkin.native.intrinsics import CACHE_LINE
from nearkin.neighborhoods import Neighborhoods, NeighborLists
from nearkin.neighbors.memory import FIXED_BYTES, LIST_BYTES, search_bytes
from nearkin.neighbors.retrieval import index_description
from nearkin.preprocessing.pca import BLOCK_BYTES, MAX_EIGH_SIZE
from nearkin.preprocessing.prepared import FITTED_ROWS
from nearkin.preprocessing.transformers import may_learn_from_labels, search_width_of, width_of
from nearkin.validation import memory
from nearkin.validation.memory import Stages
from nearkin.validation.parameters import is_fitted
from nearkin.voting.parts import MAX_PLAIN_COPY
from nearkin.voting.refinement import MOST_BYTES
from nearkin.voting.votes import as_vote

DEGREE = 2  # edges a row after symmetrising, in units of k, at most; about 1.4 on real data
GRAPH_BYTES = (
    4 + 4 * DEGREE
)  # bytes a listed neighbour while the graph is made from the lists, and the graph itself
HELD_OUT = 0.1  # share of the rows that a vote is chosen on
VOTE_BYTES = 48  # bytes a voter of these
ROW_BYTES = 150  # bytes a row for labels, order, steps and the like


def fit_bytes(
    rows: int,
    dims: int,
    k: int,
    *,
    index: str = "auto",
    ready_lists: bool = False,
    early_stopping: bool = False,
    average: bool = False,
    spectral: bool = False,
    quantized: bool = False,
) -> Stages:
    """Bytes that each stage of a fit of SL-NE needs beside its rows; the largest is the bound.

    Examples
    --------
    >>> {stage: size >> 20 for stage, size in fit_bytes(1_200_000, 1_000, 50).items()}
    {'neighbours': 2370, 'graph': 1135, 'learning': 923}
    """
    lists = 0 if ready_lists else LIST_BYTES * rows * k
    extra = ROW_BYTES * rows + FIXED_BYTES
    stages = {}
    if not ready_lists:
        stages["neighbours"] = search_bytes(rows, dims, k, index, lists=True) + extra
    stages["graph"] = lists + GRAPH_BYTES * rows * k + extra
    block = min(BLOCK, rows)
    matrices = 4 * (2 + early_stopping + 2 * average + 4 * spectral) * dims**2
    blocks = 4 * block * (9 * dims + 4 * block)
    edges = 4 * DEGREE * rows * k
    copy = quantized_bytes(rows, dims) if quantized else 0
    stages["learning"] = lists + edges + matrices + blocks + copy + extra
    return stages


def classifier_bytes(
    rows: int,
    columns: int,
    dims: int,
    k: int,
    *,
    index: str = "auto",
    ready_lists: bool = False,
    preprocess: bool = True,
    learns: bool = True,
) -> Stages:
    """Bytes that each stage of a classifier's fit needs beside its rows.

    `columns` are those of the rows, `dims` those of the preprocessed rows.
    """
    database = 4 * rows * dims if preprocess else 0
    lists = 0 if ready_lists else LIST_BYTES * rows * k
    extra = ROW_BYTES * rows + FIXED_BYTES
    held = int(rows * HELD_OUT)
    stages = {"vote": database + lists + VOTE_BYTES * held * k + extra}
    if preprocess:
        stages["preprocessing"] = database + pca_bytes(rows, columns, dims) + extra
    if not ready_lists:
        stages["neighbours"] = database + search_bytes(rows, dims, k, index, lists=True) + extra
    if learns:  # from the lists without the held-out rows, which are a copy
        fit = fit_bytes(rows, dims, k, ready_lists=True)
        stages["learning"] = database + lists + LIST_BYTES * rows * k + max(fit.values())
    return stages


def check_fit(model: Any, data: TrainingData, kept: bool) -> None:
    """Refuse a fit of SL-NE that does not fit into memory; a folder may keep rows on disk."""
    (n, D), neighbors = data.rows.shape, data.neighbors
    k = min(model.n_neighbors, n - 1) if neighbors is None else listed(neighbors, n)
    k = min((1 + model._execution.refresh) * k, n - 1) or 1
    stages = fit_bytes(
        n, D, k, index=model.index, ready_lists=neighbors is not None,
        early_stopping=model.validation_fraction > 0, average=model.average,
        spectral=model._constraint.spectral, quantized=model._quantizes(n, D),
    )  # fmt: skip
    if isinstance(neighbors, Neighborhoods):
        del stages["graph"]
    vectors = 0 if kept or neighbors is not None else retrieval_bytes(model._execution.index, n, D)
    stages = {stage: size + vectors for stage, size in stages.items()}
    advice = f"lower n_neighbors={k}"
    if model.prepare is not None:
        stages = with_preparation(stages, n, D, kept)
        advice += ", give folder=…, which keeps the prepared rows on disk"
    if "neighbours" in stages:
        advice += ", find neighbours with nearkin.neighbors.nearest(folder=…), kept on disk"
    memory.check(
        f"a fit on {n} rows of {D} columns", stages, f"{advice}, or learn an ensemble (SLDE)"
    )


def check_extended(model: Any, rows: NDArray[np.float32]) -> None:
    """Refuse rows that, added to those that a model has seen, do not fit into memory."""
    seen = getattr(model, "_cached_seen", None)
    if seen is None:  # which is refused, too
        return
    n, D = len(seen.rows) + len(rows), rows.shape[1]
    k = model.n_neighbors
    if len(seen.rows) and seen.neighbors is not None:
        k = max(k, listed(seen.neighbors, len(seen.rows)))
    stages = fit_bytes(n, D, k, index="exact", quantized=model._quantizes(n, D))
    stages = {name: size + 4 * n * D for name, size in stages.items()}
    advice = "lower n_neighbors, or fit on a memory map of all rows with warm_start=True"
    memory.check(f"partial_fit, which copies all {n} rows,", stages, advice)


def check_classifier(X: Any, parts: Any, index: Any, ready_lists: bool) -> None:
    """Refuse a classifier's fit that does not fit into memory; `parts` is what it is made of."""
    shape: tuple[Any, ...] = getattr(X, "shape", None) or ()
    if len(shape) != 2 or 0 in shape:  # lists, and what is refused
        return
    n, D = int(shape[0]), int(shape[1])
    dims = D if parts.preprocess is None else width_of(parts.preprocess, n, D)
    learns = parts.similarity is not None and not is_fitted(parts.similarity)
    near = getattr(parts.similarity, "n_neighbors", 0)  # which the learner checks
    k = max(parts.n_neighbors, near if learns and isinstance(near, int) else 0)
    searches = learns or parts.vote == "auto" or as_vote(parts.vote).csls > 0
    stages = classifier_bytes(
        n, D, dims, max(1, min(k, n - 1)), index=index_description(index),
        ready_lists=ready_lists or not searches, preprocess=parts.preprocess is not None,
        learns=learns,
    )  # fmt: skip
    if parts.vote != "auto" and as_vote(parts.vote).refinement > 0:
        copy = 4 * n * dims if parts.preprocess is not None else 0
        stages["refined class means"] = copy + MOST_BYTES
    if parts.unsettled is not None:
        stages |= _settling_bytes(stages, parts, n, D, dims)
    vectors = retrieval_bytes(index, n, D) + 4 * n * search_width_of(parts.preprocess, n, D)
    stages = {stage: size + vectors for stage, size in stages.items()}
    if parts.preprocess is None:
        memory.check_conversion(X)
    advice = f"lower n_neighbors={k}, or fit on a memory map: np.load(path, mmap_mode='r')"
    if parts.preprocess is not None:
        advice = (
            "lower n_components of the preprocessing, or preprocess into a file, "
            "Preprocess().fit(X).transform(X, out=...), and fit on that"
        )
    memory.check(f"SoftVotingKNN on {n} rows of {D} columns", stages, advice)


def _settling_bytes(stages: Stages, parts: Any, n: int, D: int, dims: int) -> Stages:
    """What holding rows out of a choice on a sample adds: copies of rows, plain neighbours."""
    more: Stages = {}
    if parts.preprocess is not None and may_learn_from_labels(parts.preprocess):
        more["preprocessing"] = stages["preprocessing"] + 4 * min(n, FITTED_ROWS) * D
    if parts.unsettled.plain:
        database = 4 * n * dims if parts.preprocess is not None else 0
        lists = LIST_BYTES * n * parts.n_neighbors
        asked = int(parts.unsettled.held.sum())
        search = search_bytes(n, D, parts.n_neighbors, "exact", asked)
        more["plain neighbours"] = database + lists + min(4 * n * D, MAX_PLAIN_COPY) + search
    return more


def with_preparation(stages: Stages, rows: int, columns: int, kept: bool) -> Stages:
    """The stages of a fit on prepared rows: a copy, in memory unless a folder keeps it."""
    copy = 0 if kept else 4 * rows * columns
    prepared = {stage: size + copy for stage, size in stages.items()}
    return {"preparation": copy + pca_bytes(rows, columns, min(rows, columns))} | prepared


def retrieval_bytes(index: Any, rows: int, columns: int) -> int:
    """Bytes of the vectors that a retrieval, if the index is one, makes of rows."""
    if isinstance(index, str) or index.kind != "transformer" or index.source is None:
        return 0
    return 4 * rows * width_of(index.source, rows, columns)


def pca_bytes(rows: int, columns: int, dims: int) -> int:
    """Bytes of finding principal directions and of projecting onto them."""
    square = min(rows, columns, MAX_EIGH_SIZE)
    return 48 * square**2 + 12 * columns * dims + 2 * min(BLOCK_BYTES, 4 * rows * columns)


def quantized_bytes(rows: int, dims: int) -> int:
    """Bytes of the int8 copy of the rows."""
    return rows * -(-dims // CACHE_LINE) * CACHE_LINE


def listed(neighbors: NeighborLists, n: int) -> int:
    """Neighbours a row in ready-made lists or a graph, at least one."""
    if isinstance(neighbors, Neighborhoods):
        return max(1, len(neighbors.indices) // n)
    return max(1, (neighbors.nnz if sparse.issparse(neighbors) else np.size(neighbors)) // n)
