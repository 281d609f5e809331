"""Documents searched under M for the queries of judgements: a round's impostors, ranked lists."""

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.pairs import RANDOM, PairData, Visits
from nearkin.native.blas import multiply_into
from nearkin.neighbors.index import NeighborIndex

Array = NDArray[np.float32]
Lists = NDArray[np.int32]


def impostors(near: Lists | None, data: PairData, seed: list[int]) -> NDArray[np.int64]:
    """For each query, the nearest documents and random ones, and -1 in place of itself.

    None beside the unlike rows that are given: see `PairData.closed`.
    """
    if near is None:
        return np.empty((len(data.queries), 0), np.int64)
    n = len(data.documents)
    drawn = np.random.default_rng(seed).integers(0, n, (len(near), min(RANDOM, n)))
    others = np.concatenate([near, drawn], axis=1)
    if data.own is not None:
        others[others == data.own[:, None]] = -1
    return others


def search_visited(
    database: NeighborIndex, queries: Array, visits: Visits, matrix: Array, k: int
) -> Lists:
    """What `search` finds for the queries that are visited, and -1 for the others."""
    visited = np.unique(visits.query)
    if len(visited) == len(queries):
        return search(database, queries, matrix, k)
    near = np.full((len(queries), min(k, len(database.rows))), -1, np.int32)
    near[visited] = search(database, queries[visited], matrix, k)
    return near


def search(database: NeighborIndex, queries: Array, matrix: Array, k: int) -> Lists:
    """The `k` documents most similar to each query under M, best first."""
    asked = np.empty((len(queries), matrix.shape[1]), np.float32)
    multiply_into(asked, np.ascontiguousarray(queries), matrix)
    return database.nearest(min(k, len(database.rows)), asked)[1]
