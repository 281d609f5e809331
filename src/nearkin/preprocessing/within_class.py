"""WithinClassWhitening: what varies within classes counts less."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from nearkin.native.blas import serial_blas
from nearkin.preprocessing import pca
from nearkin.preprocessing.class_sums import class_sums, within_class_scatter
from nearkin.preprocessing.linear import Array, LinearPreprocessing, power
from nearkin.validation import expect
from nearkin.validation.arrays import check_fitted_array, check_label_count, classes_of, labels_of
from nearkin.validation.parameters import Table, check_parameters

_RANK = 1e-6  # of the largest singular value: what is below is rounding


class WithinClassWhitening(LinearPreprocessing):
    """Centre rows and map them by ``(S_w + λ·tr(S_w)/D·I)^(−1/2)``, then scale to unit length.

    S_w is the covariance of the rows around their class means: directions in which rows of one
    class differ are scaled down. A start for learning that knows the labels, so nothing may be
    judged on rows that it was fitted on. Holds D×D arrays: for up to some thousands of columns.

    Parameters
    ----------
    shrinkage : float
        λ: the larger, the closer the map is to a plain scaling.
    power : float
        Signed power of every entry, applied first: see `Preprocess`.
    outside : float
        Factor of the directions, after whitening, in which class means do not differ. Below 1 they
        count less, which helps where classes are many; 0 leaves the space of linear discriminant
        analysis.
    unit_length : bool

    Attributes
    ----------
    mean_ : (D,) array
    map_ : (D, D) array

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1_000, 2)) * [9, 1] + np.outer(y, [1, 1])
    >>> Z = WithinClassWhitening(1e-6, unit_length=False).fit_transform(X, y)
    >>> np.round([Z[y == c].std(axis=0).mean() for c in (0, 1)], 1).tolist()
    [1.0, 1.0]
    """

    PARAMETERS: ClassVar[Table] = {
        "shrinkage": expect.number(above=0),
        "power": power,
        "outside": expect.number(0, 1),
        "unit_length": expect.flag,
    }

    def __init__(
        self,
        shrinkage: float = 1.0,
        *,
        power: float = 1.0,
        outside: float = 1.0,
        unit_length: bool = True,
    ) -> None:
        self.shrinkage = shrinkage
        self.power = power
        self.outside = outside
        self.unit_length = unit_length

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Compute the mean and the map from rows and their labels."""
        check_parameters(self)
        check_label_count(X, y)
        rows = self._rows(X, reset=True)
        classes, labels = classes_of(labels_of(y, rows))
        self.mean_ = pca.mean(rows)
        with serial_blas():  # the same bits on any number of cores
            covariance = within_class_scatter(rows, labels, self.mean_)
            covariance /= max(1, rows.shape[0] - len(classes))
            values, vectors = linalg.eigh(covariance)
            values = np.maximum(values, 0)
            floor = self.shrinkage * values.mean() or 1.0  # every class a single point
            whitening = (vectors * (values + floor) ** -0.5) @ vectors.T
            if self.outside < 1:
                sums = class_sums(rows, labels, len(classes), self.mean_)
                means = sums / np.bincount(labels)[:, None] @ whitening
                whitening = _weakened(whitening, means - means.mean(axis=0), self.outside)
            self.map_ = whitening.astype(np.float32)
        self._n_features_out = rows.shape[1]
        return self

    def linear_map(self) -> Array:
        """The map that was fitted."""
        return self.map_

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if hasattr(self, "n_features_in_"):
            D = self.n_features_in_
            check_fitted_array("map_", getattr(self, "map_", None), (D, D))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _weakened(
    whitening: NDArray[np.float64], means: NDArray[np.float64], factor: float
) -> NDArray[np.float64]:
    """The map, with directions that `means` do not span multiplied by `factor`."""
    _, sizes, directions = linalg.svd(means, full_matrices=False)
    spanned = directions[sizes > _RANK * sizes[0]]
    return factor * whitening + (1 - factor) * (spanned.T @ (spanned @ whitening))
