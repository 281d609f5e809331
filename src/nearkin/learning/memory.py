"""The memory that a fit of SL-NE needs beside its rows, stage by stage.

Rows in a memory map are read through the page cache, which the system takes back when it is needed
elsewhere; what counts is the process's own memory. The bytes were measured
(``python benchmarks/memory.py`` compares) and rounded up.
"""

import numpy as np
from scipy import sparse

from nearkin.learning.blocks import BLOCK
from nearkin.native.intrinsics import CACHE_LINE
from nearkin.native.threads import n_threads
from nearkin.neighborhoods import Neighborhoods, NeighborLists
from nearkin.neighbors.base import EXACT_ROWS
from nearkin.neighbors.exact import DATABASE_BYTES, PRODUCT_BYTES
from nearkin.neighbors.faiss import FaissIndex
from nearkin.neighbors.kmeans import DIMS, TRAIN_ROWS_A_CELL
from nearkin.neighbors.lists import QUERY_BLOCK
from nearkin.validation.memory import Stages

DEGREE = 2  # edges a row after symmetrising, in units of k, at most; about 1.4 on real data
FIXED_BYTES = 48 << 20  # buffers of BLAS, compiled code, threads
LIST_BYTES, DISTANCE_BYTES = 4, 4  # bytes a listed neighbour
GRAPH_BYTES = 4 + 4 * DEGREE  # … while the graph is made from the lists, and the graph itself
CANDIDATES = 4  # for each neighbour, in a search by cells; 2 or 3 on most data
SEARCH_BYTES = 72  # … of a block of queries, while the nearest are merged
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
    {'neighbours': 2681, 'graph': 1135, 'learning': 923}
    """
    lists = 0 if ready_lists else LIST_BYTES * rows * k
    extra = ROW_BYTES * rows + FIXED_BYTES
    stages = {} if ready_lists else {"neighbours": search_bytes(rows, dims, k, index) + extra}
    stages["graph"] = lists + GRAPH_BYTES * rows * k + extra
    block = min(BLOCK, rows)
    matrices = 4 * (2 + early_stopping + 2 * average + 4 * spectral) * dims**2
    blocks = 4 * block * (9 * dims + 4 * block)
    edges = 4 * DEGREE * rows * k
    copy = quantized_bytes(rows, dims) if quantized else 0
    stages["learning"] = lists + edges + matrices + blocks + copy + extra
    return stages


def search_bytes(rows: int, dims: int, k: int, index: str) -> int:
    """Bytes of a search for the `k` nearest of all rows."""
    whole = 4 * rows * dims
    asking = min(QUERY_BLOCK, rows)
    queries = asking * (8 * dims + SEARCH_BYTES * (k + 1))
    lists = (LIST_BYTES + DISTANCE_BYTES) * rows * k + min(PRODUCT_BYTES, 4 * asking * rows)
    if index == "exact" or (index == "auto" and rows <= EXACT_ROWS):
        return lists + queries + min(whole, 2 * DATABASE_BYTES) + 16 * rows * n_threads()
    if index.startswith(("auto", "cells")):
        reduced = 3 * 4 * rows * min(DIMS, dims)  # as they come, in cells, and those of a search
        return lists + CANDIDATES * queries + max(reduced, partition_bytes(rows, dims))
    # An index grows by half as it fills, and keeps every row; a compressing one keeps less.
    sample = 2 * 4 * dims * min(rows, 2 * FaissIndex.TRAIN_ROWS)
    return lists + queries + max(3 * whole // 2 + 8 * rows, sample)


def quantized_bytes(rows: int, dims: int) -> int:
    """Bytes of the int8 copy of the rows."""
    return rows * -(-dims // CACHE_LINE) * CACHE_LINE


def partition_bytes(rows: int, dims: int) -> int:
    """Bytes of the rows that k-means sees."""
    return 4 * dims * min(TRAIN_ROWS_A_CELL * 4 * int(rows**0.5), rows)


def listed(neighbors: NeighborLists, n: int) -> int:
    """Neighbours a row in ready-made lists or a graph, at least one."""
    if isinstance(neighbors, Neighborhoods):
        return max(1, len(neighbors.indices) // n)
    return max(1, (neighbors.nnz if sparse.issparse(neighbors) else np.size(neighbors)) // n)
