"""Incremental learning (`partial_fit`): neighbours of new rows, and the graph extended by them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.io.run_folder import RunFolder
from nearkin.neighborhoods import NeighborLists, as_graph
from nearkin.neighbors.index import own_lists
from nearkin.neighbors.lists import row_neighbors
from nearkin.neighbors.registry import build
from nearkin.neighbors.retrieval import fitted_retrieval, over, without_rows
from nearkin.preprocessing.transformers import applied
from nearkin.validation.arrays import concatenate_labels

Array = NDArray[np.float32]


@dataclass
class TrainingSet:
    """The rows that a similarity has been learned from, their labels and their neighbours."""

    rows: Array
    labels: NDArray[Any]
    neighbors: NeighborLists
    vectors: Array | None = None  # in which neighbours are searched, if not in the rows

    @classmethod
    def empty(cls, width: int, labels: NDArray[Any]) -> Self:
        """No rows yet."""
        return cls(np.empty((0, width), np.float32), labels[:0], sparse.csr_array((0, 0)))

    def extended(
        self, rows: Array, labels: NDArray[Any], k: int, index: str, vectors: Array | None = None
    ) -> Self:
        """The training set with new rows, each of which lists its `k` nearest among all.

        The lists of the old rows stay as they are; symmetrising gives them the new rows that
        list them.
        """
        n = len(self.rows)
        together = np.concatenate([self.rows, rows])
        searched = together
        if vectors is not None:
            searched = vectors if self.vectors is None else np.concatenate([self.vectors, vectors])
        near = lists_of_last(searched, len(rows), k, index)
        old, there = as_graph(self.neighbors, n), near >= 0
        ends = old.indptr[-1] + np.cumsum(there.sum(axis=1))
        indices = np.concatenate([old.indices, near[there]])
        graph = sparse.csr_array(
            (np.ones(len(indices), bool), indices, np.concatenate([old.indptr, ends])),
            shape=(len(together), len(together)),
        )
        known = None if vectors is None else searched
        return type(self)(together, concatenate_labels(self.labels, labels), graph, known)

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

    def training_set(
        self, prepared: Array, index: str, vectors: Array | None = None
    ) -> TrainingSet:
        """What the similarity was learned from; `prepared` are the rows as M knows them."""
        neighbors = self.neighbors
        if neighbors is None:
            searched = prepared if vectors is None else vectors
            neighbors = own_lists(searched, self.n_neighbors, index).indices
        return TrainingSet(prepared, self.labels, neighbors, vectors)


def extended(model: Any, given: Array, rows: Array, labels: NDArray[Any], rng: Any) -> TrainingSet:
    """All rows that a model has seen with new ones, as given and prepared, if all that fits."""
    seen: TrainingSet | FittedRows | None = getattr(model, "_cached_seen", None)
    if seen is None:
        raise ValueError(
            "partial_fit: the rows that this model was fitted on are not kept in files or "
            "copies; fit on all rows, old and new, with warm_start=True to go on"
        )
    if model.retrieval_ is None:  # nothing was fitted yet, or the lists were given
        known = (seen.rows, seen.labels) if isinstance(seen, FittedRows) else (given, labels)
        found = fitted_retrieval(model._execution.index, *known, rng, RunFolder.nowhere())
        model.retrieval_ = None if found is None else without_rows(found)
    if isinstance(seen, FittedRows):
        prepared = applied(model.preparation_, seen.rows)
        seen = seen.training_set(prepared, model.index, _searched(model, seen.rows))
    return seen.extended(rows, labels, model.n_neighbors, model.index, _searched(model, given))


def _searched(model: Any, given: Array) -> Array | None:
    """Rows as a retrieval searches them; None without one."""
    if model.retrieval_ is None:
        return None
    advice = "fit on all rows, old and new, with warm_start=True"
    return over(model.retrieval_, given, advice).vectors_


def lists_of_last(rows: Array, new: int, k: int, index: str) -> NDArray[np.int32]:
    """The `k` nearest, among all rows but itself, of each of the last `new` rows."""
    own = np.arange(len(rows) - new, len(rows))
    k = min(k, len(rows) - 1)
    # Building an approximate index for a few rows would take longer than searching without.
    found = build(rows, "exact" if index == "auto" else index)
    found.prepare(k)
    return row_neighbors(found, rows, own, k)[1]
