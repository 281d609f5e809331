"""The memory that a search for neighbours needs beside the rows."""

from nearkin.native.threads import n_threads
from nearkin.neighbors.faiss import FaissIndex
from nearkin.neighbors.itq import SAMPLE, settings_of
from nearkin.neighbors.kmeans import TRAIN_ROWS_A_CELL
from nearkin.neighbors.lists import query_block
from nearkin.neighbors.registry import EXACT_ROWS
from nearkin.neighbors.sizes import (
    CODED_AT_ONCE,
    CODED_DIMS,
    DATABASE_BYTES,
    PRODUCT_BYTES,
    has_sieve,
    sieved_rows,
)
from nearkin.validation import memory

FIXED_BYTES = 48 << 20  # buffers of BLAS, compiled code, threads
LIST_BYTES, DISTANCE_BYTES = 4, 4  # bytes a listed neighbour
CANDIDATES = 4  # for each neighbour, in a search by cells; 2 or 3 on most data
CODE_BYTES = 80  # bytes a row that is coded, beside one for each column
SIEVED_BYTES = 32  # bytes a row that the sieve keeps for a query
SEARCH_BYTES = 72  # bytes a neighbour of a block of queries, while the nearest are merged


def search_bytes(
    rows: int, dims: int, k: int, index: str, queries: int | None = None, lists: bool = False
) -> int:
    """Bytes of a search for the `k` nearest rows of as many queries, or of all rows.

    With `lists`, of all rows and without distances.
    """
    whole, queries = 4 * rows * dims, rows if queries is None else queries
    asking = min(query_block(k), queries)
    block = asking * (8 * dims + SEARCH_BYTES * (k + 1))
    listed = LIST_BYTES if lists else LIST_BYTES + DISTANCE_BYTES
    needed = listed * queries * k + min(PRODUCT_BYTES, 4 * asking * rows)
    if index == "exact" or (index == "auto" and rows <= EXACT_ROWS):
        sieve = 0
        if has_sieve(rows, dims, k):
            block = asking * (16 * dims + SIEVED_BYTES * (sieved_rows(k) + 1))
            sieve = 2 * rows * dims + 4 * dims * min(rows, CODED_AT_ONCE)
        return needed + block + sieve + min(whole, 2 * DATABASE_BYTES) + 16 * rows * n_threads()
    if index.startswith(("auto", "cells")):
        width = min(CODED_DIMS, dims)
        building = max(6 * rows * width, partition_bytes(rows, dims))  # as they come, and as bytes
        coded = rows * (2 * width + dims + CODE_BYTES) if lists else 0
        return needed + CANDIDATES * block + max(building, coded)
    if index.partition(";")[0] == "itq":
        settings = settings_of(index)
        sample = 12 * dims * min(rows, SAMPLE) + 32 * dims**2
        return needed + settings["candidates"] * block + rows * settings["bits"] // 4 + sample
    # An index grows by half as it fills, and keeps every row; a compressing one keeps less.
    sample = 2 * 4 * dims * min(rows, 2 * FaissIndex.TRAIN_ROWS)
    return needed + block + max(3 * whole // 2 + 8 * rows, sample)


def partition_bytes(rows: int, dims: int) -> int:
    """Bytes of the rows that k-means sees."""
    return 4 * dims * min(TRAIN_ROWS_A_CELL * 4 * int(rows**0.5), rows)


def check_search(
    shape: tuple[int, ...],
    k: int,
    index: str,
    queries: int | None = None,
    jobs: int = 1,
    *,
    lists: bool = False,
) -> None:
    """Refuse a search that does not fit into memory: BLAS would wait for its buffers for ever."""
    rows, dims = shape
    size = jobs * (search_bytes(rows, dims, k, index, queries, lists) + FIXED_BYTES)
    advice = f"lower k={k}, or give folder=, where lists are kept in shards"
    if jobs > 1:
        advice = f"lower n_jobs={jobs} or k={k}"
    memory.check(f"a search in {rows} rows of {dims} columns", {"neighbours": size}, advice)
