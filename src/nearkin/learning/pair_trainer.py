"""Rounds of learning from judgements: impostors searched under M, an epoch of Algorithm 1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.averaging import IterateMean
from nearkin.learning.pair_search import impostors, search_visited
from nearkin.learning.pairs import Judgements, Visits, stacked
from nearkin.learning.trainer import Hyperparameters, Trainer
from nearkin.neighbors.index import NeighborIndex

Array = NDArray[np.float32]

# Multiplications that searches of later rounds may cost; beyond, the last lists are used again.
SEARCH_COST = 1e14


@dataclass
class PairTrainer:
    """M and its mean over rounds; `round` advances both.

    `queries` and `documents` are prepared rows, `start` is M before the first round, `weights` one
    a query.
    """

    queries: Array
    documents: Array
    judged: Judgements
    settings: Hyperparameters
    start: Array
    n_neighbors: int
    index: str
    weights: Array | None = None

    def __post_init__(self) -> None:
        self.visits = Visits.of(self.judged)
        self.rows = stacked(self.queries[self.visits.query], self.documents)
        width = self.rows.shape[1]
        self.matrix = np.zeros((width, width), np.float32)
        self.matrix[: self.start.shape[0], : self.start.shape[1]] = self.start
        self.mean, self.rounds = IterateMean(), 0
        self.near: NDArray[np.int32] | None = None
        self.database = NeighborIndex(self.documents, self.index, metric="dot")

    @property
    def learned(self) -> Array:
        """The result so far: the last iterate, or their mean."""
        whole = self.matrix if self.mean.matrix is None else self.mean.matrix
        return np.ascontiguousarray(whole[: self.start.shape[0], : self.start.shape[1]])

    def round(self) -> tuple[float, float]:
        """Search, then visit every query; the share that violated and the mean loss."""
        hoods = self.visits.neighborhoods(self._impostors(), len(self.documents))
        n = len(self.visits.query)
        trainer = Trainer(
            self.rows, hoods, self.settings, self.matrix, self.rounds, mean=self.mean,
            visits=np.arange(n), taken=self.rounds * n,
            weights=None if self.weights is None else self.weights[self.visits.query],
        )  # fmt: skip
        record = trainer.epoch()
        self.matrix, self.mean, self.rounds = trainer.matrix, trainer.mean, self.rounds + 1
        return record

    def _impostors(self) -> NDArray[np.int64]:
        """For each query, the nearest documents under M and random ones."""
        m, n = len(self.queries), len(self.documents)
        # The first search is under the start, the second under what was learned from it.
        cost = float(m) * n * self.documents.shape[1]
        if self.near is None or self.rounds == 1 or self.rounds * cost <= SEARCH_COST:
            self.near = search_visited(
                self.database, self.queries, self.visits, self.learned, self.n_neighbors
            )
        return impostors(self.near, n, [self.settings.seed, self.rounds])
