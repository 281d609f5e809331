"""Rounds of learning from judgements: impostors searched under M, an epoch of Algorithm 1."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.averaging import IterateMean
from nearkin.learning.pair_search import impostors, search_visited
from nearkin.learning.pairs import PairData, Visits, stacked
from nearkin.learning.trainer import Hyperparameters, Trainer
from nearkin.neighbors.index import NeighborIndex

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
