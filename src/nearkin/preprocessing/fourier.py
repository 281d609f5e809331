"""FourierFeatures: a non-linear similarity, alone or beside a linear one."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearkin.native.blas import project_rows
from nearkin.preprocessing.linear import scale_to_unit_length
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.preprocessing.transformers import searched_alone
from nearkin.validation import expect
from nearkin.validation.arrays import check_fitted_array, validate_data
from nearkin.validation.parameters import Table, check_parameters, require

Array = NDArray[np.float32]

_TRANSFORMER = expect.part("transform", "a transformer such as Preprocess()")


class FourierFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random Fourier features of preprocessed rows (Rahimi and Recht, 2007), of unit length.

    Their inner products approximate the Gaussian kernel ``exp(-bandwidth² |x - z|² / 2)`` of rows
    scaled to mean squared length one, so that a matrix M learned on them is a non-linear
    similarity. scikit-learn's RBFSampler draws cosines with random phases instead: unit length
    only on average, and a larger error for as many columns.

    Parameters
    ----------
    preprocess : transformer, optional
        Applied first; a copy is fitted. If omitted, ``Preprocess(unit_length=False)``.
    n_features : int
        Random directions; each yields a cosine and a sine.
    bandwidth : float
        The larger, the closer two rows must be to be similar.
    linear : float
        Share of the preprocessed rows themselves, scaled to unit length, as further columns:
        inner products are ``linear·cosine + (1 − linear)·kernel``. What is similar from afar and
        what is similar close by are then both learned. From half a share and 16 columns on,
        `SoftVotingKNN` searches neighbours in these alone, which order rows nearly as all do.
    random_state : int, RandomState instance or None
        Seeds the directions.

    Attributes
    ----------
    preprocess_ : fitted transformer
    scale_ : float
        Root of the mean squared length of the preprocessed rows, which they are divided by.
    directions_ : (columns after `preprocess`, n_features) float32 array
        The random directions, times ``bandwidth / scale_``.
    linear_ : float
        The share that was fitted with.
    n_search_columns_ : int
        Columns at the end in which neighbours are searched: the linear ones, or 0 for all.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> fourier = FourierFeatures(Preprocess(unit_length=False), n_features=2_000, random_state=0)
    >>> Z = fourier.fit_transform(X)
    >>> scaled = Preprocess(unit_length=False).fit_transform(X) / fourier.scale_
    >>> kernel = np.exp(-(np.linalg.norm(scaled[0] - scaled[1]) ** 2) / 2)
    >>> bool(abs(Z[0] @ Z[1] - kernel) < 0.05)
    True
    """

    linear_: float = 0.0  # of files from before there was a share
    n_search_columns_: int = 0  # of files from when all columns were searched

    PARAMETERS: ClassVar[Table] = {
        "preprocess": expect.optional(_TRANSFORMER),
        "n_features": expect.whole(1),
        "bandwidth": expect.number(above=0),
        "linear": expect.number(0, 1),
        "random_state": expect.seed,
    }

    def __init__(
        self,
        preprocess: Any = None,
        *,
        n_features: int = 400,
        bandwidth: float = 1.0,
        linear: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.preprocess = preprocess
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.linear = linear
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fit `preprocess` and draw the directions."""
        check_parameters(self)
        validate_data(self, X, accept_sparse="csr", dtype=None, skip_check_array=True)
        before = Preprocess(unit_length=False) if self.preprocess is None else self.preprocess
        self.preprocess_ = clone(before).fit(X, y)
        rows = self.preprocess_.transform(X)
        self.scale_ = float(np.sqrt(np.einsum("nd,nd->", rows, rows) / len(rows))) or 1.0
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        shape = rows.shape[1], int(self.n_features)
        self.directions_ = rng.standard_normal(shape, np.float32) * np.float32(
            self.bandwidth / self.scale_
        )
        self.linear_ = float(self.linear)
        self.n_search_columns_ = searched_alone(self.linear_, shape[0])
        self._n_features_out = 2 * shape[1] + (shape[0] if self.linear_ else 0)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return the cosines and sines of the rows along the directions, then linear columns."""
        check_is_fitted(self)
        self._check_fitted()
        rows, m = self.preprocess_.transform(X), self.directions_.shape[1]
        wanted = 2 * m + (rows.shape[1] if self.linear_ else 0)
        features = np.empty((len(rows), wanted), np.float32)
        # The last block takes the rest: BLAS sums a few rows in another order than many.
        edges = [*range(0, max(1, len(rows) - 4_095), 4_096), len(rows)]
        for part in map(slice, edges, edges[1:]):
            self._waves(rows[part], features[part, : 2 * m])
            if self.linear_:
                lengths = np.linalg.norm(rows[part], axis=1, keepdims=True)
                unit = scale_to_unit_length(rows[part].copy(), lengths)
                features[part, 2 * m :] = np.float32(np.sqrt(self.linear_)) * unit
        return features

    def _waves(self, rows: Array, out: Array) -> None:
        """Cosines and sines of rows along the directions, of length √(1 − linear)."""
        m = self.directions_.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            angles = project_rows(rows, self.directions_.T)
        if not np.isfinite(angles).all():
            raise ValueError(
                "X, or directions_ of the model, has numbers whose products float32 cannot "
                "hold; drop such rows, or fit again"
            )
        np.cos(angles, out=out[:, :m])
        np.sin(angles, out=out[:, m:])
        out *= np.float32(np.sqrt((1 - self.linear_) / m))

    def _check_fitted(self) -> None:
        """Refuse a fitted state, perhaps of a file, whose parts do not fit together."""
        if hasattr(self, "directions_"):
            require("preprocess_", getattr(self, "preprocess_", None), _TRANSFORMER)
            before = getattr(self.preprocess_, "directions_", None)
            width = None if before is None else len(before)
            check_fitted_array("directions_", self.directions_, (width, None))
            require("linear_", getattr(self, "linear_", None), self.PARAMETERS["linear"])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        inner = getattr(self.preprocess, "__sklearn_tags__", None)
        tags.target_tags.required = bool(inner and inner().target_tags.required)
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
