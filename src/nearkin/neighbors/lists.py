"""From the candidates of an index to neighbour lists: re-ranked, self excluded.

By true Euclidean distance, nearest first, or by true dot product, largest first. A back end may
have a faster way to find candidates for its own rows, given by number (`search_rows`), and to make
lists of them without distances (`row_lists`).
"""

import numpy as np
from numpy.typing import NDArray

from nearkin.native.listed_scores import pair_scores, pair_squared_distances
from nearkin.native.topk import smallest_pairs
from nearkin.neighbors.base import Array, Index

Neighbors = tuple[NDArray[np.float32], NDArray[np.int32]]  # distances or dot products, indices

QUERY_BLOCK, FEWEST_QUERIES = 4_096, 1_024  # queries per call of a back end, and for long lists
BLOCK_PLACES = 1 << 20  # of lists; memory for many more is asked of the system for each call anew


def query_block(k: int) -> int:
    """Queries per call of a back end, for lists of `k` rows."""
    whole = BLOCK_PLACES // k // FEWEST_QUERIES * FEWEST_QUERIES
    return max(FEWEST_QUERIES, min(whole, QUERY_BLOCK))


def query_neighbors(index: Index, rows: Array, queries: Array, k: int) -> Neighbors:
    """Find the `k` nearest rows of each query."""
    queries = np.ascontiguousarray(queries)
    near = _checked(index, index.search(queries, k), len(queries), k, len(rows))
    return _rerank(index, rows, queries, near, k)


def row_neighbors(index: Index, rows: Array, at: NDArray[np.int64], k: int) -> Neighbors:
    """Find the `k` nearest rows of each of the rows `at`, itself excluded."""
    queries = np.ascontiguousarray(rows[at])
    own = getattr(index, "search_rows", None)  # of a back end that need not see the queries
    # One more than k: a row finds itself.
    found = index.search(queries, k + 1) if own is None else own(at, k + 1)
    near = _checked(index, found, len(at), k + 1, len(rows))
    return _rerank(index, rows, queries, np.where(near == at[:, None], -1, near), k)


def row_lists(index: Index, rows: Array, at: NDArray[np.int64], k: int) -> NDArray[np.int32]:
    """The same lists as `row_neighbors`, without distances.

    A back end may order a list by distances that are nearly true.
    """
    own = getattr(index, "row_lists", None)
    found = None if own is None else own(at, k)
    return row_neighbors(index, rows, at, k)[1] if found is None else found


def _checked(
    index: Index, found: NDArray[np.integer], queries: int, k: int, n: int
) -> NDArray[np.integer]:
    """What a back end, perhaps of the user's own, proposes of `n` rows."""
    near = np.asarray(found)
    if near.ndim != 2 or len(near) != queries or near.shape[1] < k:
        raise ValueError(
            f"{type(index).__name__}.search returned an array of shape {near.shape} for "
            f"{queries} queries and k={k}; ({queries}, {k} or more) is expected, with -1 "
            "in empty places"
        )
    if near.dtype.kind not in "iu" or near.min() < -1 or near.max() >= n:
        raise ValueError(
            f"{type(index).__name__}.search returned {near.dtype} from {near.min()} to "
            f"{near.max()} for {n} rows; row numbers are expected, -1 in empty places"
        )
    return near


def _rerank(
    index: Index, rows: Array, queries: Array, near: NDArray[np.integer], k: int
) -> Neighbors:
    """Keep the `k` nearest candidates by the metric's true values; of equal ones, the first."""
    found, by_products = near.astype(np.int32), getattr(index, "metric", None) == "dot"
    values = (pair_scores if by_products else pair_squared_distances)(queries, rows, found)
    if by_products:
        np.negative(values, out=values)
    best, indices = smallest_pairs(values, found, k)
    return -best if by_products else np.sqrt(best), indices


def without_self(near: NDArray[np.integer], own: NDArray[np.int64]) -> NDArray[np.integer]:
    """Drop each row's own index; where it was not found (duplicates), drop the last."""
    mine = near == own[:, None]
    mine[~mine.any(axis=1), -1] = True
    return near[~mine].reshape(len(near), -1)
