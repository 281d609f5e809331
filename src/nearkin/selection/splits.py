"""One split of the rows: prepared without the held-out ones, which are then voted on."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from nearkin.learning.execution import Execution
from nearkin.native import listed_scores
from nearkin.native.blas import serial_blas
from nearkin.native.hyperplanes import hyperplane_distances
from nearkin.neighborhoods import Neighborhoods, neighborhoods
from nearkin.neighbors.index import NeighborIndex
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.preprocessing.transformers import applied, last_columns, search_columns
from nearkin.validation.parameters import is_fitted
from nearkin.voting.choice import Ballot
from nearkin.voting.class_means import class_means
from nearkin.voting.csls import CSLS_NEIGHBORS, mean_similarity
from nearkin.voting.refinement import class_offsets

Array = NDArray[np.float32]
Lists = NDArray[np.int32]
Labels = NDArray[np.int64]


class Split:
    """Rows to learn from and rows held out, as they were given.

    Nothing that is fitted here sees the held-out rows, with labels or without.
    """

    def __init__(
        self,
        rows: Any,
        labels: Labels,
        held: NDArray[np.bool_],
        n_classes: int,
        for_index: bool = False,
    ) -> None:
        self.kept, self.queries = rows[np.flatnonzero(~held)], rows[np.flatnonzero(held)]
        self.labels, self.truth = labels[~held], labels[held]
        self.n_classes, self.for_index = n_classes, for_index
        self._pca: dict[float, Preprocess] = {}

    def prepare(self, preprocess: Any, k: int) -> "Prepared":
        """Both kinds of rows under a preprocessing, with the `k` nearest of the rows to learn."""
        return Prepared(self, None if preprocess is None else self._fitted(preprocess), k)

    def _fitted(self, preprocess: Any) -> Any:
        """The preprocessing, fitted; principal directions are computed once for all users."""
        if is_fitted(preprocess):
            return preprocess
        if type(preprocess) is not Preprocess:
            return clone(preprocess).fit(self.kept, self.labels)
        most, power = min(self.kept.shape), preprocess.power
        n = min(preprocess.n_components or most, most)
        known = self._pca.get(power)
        if known is None or len(known.directions_) < n:
            fitted = clone(preprocess).set_params(n_components=n).fit(self.kept)
            known = self._pca[power] = fitted
        return known.truncated(n).set_params(**preprocess.get_params())


def _prepared(preprocess: Any, rows: Any) -> Array:
    if preprocess is not None:
        return applied(preprocess, rows)
    return np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)


class Graphs:
    """Neighbour lists of the rows to learn from, and the last graph made of them.

    Found when they are first asked for: many learners share them, and plain neighbours need none.
    """

    def __init__(self, index: NeighborIndex, labels: Labels) -> None:
        self.index, self.labels = index, labels
        self._lists = np.empty((len(labels), 0), np.int32)
        self._graph: tuple[int, Neighborhoods] | None = None

    def lists(self, k: int) -> Lists:
        """The `k` nearest of each row, as far as there are so many."""
        k = min(k, len(self.labels) - 1)
        if self._lists.shape[1] < k:
            self._lists = self.index.lists(k)
        return self._lists[:, :k]

    def graph(self, k: int) -> Neighborhoods:
        """The neighbourhoods that these make for a learner."""
        if self._graph is None or self._graph[0] != k:
            hub_limit = Execution().hub_limit
            self._graph = k, neighborhoods(self.lists(k), self.labels, hub_limit=hub_limit)
        return self._graph[1]


class Prepared:
    """Prepared rows of a split, their neighbours, and those of the held-out rows."""

    def __init__(self, split: Split, preprocess: Any, k: int) -> None:
        self.split, self.preprocess = split, preprocess
        self.rows = rows = _prepared(preprocess, split.kept)
        self.queries = _prepared(preprocess, split.queries)
        self.n_searched = search_columns(preprocess)
        self.index = NeighborIndex(last_columns(rows, self.n_searched))
        self.graphs = Graphs(self.index, split.labels)
        self.near = self._nearest(k)
        self.means = class_means(rows, split.labels, split.n_classes)
        self.absent = np.bincount(split.labels, minlength=split.n_classes) == 0
        self._distances: dict[int, Array] = {}  # by the length of the shortlist

    def of_length(self, k: int) -> "Prepared":
        """The same with the `k` nearest of each held-out row, as far as there are so many."""
        k = min(k, len(self.rows))
        if k == self.near.shape[1]:
            return self
        other, shorter = copy(self), k < self.near.shape[1]
        other.near = np.ascontiguousarray(self.near[:, :k]) if shorter else self._nearest(k)
        return other

    def _nearest(self, k: int) -> Lists:
        queries = last_columns(self.queries, self.n_searched)
        return self.index.nearest(min(k, len(self.rows)), queries)[1]

    def ballot(self, matrix: Array | None, csls: bool = False) -> Ballot:
        """What votes on the held-out rows under a matrix; without one, plain neighbours."""
        with serial_blas():
            return self._ballot(matrix, csls)

    def _ballot(self, matrix: Array | None, csls: bool) -> Ballot:
        if self.split.for_index:
            return self._found(matrix)
        if matrix is None:
            scale = float(np.einsum("nd,nd->n", self.rows, self.rows).mean(dtype=np.float64))
            products = self.queries
            scores = listed_scores.pair_closeness(self.queries, self.rows, self.near, scale)
            lengths = np.full(scores.shape, scale, np.float32)
        else:
            scale, products = 1.0, self.queries @ matrix
            scores = listed_scores.pair_scores(products, self.rows, self.near)
            lengths = self._lengths(products, self.near)
        mean = None
        if csls:
            lists = self.graphs.lists(CSLS_NEIGHBORS)
            mean = mean_similarity(self.rows, lists, matrix, scale)[self.near]
        ballot = self._voting(scores, self.near, products, lengths, mean)
        return replace(ballot, distances=self.distances())

    def distances(self) -> Array:
        """Of the held-out rows to the hyperplanes through their neighbours of each class."""
        k = self.near.shape[1]
        if k not in self._distances:
            labels, n_classes = self.split.labels, self.split.n_classes
            found = hyperplane_distances(self.queries, self.rows, self.near, labels, n_classes)
            self._distances[k] = found
        return self._distances[k]

    def refined_scores(self, matrix: Array | None, temperature: float) -> Array:
        """Scores of the class means for the held-out rows, refined on the others."""
        rows, queries = self.rows, self.queries
        transformed = self.means if matrix is None else self.means @ matrix.T
        scores = np.where(self.absent, np.float32(-np.inf), rows @ transformed.T)
        offsets = class_offsets(rows, self.split.labels, scores, temperature)
        refined = queries @ (transformed + offsets).T
        return np.where(self.absent, np.float32(-np.inf), refined)

    def _found(self, matrix: Array | None) -> Ballot:
        """What an index of all rows finds by dot product."""
        products = self.queries if matrix is None else self.queries @ matrix
        scores, near = NeighborIndex(self.rows, metric="dot").nearest(self.near.shape[1], products)
        return self._voting(scores, near, products, self._lengths(products, near))

    def _lengths(self, products: Array, near: Any) -> Array:
        """What makes the dot products of transformed queries and rows cosines."""
        return np.linalg.norm(products, axis=1)[:, None] * np.linalg.norm(self.rows, axis=1)[near]

    def _voting(
        self, scores: Array, near: Any, products: Array, lengths: Array, mean: Array | None = None
    ) -> Ballot:
        class_scores = np.where(self.absent, np.float32(-np.inf), products @ self.means.T)
        split, labels = self.split, self.split.labels[near]
        return Ballot(scores, labels, split.truth, split.n_classes, mean, class_scores, lengths)
