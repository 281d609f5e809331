"""The similarity of a classifier, raw or learned, over its stored rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.factorization import components, matrix_of
from nearkin.native import listed_scores
from nearkin.neighbors.search import nearest
from nearkin.preprocessing.transformers import applied
from nearkin.serve.searched import Places, SearchedSide, Shortlist, class_blocks, threads_for
from nearkin.validation.arrays import check_squares
from nearkin.voting.scores import voter_scores
from nearkin.voting.shares import VoteShares
from nearkin.voting.shortlist import searched_columns, searched_index

Array = NDArray[np.float32]


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
        self.width = model.database_.shape[1]
        index = searched_index(model)
        assert index is not None  # a function that retrieves is in no file
        self._index, self.searched = index, index.rows
        self._matrix = None
        if getattr(model.similarity_, "preparation_", 0) is None:
            self._matrix = np.ascontiguousarray(matrix_of(model.similarity_))
        self.near_stored(np.zeros(1, int))  # tunes an index and compiles before the first request

    def stored(self, rows: NDArray[np.integer]) -> Array:
        """Stored rows as queries."""
        return np.ascontiguousarray(self.model.database_[rows])

    def near_vectors(self, vectors: Array) -> Shortlist:
        """The rows nearest to vectors as they were given, of one request or more."""
        return self._near(*self.asked(vectors))

    def near_stored(self, rows: NDArray[np.integer]) -> Shortlist:
        """The rows nearest to stored rows, most of which find themselves."""
        return self._near(self.stored(rows), self.searched[rows])

    def asked(self, vectors: Array) -> tuple[Array, Array]:
        """Vectors as they were given, as they are compared with rows and as they are searched."""
        queries = applied(self.model.preprocess_, vectors)
        check_squares(queries, "vectors")
        if self.retrieval is None:
            return queries, searched_columns(self.model, queries)
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
            lists = self._index.nearest(self.model.n_neighbors, np.ascontiguousarray(places))[1]
            return Shortlist(queries, self._scores(queries, lists), lists)

    def _scores(self, queries: Array, lists: Places) -> Array:
        """Similarities less CSLS, as the model has them, without its checks of every call."""
        if self._matrix is None:
            return voter_scores(self.inner, queries, lists)
        scores = listed_scores.pair_scores(queries @ self._matrix, self.model.database_, lists)
        return scores - self.model.csls_bias_[lists] if self.model.vote_.csls else scores

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
        for block in class_blocks(members):
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
