"""Incremental learning (`partial_fit`): neighbours of new rows, and the graph extended by them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.neighborhoods import NeighborLists, as_graph
from nearkin.neighbors.base import build
from nearkin.neighbors.lists import row_neighbors
from nearkin.neighbors.search import nearest

Array = NDArray[np.float32]


@dataclass
class TrainingSet:
    """The rows that a similarity has been learned from, their labels and their neighbours."""

    rows: Array
    labels: NDArray[Any]
    neighbors: NeighborLists

    @classmethod
    def empty(cls, width: int, labels: NDArray[Any]) -> Self:
        """No rows yet."""
        return cls(np.empty((0, width), np.float32), labels[:0], sparse.csr_array((0, 0)))

    def extended(self, rows: Array, labels: NDArray[Any], k: int, index: str) -> Self:
        """The training set with new rows, each of which lists its `k` nearest among all.

        The lists of the old rows stay as they are; symmetrising gives them the new rows that
        list them.
        """
        n = len(self.rows)
        together = np.concatenate([self.rows, rows])
        near = lists_of_last(together, len(rows), k, index)
        old, there = as_graph(self.neighbors, n), near >= 0
        ends = old.indptr[-1] + np.cumsum(there.sum(axis=1))
        indices = np.concatenate([old.indices, near[there]])
        graph = sparse.csr_array(
            (np.ones(len(indices), bool), indices, np.concatenate([old.indptr, ends])),
            shape=(len(together), len(together)),
        )
        return type(self)(together, concatenate_labels(self.labels, labels), graph)

    def affected(self, new: int) -> NDArray[np.int64]:
        """The last `new` rows, after the rows that they list: all whose neighbours changed."""
        n = len(self.rows) - new
        listed = self.neighbors.indices[self.neighbors.indptr[n] :]
        return np.concatenate([np.unique(listed[listed < n]), np.arange(n, n + new)])


@dataclass
class FittedRows:
    """The rows of a fit as they were given: references to the caller's arrays, and no others.

    Prepared rows and lists that a fit has found are large, and found again if they are wanted.
    """

    rows: Array
    labels: NDArray[Any]
    neighbors: NeighborLists | None
    n_neighbors: int

    def training_set(self, prepared: Array, index: str) -> TrainingSet:
        """What the similarity was learned from; `prepared` are the rows as M knows them."""
        neighbors = self.neighbors
        if neighbors is None:
            neighbors = nearest(prepared, self.n_neighbors, index=index)[1]
        return TrainingSet(prepared, self.labels, neighbors)


def lists_of_last(rows: Array, new: int, k: int, index: str) -> NDArray[np.int32]:
    """The `k` nearest, among all rows but itself, of each of the last `new` rows."""
    own = np.arange(len(rows) - new, len(rows))
    k = min(k, len(rows) - 1)
    # Building an approximate index for a few rows would take longer than searching without.
    found = build(rows, "exact" if index == "auto" else index)
    found.prepare(k)
    return row_neighbors(found, rows, own, k)[1]


_KINDS = {"U": "text", "S": "text", "O": "text", "M": "date", "m": "duration"}


def concatenate_labels(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Old and new labels in one array; text, dates and numbers do not mix."""
    kinds = [_KINDS.get(labels.dtype.kind, "number") for labels in (old, new)]
    if kinds[0] != kinds[1] and len(old):
        raise ValueError(
            f"y holds {new.dtype} where earlier labels are {old.dtype}; give labels of one kind"
        )
    return np.concatenate([old, new]) if len(old) else new
