"""Retrieval from a whole index: queries, stored vectors, and what is relevant to whom."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.metrics.retrieval import (
    Relevance,
    judged_relevance,
    label_relevance,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
)
from nearkin.neighbors.index import NeighborIndex
from nearkin.neighbors.lists import without_self
from nearkin.validation.arrays import as_rows

Array = NDArray[np.float32]
Lists = NDArray[np.integer]

LENGTH = 100  # of ranked lists
MEASURES = ("precision@10", "nDCG@10", "recall@100")


@dataclass(frozen=True)
class RetrievalTask:
    """Queries to an index of documents; judgements or labels say which of them are relevant.

    With labels, `queries` may be None: each document then asks for the others.
    """

    documents: Array
    queries: Array | None
    judgements: NDArray[Any] | None = None
    labels: NDArray[Any] | None = None  # of the documents
    truth: NDArray[Any] | None = None  # of the queries

    @classmethod
    def of(
        cls,
        documents: ArrayLike,
        queries: ArrayLike | None,
        relevant: ArrayLike | None,
        labels: ArrayLike | None,
        truth: ArrayLike | None,
    ) -> Self:
        """A task from what a caller gave."""
        stored = as_rows(documents, "documents")
        asked = None if queries is None else as_rows(queries, "queries")
        if relevant is not None and (asked is None or labels is not None or truth is not None):
            raise ValueError("relevant grades documents for queries: give queries, and no labels")
        if relevant is None and (labels is None or (asked is None) != (truth is None)):
            raise ValueError(
                "what is relevant? Give relevant=, or labels= of the documents and, if there are "
                "queries, truth= of the queries"
            )
        given = {"labels": (labels, stored), "truth": (truth, asked)}
        for name, (values, rows) in given.items():
            if values is not None and np.shape(values) != (len(rows),):  # type: ignore[arg-type]
                raise ValueError(
                    f"{name} has shape {np.shape(values)}; one for each of the "
                    f"{len(rows)} rows is expected"  # type: ignore[arg-type]
                )
        arrays = (None if a is None else np.asarray(a) for a in (relevant, labels, truth))
        return cls(stored, asked, *arrays)

    @property
    def asked(self) -> Array:
        """The queries, as they are."""
        return self.documents if self.queries is None else self.queries

    @property
    def length(self) -> int:
        """Documents in a ranked list."""
        return min(LENGTH, len(self.documents) - (self.queries is None))

    def relevance(self, ranked: Lists) -> Relevance:
        """What is relevant in ranked lists of documents, one for each query."""
        if self.judgements is not None:
            return judged_relevance(ranked, self.judgements)
        truth = self.labels if self.queries is None else self.truth
        found = label_relevance(ranked, self.labels, truth)  # type: ignore[arg-type]
        if self.queries is not None:
            return found
        others = found.totals - 1  # a document does not find itself
        return found._replace(ideal=np.arange(ranked.shape[1]) < others[:, None], totals=others)

    def search(self, index: Any, asked: Array) -> Lists:
        """The documents that an index (see `exact_index`) ranks first for the adapted queries."""
        if self.queries is not None:
            return index.nearest(self.length, asked)[1]
        ranked = index.nearest(self.length + 1, asked)[1]
        return without_self(ranked, np.arange(len(ranked)))

    def measures(self, ranked: Lists) -> dict[str, NDArray[np.float64]]:
        """Each of `MEASURES` for every query; NaN where nothing is relevant."""
        found = self.relevance(ranked)
        ten = min(10, ranked.shape[1])
        values = (
            np.where(found.totals > 0, precision_at_k(found.relevant, ten, True), np.nan),
            ndcg_at_k(found.relevant, found.ideal, ten, True),
            recall_at_k(found.relevant, found.totals, ranked.shape[1], True),
        )
        return dict(zip(MEASURES, values))


def exact_index(stored: Array) -> NeighborIndex:
    """An index by dot product."""
    return NeighborIndex(stored, "exact", metric="dot")


def means(measures: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """The mean of each measure over the queries that have one."""
    if all(np.isnan(values).all() for values in measures.values()):
        raise ValueError("no query has a relevant document among those given; nothing to measure")
    return {name: float(np.nanmean(values)) for name, values in measures.items()}
