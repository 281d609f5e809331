"""Learning from judgements: queries, documents, and which of them are relevant to which (Eq. 6).

The targets of a query are its relevant documents, near or not; its impostors are the documents
nearest to it that are not, some at random, and those known to be irrelevant. Queries and documents
lie in one array, queries first, so that the graph, the rules and the kernel are those of classes.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from nearkin.metrics.inputs import judgement_columns
from nearkin.native.threads import in_threads
from nearkin.neighborhoods import Neighborhoods
from nearkin.validation import memory
from nearkin.validation.arrays import as_numbers, as_rows

RANDOM = 200  # random impostors a query: nearest ones alone let distant documents become similar
EDGE_BYTES = 24  # bytes of a neighbour of a query while the graph is made
_VISITS_AT_ONCE = 1_024  # their neighbours are sorted in the cache

Array = NDArray[np.float32]
Integers = NDArray[np.int64]
Edges = tuple[NDArray[np.int32], Integers, Integers]


@dataclass(frozen=True)
class Judgements:
    """Graded pairs, sorted by query and document; a grade above 0 is relevant.

    Examples
    --------
    >>> judged = Judgements.of([[0, 4], [0, 2], [1, 2]], n_queries=2, n_documents=5)
    >>> judged.document.tolist(), judged.grade.tolist()
    ([2, 4, 2], [1.0, 1.0, 1.0])
    """

    query: Integers
    document: Integers
    grade: NDArray[np.float64]

    @classmethod
    def of(cls, relevant: Any, n_queries: int, n_documents: int) -> Self:
        """Judgements from an (m, 2) or (m, 3) array or from a sparse matrix of grades."""
        query, document, grade = _columns(relevant)
        for name, rows, most in (("query", query, n_queries), ("document", document, n_documents)):
            if len(rows) and not 0 <= rows.min() <= rows.max() < most:
                wrong = rows[(rows < 0) | (rows >= most)][0]
                raise ValueError(f"relevant names {name} {wrong}, and there are {most}")
        if not (grade > 0).any():
            raise ValueError("relevant holds no grade above 0; at least one pair is needed")
        order = np.lexsort((document, query))
        query, document, grade = query[order], document[order], grade[order]
        again = np.flatnonzero((np.diff(query) == 0) & (np.diff(document) == 0))
        if len(again):
            raise ValueError(
                f"relevant grades document {document[again[0]]} for query {query[again[0]]} twice; "
                "keep one of them"
            )
        return cls(query, document, grade)

    def only(self, queries: NDArray[np.bool_]) -> "Judgements":
        """Those of some queries."""
        kept = queries[self.query]
        return Judgements(self.query[kept], self.document[kept], self.grade[kept])

    def components(self, n_queries: int, n_documents: int, own: Integers | None = None) -> Integers:
        """A number for each query; queries that share relevant documents, however far, share it.

        `own` are the documents that the queries are themselves, if they are rows of one array.
        """
        relevant, n = self.grade > 0, n_queries + n_documents
        query, document = self.query[relevant], self.document[relevant]
        if own is not None:
            query = np.concatenate([query, np.arange(n_queries)])
            document = np.concatenate([document, own])
        edges = query, n_queries + document
        graph = sparse.coo_array((np.ones(len(edges[0])), edges), shape=(n, n))
        return sparse.csgraph.connected_components(graph, directed=False)[1][:n_queries]


def _columns(relevant: Any) -> tuple[Integers, Integers, NDArray[np.float64]]:
    if sparse.issparse(relevant):
        found = sparse.coo_array(relevant)
        return found.row.astype(np.int64), found.col.astype(np.int64), found.data.astype(float)
    return judgement_columns("relevant", relevant)


@dataclass(frozen=True)
class PairData:
    """What a fit learns from; `own` is the document that each query is itself, of one array."""

    queries: Array
    documents: Array
    judged: Judgements
    own: Integers | None = None

    @property
    def closed(self) -> bool:
        """Whether unlike rows are given, of one array: then others are not taken for unlike."""
        return self.own is not None and bool((self.judged.grade <= 0).any())

    def components(self) -> Integers:
        """See `Judgements.components`."""
        return self.judged.components(len(self.queries), len(self.documents), self.own)

    def described(self) -> tuple[Any, ...]:
        """What it is in words, samples of it, and its judgements, for a fingerprint."""
        judged = self.judged.query, self.judged.document, self.judged.grade
        words = (
            f"{len(self.queries)} queries, {len(self.documents)} documents, "
            f"{len(judged[0])} judgements"
        )
        return words, [self.queries, self.documents], *judged

    def only(self, queries: NDArray[np.bool_]) -> "PairData":
        """Judgements of some queries alone; all rows stay."""
        return replace(self, judged=self.judged.only(queries))


def pair_data(queries: Any, documents: Any, relevant: Any) -> PairData:
    """Checked arguments of `fit_pairs`: one array given twice has rows that are both."""
    rows = as_rows(queries, "queries")
    stored = rows if documents is queries else as_rows(documents, "documents")
    own = np.arange(len(rows)) if documents is queries else None
    judged = Judgements.of(relevant, len(rows), len(stored))
    if own is not None and (judged.query == judged.document).any():
        raise ValueError("relevant pairs a row with itself; it compares a row with others")
    return PairData(rows, stored, judged, own)


@dataclass(frozen=True)
class Visits:
    """What Algorithm 1 visits: each query once for every grade that documents have for it.

    A visit's targets are the documents of its grade or a higher one; those judged lower are
    impostors. So the order of grades is learned, too.
    """

    query: Integers  # of each visit
    visit: Integers  # of each judged pair, one for every visit that it takes part in
    document: Integers
    target: NDArray[np.bool_]

    @classmethod
    def of(cls, judged: Judgements) -> Self:
        """One visit for each query and grade."""
        relevant = judged.grade > 0
        levels = np.unique(np.stack([judged.query[relevant], judged.grade[relevant]]), axis=1)
        query, grade = levels[0].astype(np.int64), levels[1]
        # Every judgement of a query, for every visit of that query.
        count = np.bincount(judged.query, minlength=int(query.max()) + 1)
        first = np.cumsum(count) - count
        own = count[query]  # judgements of each visit
        visit = np.repeat(np.arange(len(query)), own)
        place = np.arange(len(visit)) - np.repeat(np.cumsum(own) - own, own)
        pair = first[query[visit]] + place
        target = judged.grade[pair] >= grade[visit]
        return cls(query, visit, judged.document[pair], target)

    def neighborhoods(self, others: NDArray[np.integer], n_documents: int) -> Neighborhoods:
        """The graph over visits and documents, in this order.

        `others` are documents for each query, -1 for none; those that are not judged become
        impostors.
        """
        n = len(self.query)

        def edges(lo: int, hi: int) -> list[Edges]:
            return [self._edges(others, n_documents, at, min(at + _VISITS_AT_ONCE, hi))
                    for at in range(lo, hi, _VISITS_AT_ONCE)]  # fmt: skip

        parts = [part for of_thread in in_threads(edges, n) for part in of_thread]
        documents, degrees, targets = (np.concatenate(column) for column in zip(*parts))
        none = np.zeros(n_documents, np.int64)
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([degrees, none]))])
        n_targets = np.concatenate([targets, none]).astype(np.int32)
        return Neighborhoods(indptr, documents + np.int32(n), n_targets)

    def _edges(self, others: NDArray[np.integer], n_documents: int, lo: int, hi: int) -> Edges:
        """Documents of the visits ``lo:hi``, targets first, and of each how many, and targets."""
        # One integer for visit, document (-1 comes first) and kind: 0 judged a target, 1 judged
        # something else, 2 listed. Such are sorted by vectors, much faster than by `lexsort`.
        bits = int(n_documents).bit_length() + 2
        listed = others[self.query[lo:hi]].astype(np.int64) + 1 << 2 | 2
        listed |= np.arange(hi - lo)[:, None] << bits
        own = slice(*np.searchsorted(self.visit, [lo, hi]))
        judged = self.visit[own] - lo << bits | self.document[own] + 1 << 2 | ~self.target[own]
        keys = np.concatenate([judged, listed.ravel()])
        keys.sort()
        new = np.concatenate([[True], keys[1:] >> 2 != keys[:-1] >> 2])  # judged before listed
        keys = keys[new & (keys & (1 << bits) - 1 >= 4)]
        visit, impostor = keys >> bits, (keys & 3) > 0
        keys = (keys >> 2 & (1 << bits - 2) - 1) - 1 | (2 * visit + impostor) << bits
        keys.sort()
        targets = np.bincount(visit[~impostor], minlength=hi - lo)
        documents = (keys & (1 << bits) - 1).astype(np.int32)
        return documents, np.bincount(visit, minlength=hi - lo), targets


def stacked(queries: Array, documents: Array) -> Array:
    """Queries and documents in one array, as wide as the wider of the two."""
    width = max(queries.shape[1], documents.shape[1])
    rows = np.zeros((len(queries) + len(documents), width), np.float32)
    rows[: len(queries), : queries.shape[1]] = queries
    rows[len(queries) :, : documents.shape[1]] = documents
    return rows


def ridge(data: PairData) -> Array:
    """The regression of relevant documents on queries: where M starts, of different widths."""
    relevant = data.judged.grade > 0
    X = data.queries[data.judged.query[relevant]].astype(float)
    Z = data.documents[data.judged.document[relevant]].astype(float)
    gram = X.T @ X
    gram[np.diag_indices_from(gram)] += 0.1 * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, X.T @ Z).astype(np.float32)


def identity(data: PairData) -> Array:
    """Queries are compared with documents as they are."""
    return np.eye(data.queries.shape[1], dtype=np.float32)


def check_pairs_memory(data: PairData, n_neighbors: int) -> None:
    """Refuse rows and a graph that do not fit into memory."""
    (m, width), (n, other) = data.queries.shape, data.documents.shape
    rows = 4 * (m + n) * max(width, other)
    k = min(n_neighbors + RANDOM, n)
    stages = {"rows": rows, "graph": rows + EDGE_BYTES * m * k + 16 * n}
    advice = f"lower n_neighbors={n_neighbors}, or learn from fewer documents"
    memory.check(f"a fit on {m} queries and {n} documents", stages, advice)


def check_weights(sample_weight: ArrayLike | None, n: int) -> Array | None:
    """A weight for each row, of mean 1."""
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight").astype(float)
    if weights.shape != (n,) or not ((weights >= 0) & np.isfinite(weights)).all():
        raise ValueError(
            f"sample_weight has shape {weights.shape}; a finite number, zero or above, for each of "
            f"the {n} rows is expected"
        )
    if not weights.any():
        raise ValueError("sample_weight: all weights are zero; at least one must be above zero")
    return (weights / weights.mean()).astype(np.float32)
