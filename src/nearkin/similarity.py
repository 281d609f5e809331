"""The bilinear similarity s(x, z) = xᵀMz and all that follows from having M."""

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import TransformerTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from nearkin.adapter import METRICS, Adapter, Metric, fold
from nearkin.io.fingerprint import Digest
from nearkin.learning.factorization import components
from nearkin.learning.objective import edge_scores, objective
from nearkin.learning.preparation import preparation_problem
from nearkin.native import listed_scores
from nearkin.native.blas import project_rows
from nearkin.neighborhoods import NeighborLists, neighborhoods
from nearkin.neighbors.index import own_lists
from nearkin.neighbors.retrieval import Retrieval, over
from nearkin.preprocessing.linear import LinearPreprocessing
from nearkin.preprocessing.transformers import applied
from nearkin.preprocessing.unit_length import have_unit_length, spread
from nearkin.validation import expect
from nearkin.validation.arrays import (
    as_numbers,
    as_rows,
    check_fitted_array,
    check_squares,
    labels_of,
    validate_data,
)
from nearkin.validation.containers import in_container
from nearkin.validation.parameters import checked, require
from nearkin.voting.lists import as_voters, padded


def _is_psd(model: Any) -> bool:
    if getattr(model, "psd", False):
        return True
    raise AttributeError(
        f"{type(model).__name__} has components_ and transform only if it, or the learner of its "
        "members, has constraint=Constraint(psd=True): a similarity that is not positive "
        "semidefinite is not an inner product; use transform_query instead"
    )


