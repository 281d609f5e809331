"""What preprocessings that map rows linearly share: power, centring, the map, unit length."""

import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.io.atomic import atomic_write
from nearkin.io.rows import write_all
from nearkin.io.safetensors import Stream
from nearkin.native.blas import project_rows
from nearkin.preprocessing import pca
from nearkin.validation import expect
from nearkin.validation.arrays import SMALLEST, check_fitted_array, check_squares, validate_data
from nearkin.validation.parameters import check_parameters, checked, require

Array = NDArray[np.float32]

power = expect.number(above=0, high=10)  # beyond, float32 holds few powers but 0, 1 and infinity


class LinearPreprocessing(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows to rows: signed power, centring, a linear map, unit length. Subclasses fit the map."""

    power: float
    unit_length: bool
    mean_: Array

    @abstractmethod
    def linear_map(self) -> Array | None:
        """The (columns after, columns before) matrix that centred rows are multiplied by."""

    @checked(out=expect.optional(expect.path))
    def transform(
        self, X: ArrayLike, out: str | os.PathLike[str] | None = None
    ) -> NDArray[np.float32]:
        """Return the preprocessed rows; with `out`, as a memory map of that ``.npy`` file."""
        stream = self.stream(X)
        if out is None:
            made, lo = np.empty(stream.shape, np.float32), 0
            for block in stream.blocks():
                made[lo : lo + len(block)] = block
                lo += len(block)
            return made
        with atomic_write(out) as temporary:
            write_all(temporary, stream.shape, np.float32, stream.blocks())
        return np.load(out, mmap_mode="r")

    def stream(self, X: ArrayLike) -> Stream:
        """The preprocessed rows, computed block by block as they are read."""
        check_is_fitted(self)
        check_parameters(self)
        self._check_fitted()
        rows = self._rows(X, reset=False)
        shape = rows.shape[0], self._n_features_out
        return Stream(shape, np.dtype(np.float32), lambda: self._blocks(rows))

    def _check_fitted(self) -> None:
        """Refuse a fitted state, perhaps of a file, whose parts do not fit together."""
        if hasattr(self, "n_features_in_"):
            check_fitted_array("mean_", getattr(self, "mean_", None), (self.n_features_in_,))
            require("_n_features_out", getattr(self, "_n_features_out", None), expect.whole(1))

    def _blocks(self, rows: Any) -> Iterator[Array]:
        directions = self.linear_map()
        for _, block in pca.row_blocks(rows):
            yield self._preprocessed(block, directions)

    def _preprocessed(self, block: Array, directions: Array | None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            part = block - self.mean_
            if directions is not None:
                part = project_rows(part, directions)
            lengths = np.linalg.norm(part, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            largest = max(float(block.max()), -float(block.min()))
            raise ValueError(
                f"X: its largest number is {largest:.1e}, and such rows, preprocessed, are beyond "
                "float32; drop them, or divide all rows by a number before the fit. If they are as "
                "usual, mean_ or directions_ of the model are not: fit again"
            )
        return scale_to_unit_length(part, lengths) if self.unit_length else part

    def _rows(self, X: ArrayLike, *, reset: bool) -> Any:
        rows = self._powers(X, reset=reset)
        if reset:  # variances are of squares, too
            check_squares(rows, "X")
        return rows

    def _powers(self, X: ArrayLike, *, reset: bool) -> Any:
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


def scale_to_unit_length(part: Array, lengths: Array) -> Array:
    """Divide rows by their `lengths`, in place; rows of zeros stay."""
    tiny = lengths[:, 0] < SMALLEST  # whose squares float32 does not hold
    if tiny.any():
        largest = np.abs(part[tiny]).max(axis=1, keepdims=True)
        part[tiny] /= np.where(largest > 0, largest, 1)
        lengths[tiny] = np.linalg.norm(part[tiny], axis=1, keepdims=True)
    part /= np.where(lengths > 0, lengths, 1)
    return part


class _PowerView:
    """A view of rows that applies the power as blocks are read, without a copy of the whole."""

    def __init__(self, rows: NDArray[Any], power: float) -> None:
        self.rows, self.power, self.shape = rows, power, rows.shape

    def __getitem__(self, part: Any) -> NDArray[np.float32]:
        return _signed_power(self.rows[part], self.power)


def _signed_power(entries: NDArray[Any], power: float) -> NDArray[np.float32]:
    entries = np.asarray(entries, np.float32)
    return np.sign(entries) * np.abs(entries) ** np.float32(power)
