"""One similarity over the stored rows: shortlists of queries, without a row's own place."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import single_threaded
from nearkin.neighbors import nearest
from nearkin.neighbors.retrieval import lists_of_rows
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


class Side:
    """A fitted classifier, raw or learned, as the service asks it.

    The model becomes the side's own: its shortlist is one row longer, since a stored row that asks
    finds itself. One length for all, since an approximate index is tuned for a length.
    """

    def __init__(self, model: Any) -> None:
        self.n_rows = len(model.labels_)
        self.shortlist = min(model.shortlist_length, self.n_rows)
        self.model = model.set_params(n_neighbors=min(self.shortlist + 1, self.n_rows))
        self.inner = model.on_prepared_rows()
        self.near_stored(np.zeros(1, int))  # tunes an index and compiles before anybody asks

    def stored(self, rows: NDArray[np.integer]) -> Array:
        """Stored rows as queries."""
        return np.ascontiguousarray(self.model.database_[rows])

    def near_vectors(self, vectors: Array) -> Shortlist:
        """The rows nearest to vectors as they were given; any number of them, of anybody."""
        if self.model.retrieval_ is None:
            return self._near(self.model.prepared(vectors))
        found = self.model.kneighbors(vectors, rerank=False)
        return Shortlist(self.model.prepared(vectors), *found)

    def near_stored(self, rows: NDArray[np.integer]) -> Shortlist:
        """The rows nearest to stored rows, most of which find themselves."""
        retrieval = self.model.retrieval_
        if retrieval is None:
            return self._near(self.stored(rows))
        queries = self.stored(rows)
        lists = lists_of_rows(retrieval, self.model.n_neighbors, rows)
        return Shortlist(queries, *self.inner.kneighbors(queries, rerank=False, neighbors=lists))

    def _near(self, queries: Array) -> Shortlist:
        # Threads would wait for each other longer than they work on few rows or queries.
        small = len(queries) * self.model.database_.size <= SMALL
        with single_threaded() if small else nullcontext():
            return Shortlist(queries, *self.inner.kneighbors(queries, rerank=False))

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

    def near_in_class(
        self, queries: Array, members: NDArray[np.integer], own: NDArray[np.integer] | None
    ) -> Shortlist:
        """The shortlist among the rows of one class, searched exactly."""
        k = min(self.shortlist, len(members))
        best, places = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), int)
        for block in _blocks(members):
            d, i = nearest(
                self.stored(block), min(k + 1, len(block)), queries=queries, index="exact"
            )
            found = block[i]
            if own is not None:
                d = np.where(found == own[:, None], np.inf, d)
            best, places = np.hstack([best, d]), np.hstack([places, found])
            order = np.argsort(best, axis=1, kind="stable")[:, :k]
            best, places = (np.take_along_axis(a, order, axis=1) for a in (best, places))
        lists = np.where(np.isfinite(best), places, -1).astype(np.int32)
        return Shortlist(queries, self.inner.vote_shares(queries, lists).similarities, lists)

    def shares(self, found: Shortlist) -> VoteShares:
        """Who votes how much."""
        return self.inner.vote_shares(found.queries, found.indices)

    def novelty(self, found: Shortlist) -> Array:
        """How little the queries resemble the stored rows."""
        return self.inner.novelty_score(found.queries, found.indices)


def _blocks(members: NDArray[np.integer]) -> Iterator[NDArray[np.integer]]:
    for lo in range(0, len(members), CLASS_BLOCK):
        yield members[lo : lo + CLASS_BLOCK]