class BilinearSimilarity:
    """Scores and query transform of a learned ``matrix_``. A mixin: learners supply `fit`."""

    matrix_: NDArray[np.float32]
    preparation_: LinearPreprocessing | None = None
    _sklearn_auto_wrap_output_keys: ClassVar[set[str]] = {"transform"}

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a matrix: a fit that failed has left other traces."""
        return hasattr(self, "matrix_")

    def _check_fitted(self) -> None:
        """Refuse a matrix, perhaps of a file, that does not fit the rows it is used with."""
        if hasattr(self, "matrix_"):
            D = self.n_features_in_  # type: ignore[attr-defined]
            if self.preparation_ is not None:
                self._check_preparation(D)
                D = self.preparation_._n_features_out
            # Documents may have another width than queries.
            square = self.preparation_ is not None or not hasattr(self, "pair_choice_")
            check_fitted_array("matrix_", self.matrix_, (D, D if square else None))
            require("scale_", getattr(self, "scale_", 1.0), expect.number(above=0))
            require("t_", getattr(self, "t_", 0), expect.whole(0, 2**62))

    def _check_preparation(self, D: int) -> None:
        problem = preparation_problem(self.preparation_)
        if problem:
            raise ValueError(f"preparation_ must be {problem}; fit again")
        self.preparation_._check_fitted()  # type: ignore[union-attr]
        if self.preparation_.n_features_in_ != D:  # type: ignore[union-attr]
            raise ValueError(f"preparation_ is not for rows of {D} columns; fit again")

    def _check_one_width(self, what: str) -> None:
        """Refuse what compares rows of one kind, if queries and documents differ in width."""
        shape = np.shape(getattr(self, "matrix_", ()))
        if len(set(shape)) > 1:
            raise ValueError(
                f"{what} is for rows of one width; matrix_ compares queries of {shape[0]} columns "
                f"with documents of {shape[1]}: use similarity or neighbor_scores"
            )

    def _rows(self, X: ArrayLike) -> NDArray[np.float32]:
        """Rows as they were given, checked."""
        check_is_fitted(self, "matrix_")
        self._check_fitted()
        rows = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        check_squares(rows, "X")  # similarities are sums of products, too
        return rows

    def _prepared(self, X: ArrayLike) -> NDArray[np.float32]:
        """Rows as M knows them."""
        rows = self._rows(X)
        return applied(self.preparation_, rows)

    def transform_query(self, X: ArrayLike) -> NDArray[np.float32]:
        """Queries whose dot product with the rows as they were given ranks by the similarity.

        Only the query is transformed, so an existing dot-product index answers under the
        learned similarity without being built again. Without preparation this is ``XM``, and the
        product is the similarity; with it, the similarity plus a constant of the query.
        """
        queries = self._products(X)
        if self.preparation_ is None:
            return queries
        return np.asarray(queries @ self.preparation_.linear_map(), np.float32)  # type: ignore[operator]

    def _products(self, X: ArrayLike) -> NDArray[np.float32]:
        """xᵀM of prepared rows."""
        return self._prepared(X) @ self.matrix_

    def similarity(self, X: ArrayLike, Z: ArrayLike) -> NDArray[np.float32]:
        """Similarity of every row of `X` with every row of `Z`, as a (len(X), len(Z)) array."""
        products = self._products(X)
        width = products.shape[1] if self.preparation_ is None else self.n_features_in_  # type: ignore[attr-defined]
        return products @ applied(self.preparation_, as_rows(Z, "Z", width)).T

    def pair_score(self, pairs: ArrayLike) -> NDArray[np.float32]:
        """Similarity of the two vectors of each pair; `pairs` has shape (n, 2, D)."""
        self._check_one_width("pair_score")
        given = as_numbers(pairs, "pairs")
        if given.ndim != 3 or given.shape[1] != 2 or 0 in given.shape:
            raise ValueError(f"pairs has shape {given.shape}; (n, 2, D) is expected")
        rows = as_rows(given.reshape(-1, given.shape[2]), "pairs")
        return np.einsum("nd,nd->n", self._products(rows[::2]), self._prepared(rows[1::2]))

    def neighbor_scores(
        self, X: ArrayLike, Z: ArrayLike, neighbors: NeighborLists
    ) -> NDArray[np.float32]:
        """Similarity of each row of `X` with the rows of `Z` listed for it; −inf for ``-1``."""
        queries = self.transform_query(X)
        stored = as_rows(Z, "Z", queries.shape[1])
        lists = padded(as_voters(neighbors, len(queries), len(stored)))
        scores = listed_scores.pair_scores(queries, stored, lists)
        if self.preparation_ is not None:
            scores -= (queries @ self.preparation_.mean_)[:, None]
        return scores

    @checked(raw=expect.flag, metric=expect.optional(expect.choice(*METRICS)))
    def adapter(self, raw: bool = True, metric: Metric | None = None) -> Adapter:
        """The similarity as a map of queries, for an index of vectors as they are.

        Parameters
        ----------
        raw : bool
            Whether the index holds rows as they were given to `fit`; else as prepared.
        metric : {"dot", "cosine", "l2"}, optional
            How the index compares; by default cosine if all rows of `fit` had unit length.
        """
        check_is_fitted(self, "matrix_")
        self._check_fitted()
        learner, data = " ".join(repr(self).split()), getattr(self, "fingerprint_", None)
        return fold(
            self.matrix_, self.preparation_, raw=raw, metric=metric,
            unit_length=getattr(self, "unit_length_", False),
            card={"learner": learner, "data": data},
        )  # fmt: skip

    def _remember(self, what: str, rows: Sequence[NDArray[np.float32]], *others: Any) -> None:
        """Note what the similarity is learned from, by samples of rows and by other arrays."""
        samples = [spread(part) for part in rows]
        self.unit_length_ = all(map(have_unit_length, samples))
        self.fingerprint_ = f"{what}, {Digest(*samples, *others)}"

    def without_preparation(self) -> Self:
        """A copy for rows that `preparation_` has already been applied to."""
        check_is_fitted(self, "matrix_")
        inner = copy(self)
        if self.preparation_ is not None:
            inner.preparation_ = None
            inner.n_features_in_ = len(self.matrix_)  # type: ignore[attr-defined]
            vars(inner).pop("feature_names_in_", None)
        return inner

    @property
    def components_(self) -> NDArray[np.float32]:
        """L with ``M = LᵀL``; needs ``constraint=Constraint(psd=True)``."""
        _is_psd(self)
        check_is_fitted(self, "matrix_")
        return components(self.matrix_)

    @available_if(_is_psd)
    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return ``XLᵀ``, in which the plain dot product is the learned similarity."""
        return in_container(self, project_rows(self._prepared(X), self.components_), X)

    @available_if(_is_psd)
    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Names of the columns that `transform` makes: slne0, slne1, …."""
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{i}" for i in range(len(self.components_))], dtype=object)

    @available_if(_is_psd)
    def set_output(self, *, transform: str | None = None) -> Self:
        """Let `transform` return data frames: ``"pandas"``, ``"polars"`` or ``"default"``."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @available_if(_is_psd)
    def fit_transform(self, X: ArrayLike, y: ArrayLike) -> NDArray[np.float32]:
        """Fit, then transform the same rows."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        if getattr(self, "psd", False):
            tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags


class NeighborhoodSimilarity(BilinearSimilarity):
    """Adds the objective (Eq. 6), which needs neighbourhoods. A mixin, too."""

    retrieval_: Retrieval | None = None

    def objective(
        self, X: ArrayLike, y: ArrayLike, neighbors: NeighborLists | None = None
    ) -> float:
        """The paper's objective (Eq. 6): the hinge loss summed over all triplets.

        The margin is in the units of the training data, ``margin · scale_``.
        """
        self._check_one_width("objective")
        given = self._rows(X)
        rows = applied(self.preparation_, given)
        labels = np.unique(labels_of(y, rows), return_inverse=True)[1]
        if neighbors is None:
            k = min(self.n_neighbors, len(rows) - 1)  # type: ignore[attr-defined]
            if self.retrieval_ is None:
                neighbors = own_lists(rows, k, self.index).indices  # type: ignore[attr-defined]
            else:
                neighbors = over(self.retrieval_, given).lists(k)
        graph = neighborhoods(neighbors, labels).arrays
        scores = edge_scores(rows, graph, self.matrix_)
        return objective(graph, scores, self.margin * self.scale_)  # type: ignore[attr-defined]
