"""Learned Mahalanobis metrics ``d(x, z) = |L(x - z)|²``."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_is_fitted

from nearkin.native.blas import project_rows
from nearkin.native.listed_scores import pair_squared_distances
from nearkin.validation.arrays import validate_data

Array = NDArray[np.float32]


class LearnedMetric:
    """Mixin of metric learners: distances and the learned space. Learners supply `fit`."""

    components_: Array  # L
    matrix_: Array  # LᵀL

    def _keep(self, L: Array) -> None:
        self.components_ = np.ascontiguousarray(L, np.float32)
        self.matrix_ = self.components_.T @ self.components_

    def transform(self, X: ArrayLike) -> Array:
        """Return ``XLᵀ``, where Euclidean distance is the learned one."""
        check_is_fitted(self, "components_")
        rows = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        return project_rows(rows, self.components_)

    def fit_transform(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Fit, then transform the same rows."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def similarity(self, X: ArrayLike, Z: ArrayLike) -> Array:
        """Minus the learned squared distance of all pairs."""
        A, B = self.transform(X), self.transform(Z)
        squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1)
        return 2 * (A @ B.T) - squares

    def neighbor_scores(self, X: ArrayLike, Z: Array, indices: NDArray[np.int32]) -> Array:
        """Minus the learned squared distance of each row of `X` to the rows listed for it."""
        return -pair_squared_distances(self.transform(X), self.transform(Z), indices)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags
