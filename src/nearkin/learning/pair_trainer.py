"""Rounds of learning from judgements: impostors searched under M, an epoch of Algorithm 1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.averaging import IterateMean
from nearkin.learning.pairs import RANDOM, PairData, Visits, stacked
from nearkin.learning.trainer import Hyperparameters, Trainer
from nearkin.native.blas import multiply_into
from nearkin.neighbors.search import NeighborIndex

Array = NDArray[np.float32]
Lists = NDArray[np.int32]

# Multiplications that searches of later rounds may cost; beyond, the last lists are used again.
SEARCH_COST = 1e14


@dataclass
class PairTrainer:
    """M and its mean over rounds; `round` advances both.

    Rows of `data` are prepared, `start` is M before the first round, `database` an index of the
    documents, `weights` one a query.
    """

    data: PairData
    settings: Hyperparameters
    start: Array
    n_neighbors: int
    database: NeighborIndex
    weights: Array | None = None

    def __post_init__(self) -> None:
        self.visits = Visits.of(self.data.judged)
        self.rows = stacked(self.data.queries[self.visits.query], self.data.documents)
        width = self.rows.shape[1]
        self.matrix = np.zeros((width, width), np.float32)
        self.matrix[: self.start.shape[0], : self.start.shape[1]] = self.start
        self.mean, self.rounds = IterateMean(), 0
        self.near: Lists | None = None

    @property
    def learned(self) -> Array:
        """The result so far: the last iterate, or their mean."""
        whole = self.matrix if self.mean.matrix is None else self.mean.matrix
        return np.ascontiguousarray(whole[: self.start.shape[0], : self.start.shape[1]])

    def round(self) -> tuple[float, float]:
        """Search, then visit every query; the share that violated and the mean loss."""
        hoods = self.visits.neighborhoods(self._impostors(), len(self.data.documents))
        n = len(self.visits.query)
        trainer = Trainer(
            self.rows, hoods, self.settings, self.matrix, self.rounds, mean=self.mean,
            visits=np.arange(n), taken=self.rounds * n,
            weights=None if self.weights is None else self.weights[self.visits.query],
        )  # fmt: skip
        record = trainer.epoch()
        self.matrix, self.mean, self.rounds = trainer.matrix, trainer.mean, self.rounds + 1
        return record

    @property
    def kept_lists(self) -> Lists | None:
        """Lists that the next round uses again, if it does not search."""
        cost = float(len(self.data.queries)) * self.data.documents.size
        # The first search is under the start, the second under what was learned from it.
        again = self.rounds <= 1 or self.rounds * cost <= SEARCH_COST
        return None if again else self.near

    def _impostors(self) -> NDArray[np.int64]:
        """For each query, the nearest documents under M and random ones."""
        self.near = self.kept_lists
        if self.near is None and not self.data.closed:
            self.near = search_visited(
                self.database, self.data.queries, self.visits, self.learned, self.n_neighbors
            )
        return impostors(self.near, self.data, [self.settings.seed, self.rounds])


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
) -> NDArray[np.int32]:
    """What `search` finds for the queries that are visited, and -1 for the others."""
    visited = np.unique(visits.query)
    if len(visited) == len(queries):
        return search(database, queries, matrix, k)
    near = np.full((len(queries), min(k, len(database.rows))), -1, np.int32)
    near[visited] = search(database, queries[visited], matrix, k)
    return near


def search(database: NeighborIndex, queries: Array, matrix: Array, k: int) -> NDArray[np.int32]:
    """The `k` documents most similar to each query under M, best first."""
    asked = np.empty((len(queries), matrix.shape[1]), np.float32)
    multiply_into(asked, np.ascontiguousarray(queries), matrix)
    return database.nearest(min(k, len(database.rows)), asked)[1]
