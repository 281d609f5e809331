"""A learned similarity in front of an index of vectors as they are: only the query changes."""

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.io import models
from nearkin.io.atomic import atomic_write
from nearkin.native.listed_scores import pair_scores
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.search import nearest
from nearkin.preprocessing.linear import LinearPreprocessing, scale_to_unit_length
from nearkin.preprocessing.unit_length import UnitLength
from nearkin.retrieval_task import RetrievalTask, exact_index, means
from nearkin.validation import expect
from nearkin.validation.arrays import as_numbers, as_rows, check_fitted_array
from nearkin.validation.parameters import checked, require
from nearkin.voting.csls import CSLS_NEIGHBORS, listed_means
from nearkin.voting.lists import checked_lists, padded

Array = NDArray[np.float32]
Metric = Literal["dot", "cosine", "l2"]
METRICS: tuple[Metric, ...] = ("dot", "cosine", "l2")
RAW, PREPROCESSED = "vectors as they are", "preprocessed rows"


class Adapter:
    """``q' = q @ matrix + offset``: what to ask an index in place of the query q.

    The index ranks by the learned similarity to its vectors, and nothing in it is changed. Made by
    ``model.adapter()``.

    Parameters
    ----------
    matrix : (D, D) array
    offset : (D,) array
    center : (D,) array
        The mean of the stored vectors, as far as the similarity subtracts it: their score under
        ``q'`` is the similarity plus ``q'·center``.
    metric : {"dot", "cosine", "l2"}
        How the index compares. With ``"cosine"`` and ``"l2"`` queries are scaled to unit length
        first; an index by ``"l2"`` must hold vectors of unit length.
    card : dict, optional
        Where the adapter comes from: see `model_card`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearkin import SLNE
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SLNE(n_neighbors=40, random_state=0).fit(X, y)
    >>> adapter = model.adapter()
    >>> found = (adapter.transform(X) @ X.T).argmax(axis=1)  # your index
    >>> bool((found == model.similarity(X, X).argmax(axis=1)).all())
    True
    """

    def __init__(
        self,
        matrix: ArrayLike,
        offset: ArrayLike,
        center: ArrayLike,
        *,
        metric: Metric = "dot",
        card: dict[str, Any] | None = None,
    ) -> None:
        self.matrix = as_numbers(matrix, "matrix")
        self.offset = as_numbers(offset, "offset")
        self.center = as_numbers(center, "center")
        self.metric = metric
        self.card = {} if card is None else card
        self._check_fitted()

    def _check_fitted(self) -> None:
        """Refuse parts, perhaps of a file, that do not fit together."""
        require("metric", self.metric, expect.choice(*METRICS))
        check_fitted_array("matrix", self.matrix, (None, None))
        if 0 in self.matrix.shape:
            raise ValueError(f"matrix has shape {self.matrix.shape}; it must not be empty")
        for name in ("offset", "center"):
            check_fitted_array(name, getattr(self, name), (self.matrix.shape[1],))

    @checked(csls=expect.flag)
    def transform(self, queries: ArrayLike, csls: bool = False) -> Array:
        """The vectors to ask the index for, in place of `queries`.

        With `csls`, for stored vectors that have `csls_column` as one more component.
        """
        rows = as_rows(queries, "queries", len(self.matrix))
        if self.metric != "dot":
            rows = _unit_length(rows)
        asked = rows @ self.matrix + self.offset
        if not csls:
            return asked
        self._check_csls()
        return np.hstack([asked, np.full((len(asked), 1), -self.csls_scale, np.float32)])

    @property
    def csls_scale(self) -> float:
        """What `csls_column` is divided by, and queries are multiplied by.

        The norm of the matrix: one more component that is small beside the vectors leaves a graph
        index (HNSW) one of the vectors. A large one draws all its edges to the hubs.
        """
        return float(np.linalg.norm(self.matrix)) or 1.0

    @checked(weight=expect.number(0, 10))
    def csls_column(
        self, vectors: ArrayLike, weight: float = 0.5, neighbors: NeighborLists | None = None
    ) -> Array:
        """What CSLS takes off the score of each stored vector: one more column, against hubs.

        `weight` times the mean similarity of its neighbours, as queries, to the vector, divided by
        `csls_scale`. Stored as one more component, ``transform(queries, csls=True)`` asks an index
        by dot product for the similarity less the share. Of a classifier whose vote has CSLS, the
        column is ``model.csls_bias_ / adapter.csls_scale``.

        Parameters
        ----------
        vectors : (n, D) array-like
            All vectors of the index.
        weight : float
            0.5 is that of Conneau et al. (2018).
        neighbors : (n, k) integer array or (n, n) CSR graph, optional
            Lists of each vector's nearest ones; by default the 50 nearest by distance.

        Examples
        --------
        >>> adapter, X = Adapter(np.eye(2), [0, 0], [0, 0]), np.array([[1.0, 0], [2, 1], [0, 3]])
        >>> column = adapter.csls_column(X, neighbors=[[1], [0], [1]])
        >>> index = np.column_stack([X, column])  # of three components
        >>> (adapter.transform([[1, 1]], csls=True) @ index.T).round(4).tolist()
        [[0.0, 2.0, 1.5]]
        """
        self._check_csls()
        stored = as_rows(vectors, "vectors", self.matrix.shape[1])
        as_rows(stored[:1], "vectors", len(self.matrix))  # which are queries here
        if len(stored) == 1:
            raise ValueError("vectors has one row, which has no neighbours; give all of the index")
        if neighbors is None:
            lists = nearest(stored, min(CSLS_NEIGHBORS, len(stored) - 1))[1]
        else:
            lists = padded(checked_lists(neighbors, len(stored)))

        def scores(part: slice, near: NDArray[np.int32]) -> Array:
            moved = (stored[part] - self.center) @ self.matrix.T
            return pair_scores(np.asarray(moved, np.float32), stored, near)

        constant = stored @ self.offset - self.center @ self.offset
        share = np.float32(weight / self.csls_scale)
        return np.asarray(share * (listed_means(lists, scores) + constant), np.float32)

    def _check_csls(self) -> None:
        if self.metric != "dot":
            raise ValueError(
                f"csls needs an index by dot product, and the adapter is for {self.metric}; make "
                "it with metric='dot'"
            )
        if self.card.get("index", RAW) != RAW:
            raise ValueError("csls needs an adapter for vectors as they are; make it with raw=True")

    def scores(self, queries: ArrayLike, store_scores: ArrayLike) -> Array:
        """The learned similarity behind the scores that the index gave for ``transform(queries)``.

        Thresholds and votes need it: the scores of an index differ from it by a factor and a
        constant of the query. `store_scores` are an (m, k) array of dot products, cosines (not one
        minus them) or squared distances, as the adapter's metric has it.
        """
        asked = self.transform(queries)
        given = as_numbers(store_scores, "store_scores")
        if given.ndim != 2 or len(given) != len(asked):
            raise ValueError(
                f"store_scores has shape {given.shape}; a row of scores for each of the "
                f"{len(asked)} queries is expected"
            )
        squares = np.einsum("nd,nd->n", asked, asked)[:, None]
        if self.metric == "cosine":
            given = given * np.sqrt(squares)
        elif self.metric == "l2":
            given = (squares + 1 - given) / 2
        return given - (asked @ self.center)[:, None]

    def rerank(self, queries: ArrayLike, vectors: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
        """The similarities of vectors that an index returned, and their order, best first.

        Parameters
        ----------
        queries : (m, D) array-like
        vectors : (m, k, D) array-like
            The k vectors that the index returned for each query, as they are stored.

        Returns
        -------
        similarities, order : (m, k) arrays
            Most similar first; `order` are places among the k.
        """
        asked = self.transform(queries)
        stored = as_numbers(vectors, "vectors")
        width = self.matrix.shape[1]
        if stored.ndim != 3 or (len(stored), stored.shape[2]) != (len(asked), width):
            raise ValueError(
                f"vectors has shape {stored.shape}; ({len(asked)}, k, {width}) is expected: k "
                "vectors for each query"
            )
        if self.metric == "cosine":
            stored = _unit_length(stored)
        found = np.einsum("nd,nkd->nk", asked, stored - self.center)
        order = np.argsort(-found, axis=1, kind="stable")
        return np.take_along_axis(found, order, axis=1), order

    def evaluate(
        self,
        documents: ArrayLike,
        queries: ArrayLike | None = None,
        relevant: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        truth: ArrayLike | None = None,
    ) -> dict[str, dict[str, float]]:
        """Retrieval from an index of `documents`, by queries as they are and as adapted.

        Returns the means of precision@10, nDCG@10 and recall@100, all documents being searched, as
        ``before`` and ``after``, and keeps them in `card` for `model_card`. Take rows that nothing
        was learned from. If queries and documents cannot be compared as they are, ``before`` is
        empty.

        Parameters
        ----------
        documents : (n, D') array-like
            Vectors as the index holds them.
        queries : (m, D) array-like, optional
            If left out, each document asks for the others.
        relevant : (p, 2) or (p, 3) array-like, optional
            Row of the query, row of the document, grade.
        labels, truth : (n,) and (m,) array-likes, optional
            Instead of `relevant`: classes of the documents and of the queries.
        """
        return self.measure(RetrievalTask.of(documents, queries, relevant, labels, truth))

    def measure(self, task: RetrievalTask) -> dict[str, dict[str, float]]:
        """`evaluate` on a ready task."""
        if task.documents.shape[1] != self.matrix.shape[1]:
            raise ValueError(
                f"documents has {task.documents.shape[1]} columns; the adapter is for an index of "
                f"{self.matrix.shape[1]}"
            )
        index = exact_index(self._stored(task.documents))
        after = means(task.measures(task.search(index, self.transform(task.asked))))
        before = {}
        if self.card.get("index", RAW) == RAW and len(self.matrix) == self.matrix.shape[1]:
            before = means(task.measures(task.search(index, task.asked)))
        self.card |= {"queries": len(task.asked), "before": before, "after": after}
        return {"before": before, "after": after}

    def _stored(self, documents: Array) -> Array:
        """Documents whose dot products with a query rank as the index does."""
        return UnitLength().fit_transform(documents) if self.metric == "cosine" else documents

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file, which `nearkin.load` reads; so do three lines of numpy.

        ``arrays = safetensors.numpy.load_file(path)``, then
        ``q @ arrays["matrix"] + arrays["offset"]``.
        """
        models.save(self, path)

    @checked(path=expect.path)
    def to_npy(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.npy`` file of D + 1 rows: the matrix, and the offset below it."""
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.save(file, np.vstack([self.matrix, self.offset]))

    @checked(path=expect.path, encoder=expect.optional(expect.path))
    def to_onnx(
        self, path: str | os.PathLike[str], encoder: str | os.PathLike[str] | None = None
    ) -> None:
        """Write an ONNX graph from ``query`` to ``adapted``.

        With `encoder`, the path of an ONNX network with one output, the graph is the network with
        the adapter behind it.
        """
        from nearkin.io.onnx_graph import write_linear

        write_linear(path, self.matrix, self.offset, self.metric != "dot", encoder)

    @checked(folder=expect.path)
    def to_sentence_transformers(self, folder: str | os.PathLike[str]) -> None:
        """Write a new folder that `Dense.load` of sentence-transformers reads.

        As the last module behind an encoder, it adapts what ``encode`` returns. By cosine and L2,
        queries are scaled to unit length first: put `Normalize` before it.
        """
        from nearkin.io.dense_module import write_dense

        write_dense(Path(folder), self.matrix, self.offset)

    def model_card(self) -> str:
        """What the adapter was learned from and what it gained, as Markdown."""
        from nearkin.io.model_card import markdown

        return markdown(self.card, self.matrix.shape, self.metric)


def fold(
    matrix: Array,
    preprocess: Any,
    *,
    raw: bool,
    metric: Metric | None,
    unit_length: bool,
    card: dict[str, Any],
) -> Adapter:
    """The adapter of a similarity on rows that `preprocess` makes.

    With `raw` the index holds rows as they were given, else as they were preprocessed;
    `unit_length` says that those given have unit length. What would change stored rows is refused.
    """
    if isinstance(preprocess, UnitLength) and preprocess.power == 1:  # as a cosine index does
        preprocess, unit_length, scaled = None, True, not unit_length
    else:
        scaled = False
    check_foldable(preprocess, raw)
    metric = _metric(metric, unit_length, scaled)
    centre, before, whole = np.zeros(len(matrix), np.float32), matrix, matrix
    if preprocess is not None:
        directions = preprocess.linear_map()
        before = directions.T @ matrix
        centre, whole = preprocess.mean_, before @ directions if raw else before
    moved = raw and preprocess is not None
    stored = centre if moved else np.zeros(whole.shape[1], np.float32)
    card = {"index": RAW if raw else PREPROCESSED, "nearkin": version("nearkin")} | card
    return Adapter(whole, -(centre @ whole), stored, metric=metric, card=card)


def check_foldable(preprocess: Any, raw: bool) -> None:
    """Refuse a preprocessing that would have to be applied to every stored row."""
    if preprocess is None:
        return
    name = type(preprocess).__name__
    if not isinstance(preprocess, LinearPreprocessing):
        problem = "is not linear"
    elif preprocess.power != 1:
        problem = f"raises entries to the power {preprocess.power:g}"
    elif raw and preprocess.unit_length:
        problem = "scales rows to unit length after its map"
    else:
        return
    raise ValueError(
        f"{name} {problem}, which every stored row would need, too: an index of vectors as they "
        "are cannot answer. SLNE() prepares rows so that it can; so does "
        "SoftVotingKNN(selection=Selection(for_index=True)), or 'nearkin train --for-index'"
    )


def _metric(metric: Metric | None, unit_length: bool, scaled: bool) -> Metric:
    """How the index compares, if the similarity allows it."""
    if metric is None:
        return "cosine" if unit_length else "dot"
    if metric != "dot" and not unit_length:
        raise ValueError(
            f"metric={metric!r}: the similarity was learned on vectors that are not of unit length;"
            " learn it on vectors scaled to unit length, or use an index by dot product"
        )
    if metric != "cosine" and scaled:
        raise ValueError(
            f"metric={metric!r}: the similarity scales vectors to unit length, which only an index "
            "by cosine does with those it stores; give metric='cosine'"
        )
    return metric


def _unit_length(rows: Array) -> Array:
    flat = rows.reshape(-1, rows.shape[-1]).copy()
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    return scale_to_unit_length(flat, lengths).reshape(rows.shape)
