"""Preprocess: centre, PCA, fractional whitening, unit length."""

import os
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearkin.io.atomic import atomic_write
from nearkin.io.rows import write_all
from nearkin.native.blas import project_rows
from nearkin.preprocessing import pca
from nearkin.validation import expect
from nearkin.validation.arrays import check_fitted_array, validate_data
from nearkin.validation.parameters import Table, check_parameters, checked


class Preprocess(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Centre rows, rotate them to principal directions, whiten, scale to unit length.

    Component i is scaled by ``variance_i ** (-whitening / 2)``: 0 leaves the data as it is, 1
    gives all directions the same variance, and about one half is often best for neighbours.

    Parameters
    ----------
    n_components : int, optional
        Principal directions to keep; all if omitted.
    whitening : float
        Exponent between 0 and 1.
    power : float
        Signed power of every entry, applied first. One half suits bursty entries, such as LLC
        codes or counts.
    center, unit_length : bool
    random_state : int, RandomState instance or None
        Used only by the randomised method: more rows than columns and more than 5,000 columns.

    Attributes
    ----------
    mean_ : (D,) array
    directions_ : (n_components, D) array
        Principal directions, not scaled.
    variances_ : (n_components,) array

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 5)) * [9, 3, 1, 1, 1]
    >>> Z = Preprocess(n_components=3, whitening=1.0, unit_length=False).fit_transform(X)
    >>> np.round(Z.std(axis=0), 3).tolist()
    [1.0, 1.0, 1.0]
    """

    PARAMETERS: ClassVar[Table] = {
        "n_components": expect.optional(expect.whole(1)),
        "whitening": expect.number(0, 1),
        "power": expect.number(above=0),
        "center": expect.flag,
        "unit_length": expect.flag,
        "random_state": expect.seed,
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        whitening: float = 0.5,
        power: float = 1.0,
        center: bool = True,
        unit_length: bool = True,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.whitening = whitening
        self.power = power
        self.center = center
        self.unit_length = unit_length
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Compute the mean and the principal directions of `X`: an array, memory map or sparse."""
        check_parameters(self)
        rows = self._rows(X, reset=True)
        most = min(rows.shape)
        n = most if self.n_components is None else self.n_components
        if n > most:
            raise ValueError(
                f"n_components={n} but X has {rows.shape[0]} rows and {rows.shape[1]} columns; "
                f"at most {most} directions exist"
            )
        width = rows.shape[1]
        self.mean_ = pca.mean(rows) if self.center else np.zeros(width, np.float32)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self.directions_, self.variances_ = pca.principal_directions(rows, n, self.mean_, rng)
        self._n_features_out = n
        return self

    @checked(out=expect.optional(expect.path))
    def transform(
        self, X: ArrayLike, out: str | os.PathLike[str] | None = None
    ) -> NDArray[np.float32]:
        """Return the preprocessed rows; with `out`, as a memory map of that ``.npy`` file."""
        check_is_fitted(self)
        check_parameters(self)
        self._check_fitted()
        rows = self._rows(X, reset=False)
        shape = rows.shape[0], len(self.directions_)
        if out is None:
            made = np.empty(shape, np.float32)
            for lo, block in self._blocks(rows):
                made[lo : lo + len(block)] = block
            return made
        with atomic_write(out) as temporary:
            write_all(temporary, shape, np.float32, (block for _, block in self._blocks(rows)))
        return np.load(out, mmap_mode="r")

    def _check_fitted(self) -> None:
        """Refuse a fitted state, perhaps of a file, whose parts do not fit together."""
        if hasattr(self, "directions_"):
            D = self.n_features_in_
            check_fitted_array("mean_", self.mean_, (D,))
            check_fitted_array("directions_", self.directions_, (None, D))
            check_fitted_array("variances_", self.variances_, (len(self.directions_),))

    def _blocks(self, rows: Any) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Preprocessed rows, a block at a time, each with the number of its first row."""
        # A direction without variance is rounding noise, which whitening would amplify.
        floor = np.float32(1e-7) * self.variances_.max()
        with np.errstate(divide="ignore"):
            scale = self.variances_ ** np.float32(-self.whitening / 2)
        if self.whitening:
            scale = np.where(self.variances_ > floor, scale, 0)
        directions = self.directions_ * scale[:, None]
        for lo, block in pca.row_blocks(rows):
            part = project_rows(block - self.mean_, directions)
            if self.unit_length:
                length = np.linalg.norm(part, axis=1, keepdims=True)
                part /= np.where(length > 0, length, 1)
            yield lo, part

    def _rows(self, X: ArrayLike, *, reset: bool) -> Any:
        # float16 is accepted: blocks are converted one by one, not the whole array.
        rows = validate_data(
            self, X, accept_sparse="csr", dtype=[np.float32, np.float64, np.float16], reset=reset
        )
        if self.power == 1:
            return rows
        if sparse.issparse(rows):
            if not rows.has_canonical_format:  # the power of a sum, not the sum of powers
                rows = rows.copy()
                rows.sum_duplicates()
            return type(rows)(
                (_signed_power(rows.data, self.power), rows.indices, rows.indptr), rows.shape
            )
        return _PowerView(rows, self.power)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


class _PowerView:
    """A view of rows that applies the power as blocks are read, without a copy of the whole."""

    def __init__(self, rows: NDArray[Any], power: float) -> None:
        self.rows, self.power, self.shape = rows, power, rows.shape

    def __getitem__(self, part: Any) -> NDArray[np.float32]:
        return _signed_power(self.rows[part], self.power)


def _signed_power(entries: NDArray[Any], power: float) -> NDArray[np.float32]:
    entries = np.asarray(entries, np.float32)
    return np.sign(entries) * np.abs(entries) ** np.float32(power)
