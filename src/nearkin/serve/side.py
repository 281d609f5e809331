"""One similarity over the stored rows: shortlists of queries, without a row's own place."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.constraints import components, matrix_of
from nearkin.native.threads import single_threaded
from nearkin.neighbors.retrieval import searchable
from nearkin.neighbors.search import nearest
from nearkin.voting.shares import VoteShares

Array = NDArray[np.float32]
Places = NDArray[np.int32]

SMALL = 300_000_000  # products that one core computes in some milliseconds
CLASS_BLOCK = 65_536  # rows of a class that are searched at a time


class Shortlist(NamedTuple):
    """Prepared queries, and the rows that are nearest to them; ``-1`` and −inf for no row."""

    queries: Array
    scores: Array
    indices: Places


class SearchedSide(ABC):
    """Stored rows, and what finds those near to queries.

    Attributes
    ----------
    model : what the rows belong to
    n_rows, width : of what is searched
    shortlist : rows that are found at most
    """

    model: Any
    n_rows: int
    width: int
    shortlist: int

    @abstractmethod
    def near_vectors(self, vectors: Array) -> Shortlist:
        """The rows nearest to vectors as they were given; any number of them, of anybody."""

    @abstractmethod
    def near_stored(self, rows: NDArray[np.integer]) -> Shortlist:
        """The rows nearest to stored rows, most of which find themselves."""

    @abstractmethod
    def near_in_class(
        self, vectors: Array | None, own: NDArray[np.integer] | None, members: NDArray[np.integer]
    ) -> Shortlist:
        """The shortlist among the rows of one class, for vectors or for stored rows, `own`."""

    @abstractmethod
    def compared(self, rows: NDArray[np.integer]) -> Array:
        """Rows whose dot products are, as far as that is possible, the similarity."""

    def cut(self, near: Shortlist, own: NDArray[np.integer] | None) -> Shortlist:
        """What was found near, as long as the shortlist: without `own`, or without the last."""
        queries, scores, indices = near
        if own is None and self.shortlist == indices.shape[1]:
            return near
        mine = np.zeros(indices.shape, bool) if own is None else indices == own[:, None]
        mine[~mine.any(axis=1), -1] = True
        return Shortlist(
            queries,
            np.where(mine, np.float32(-np.inf), scores),
            np.where(mine, np.int32(-1), indices),
        )


class Side(SearchedSide):
    """A fitted classifier, raw or learned, as the service asks it.

    The model becomes the side's own: its shortlist is one row longer, since a stored row that asks
    finds itself. One length for all, since an approximate index is tuned for a length.
    """

    def __init__(self, model: Any) -> None:
        self.n_rows = len(model.labels_)
        self.shortlist = min(model.shortlist_length, self.n_rows)
        self.model = model.set_params(n_neighbors=min(self.shortlist + 1, self.n_rows))
        self.inner = model.on_prepared_rows()
        self.retrieval = model.retrieval_  # finds the rows near others in a space of its own
        self.searched = model.database_ if self.retrieval is None else self.retrieval.vectors_
        self.width = model.database_.shape[1]
        self._index = None
        if self.retrieval is not None:
            self._index = searchable(self.retrieval, getattr(model, "search_index_", None))
        self.near_stored(np.zeros(1, int))  # tunes an index and compiles before anybody asks

    def stored(self, rows: NDArray[np.integer]) -> Array:
        """Stored rows as queries."""
        return np.ascontiguousarray(self.model.database_[rows])

    def near_vectors(self, vectors: Array) -> Shortlist:
        """The rows nearest to vectors as they were given; any number of them, of anybody."""
        return self._near(*self.asked(vectors))

    def near_stored(self, rows: NDArray[np.integer]) -> Shortlist:
        """The rows nearest to stored rows, most of which find themselves."""
        return self._near(self.stored(rows), self.searched[rows])

    def asked(self, vectors: Array) -> tuple[Array, Array]:
        """Vectors as they were given, as they are compared with rows and as they are searched."""
        queries = self.model.prepared(vectors)
        if self.retrieval is None:
            return queries, queries
        if self.retrieval.kind == "vectors":
            raise ValueError(
                "the model finds neighbours by other vectors of its rows, which queries lack; ask "
                "by rows"
            )
        transformer = self.retrieval.transformer_
        made = vectors if transformer is None else transformer.transform(vectors)
        return queries, np.ascontiguousarray(made, np.float32)

    def _near(self, queries: Array, places: Array) -> Shortlist:
        with threads_for(len(queries) * self.searched.size):
            lists, k = None, self.model.n_neighbors
            if self._index is not None:
                lists = self._index.nearest(k, np.ascontiguousarray(places))[1]
            found = self.inner.kneighbors(queries, rerank=False, neighbors=lists)
        return Shortlist(queries, *found)

    def near_in_class(
        self, vectors: Array | None, own: NDArray[np.integer] | None, members: NDArray[np.integer]
    ) -> Shortlist:
        """The shortlist among the rows of one class, searched exactly."""
        if vectors is None:
            queries, places = self.stored(own), self.searched[own]  # type: ignore[arg-type]
        else:
            queries, places = self.asked(vectors)
        k = min(self.shortlist, len(members))
        best, rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), int)
        for block in blocks(members):
            stored = np.ascontiguousarray(self.searched[block])
            d, i = nearest(stored, min(k + 1, len(block)), queries=places, index="exact")
            found = block[i]
            if own is not None:
                d = np.where(found == own[:, None], np.inf, d)
            best, rows = np.hstack([best, d]), np.hstack([rows, found])
            order = np.argsort(best, axis=1, kind="stable")[:, :k]
            best, rows = (np.take_along_axis(a, order, axis=1) for a in (best, rows))
        lists = np.where(np.isfinite(best), rows, -1).astype(np.int32)
        scores, _ = self.inner.kneighbors(queries, rerank=False, neighbors=lists)
        return Shortlist(queries, scores, lists)

    def compared(self, rows: NDArray[np.integer]) -> Array:
        """Rows whose dot products are, as far as that is possible, the similarity."""
        stored, similarity = self.stored(rows), self.model.similarity_
        return stored if similarity is None else stored @ components(matrix_of(similarity)).T

    def shares(self, found: Shortlist) -> VoteShares:
        """Who votes how much."""
        return self.inner.vote_shares(found.queries, found.indices)

    def novelty(self, found: Shortlist) -> Array:
        """How little the queries resemble the stored rows."""
        return self.inner.novelty_score(found.queries, found.indices)


def blocks(members: NDArray[np.integer]) -> Iterator[NDArray[np.integer]]:
    """The rows of a class, so many that a search of them fits into memory."""
    for lo in range(0, len(members), CLASS_BLOCK):
        yield members[lo : lo + CLASS_BLOCK]


def threads_for(products: int) -> AbstractContextManager[None]:
    """One thread, where several would wait for each other longer than they work."""
    return single_threaded() if products <= SMALL else nullcontext()
