"""A similarity that was saved without rows (SLNE, SLDE, an adapter), as the engine knows models.

Alone it can transform queries. Over vectors as they are it can search them, all of them by the
learned similarity, as an index of a vector store would. It has no vote.
"""

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from nearkin.adapter import RAW, Adapter
from nearkin.io.ids import pack
from nearkin.io.tables import Dataset
from nearkin.learning.factorization import components
from nearkin.neighbors.index import NeighborIndex
from nearkin.preprocessing import UnitLength
from nearkin.serve.searched import Places, SearchedSide, Shortlist, class_blocks, threads_for
from nearkin.validation import memory
from nearkin.validation.arrays import as_rows

Array = NDArray[np.float32]

SHORTLIST = 100  # rows that are found at most
NO_ROWS = (
    "the file holds a learned similarity and no rows; start the service with --rows FILE to search "
    "vectors as they are. /v1/transform adapts queries to your own index"
)
NO_VOTE = (
    "the file holds a learned similarity, which ranks rows but does not classify; serve a "
    "classifier of 'nearkin train' or 'nearkin run'"
)
NO_QUERIES = "queries and stored rows are vectors of different kinds; ask with vectors"


class AdaptedModel:
    """An adapter, and the rows that it is put in front of, if there are any.

    Attributes are those that the engine reads of a classifier; `labels_` are all 0 where rows have
    no labels.
    """

    similarity_ = None

    def __init__(self, adapter: Adapter, learner: str, data: Dataset | None) -> None:
        self.adapter_, self.learner = adapter, learner
        self.n_features_in_, width = adapter.matrix.shape
        empty = Dataset(np.empty((0, width), np.float32))
        data = empty if data is None else data
        self.rows = data.rows if data is empty else as_rows(data.rows, "rows", width)
        self.labelled = data.labels is not None
        labels = np.zeros(len(self.rows), np.int32) if data.labels is None else data.labels
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.labels_ = codes.astype(np.int32)
        if data.ids is not None:
            self.ids_ = pack(data.ids)

    def adapter(self) -> Adapter:
        """The map of queries."""
        return self.adapter_

    @property
    def compares_rows(self) -> bool:
        """Whether a stored row can be asked for others: it is of the same kind as queries."""
        matrix, card = self.adapter_.matrix, self.adapter_.card
        return matrix.shape[0] == matrix.shape[1] and card.get("index", RAW) == RAW


class AdaptedSide(SearchedSide):
    """All rows, ranked by the dot product with adapted queries; without an adapter, by cosine."""

    def __init__(self, model: AdaptedModel, adapter: Adapter | None, index: NeighborIndex) -> None:
        self.model, self.adapter, self._index = model, adapter, index
        self.searched = index.rows
        self.n_rows, self.width = self.searched.shape
        self.shortlist = min(SHORTLIST, self.n_rows)
        self.near_vectors(np.zeros((1, model.n_features_in_), np.float32))  # compiles, tunes

    def near_vectors(self, vectors: Array) -> Shortlist:
        """The rows most similar to vectors as they were given."""
        queries, excess = self._asked(vectors)
        with threads_for(len(queries) * self.searched.size):
            scores, indices = self._index.nearest(min(self.shortlist + 1, self.n_rows), queries)
        return Shortlist(queries, scores - excess, indices)

    def near_stored(self, rows: NDArray[np.integer]) -> Shortlist:
        """The rows most similar to stored rows, most of which find themselves."""
        return self.near_vectors(np.ascontiguousarray(self.model.rows[rows]))

    def near_in_class(
        self, vectors: Array | None, own: NDArray[np.integer] | None, members: NDArray[np.integer]
    ) -> Shortlist:
        """The most similar rows of one class, searched exactly."""
        asked = self.model.rows[own] if vectors is None else vectors
        queries, excess = self._asked(np.ascontiguousarray(asked))
        found = [self._in_block(queries, block, own) for block in class_blocks(members)]
        scores, rows = (np.hstack(parts) for parts in zip(*found))
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.shortlist]
        scores, rows = (np.take_along_axis(a, order, axis=1) for a in (scores, rows))
        return Shortlist(queries, scores - excess, np.where(np.isneginf(scores), -1, rows))

    def _in_block(
        self, queries: Array, block: NDArray[np.integer], own: NDArray[np.integer] | None
    ) -> tuple[Array, Places]:
        index = NeighborIndex(np.ascontiguousarray(self.searched[block]), "exact", metric="dot")
        scores, places = index.nearest(min(self.shortlist + 1, len(block)), queries)
        rows = block[places].astype(np.int32)
        if own is not None:
            scores = np.where(rows == own[:, None], np.float32(-np.inf), scores)
        return scores, rows

    def compared(self, rows: NDArray[np.integer]) -> Array:
        """Rows whose dot products are, as far as that is possible, the similarity."""
        stored = np.ascontiguousarray(self.searched[rows])
        if self.adapter is None:
            return stored
        return (stored - self.adapter.center) @ components(self.adapter.matrix).T

    def _asked(self, vectors: Array) -> tuple[Array, Array]:
        """What the index is asked for, and what its products exceed the similarity by."""
        if self.adapter is None:
            return UnitLength().fit_transform(vectors), np.zeros((len(vectors), 1), np.float32)
        queries = self.adapter.transform(vectors)
        return queries, (queries @ self.adapter.center)[:, None]


def adapted_sides(model: AdaptedModel) -> tuple[AdaptedSide | None, AdaptedSide | None]:
    """Raw cosine and the learned similarity; None for what there is not."""
    if not len(model.rows):
        return None, None
    adapter = model.adapter_
    scaled = adapter.metric != "dot"
    index = NeighborIndex(_unit_length(model.rows) if scaled else model.rows, metric="dot")
    learned = AdaptedSide(model, adapter, index)
    if not model.compares_rows:
        return None, learned
    with suppress(MemoryError):  # then it is left out
        index = index if scaled else NeighborIndex(_unit_length(model.rows), metric="dot")
        return AdaptedSide(model, None, index), learned
    return None, learned


def refusals(model: AdaptedModel) -> dict[str, str]:
    """What cannot be asked of such a model, and why."""
    refused = {"classify": NO_VOTE, "review": NO_VOTE}
    if not len(model.rows):
        return refused | dict.fromkeys(("search", "rows", "ask_rows", "map"), NO_ROWS)
    return refused | ({} if model.compares_rows else {"ask_rows": NO_QUERIES, "map": NO_QUERIES})


def _unit_length(rows: Array) -> Array:
    memory.check("rows of unit length", {"a copy": rows.nbytes}, "serve fewer rows")
    return UnitLength().fit_transform(rows)
