"""Preprocess: centre, PCA, fractional whitening, unit length."""

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearkin.preprocessing import pca
from nearkin.preprocessing.linear import Array, LinearPreprocessing, power
from nearkin.validation import expect
from nearkin.validation.arrays import check_fitted_array
from nearkin.validation.parameters import Table, check_parameters, checked


class Preprocess(LinearPreprocessing):
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
        "power": power,
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
        n = most if self.n_components is None else int(self.n_components)
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

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if hasattr(self, "directions_"):
            check_fitted_array(
                "directions_", self.directions_, (self._n_features_out, self.n_features_in_)
            )
            check_fitted_array("variances_", self.variances_, (len(self.directions_),))

    @checked(n_components=expect.whole(1))
    def truncated(self, n_components: int) -> "Preprocess":
        """A fitted copy that keeps only the first principal directions."""
        check_is_fitted(self)
        if n_components > len(self.directions_):
            raise ValueError(
                f"n_components={n_components} but {len(self.directions_)} directions were fitted; "
                "give at most as many"
            )
        copy = clone(self).set_params(n_components=n_components)
        vars(copy).update({k: v for k, v in vars(self).items() if k.endswith("_") or k[0] == "_"})
        copy.directions_, copy.variances_ = (
            self.directions_[:n_components],
            self.variances_[:n_components],
        )
        copy._n_features_out = n_components
        return copy

    def linear_map(self) -> Array:
        """The principal directions, each scaled by its whitening."""
        # A direction without variance is rounding noise, which whitening would amplify.
        floor = np.float32(1e-7) * self.variances_.max()
        with np.errstate(divide="ignore"):
            scale = self.variances_ ** np.float32(-self.whitening / 2)
        if self.whitening:
            scale = np.where(self.variances_ > floor, scale, 0)
        return self.directions_ * scale[:, None]
