"""Neighbourhood components analysis (Goldberger et al., NIPS 2004), scikit-learn's."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearkin.reproduction.baselines._metric import LearnedMetric
from nearkin.reproduction.baselines._rows import generator, labelled_rows, limited_rows, mean_length
from nearkin.validation.parameters import check_number


class NCA(LearnedMetric, BaseEstimator):
    """Learn a Mahalanobis metric that makes random neighbours be of a row's own class.

    Rows are taken at mean squared length one: with longer ones all but the nearest rows are out of
    sight at the start, and L stays where it is.

    Parameters
    ----------
    n_components : int, optional
        Rows of L; as many as columns if left out.
    max_iter : int
        Iterations of L-BFGS.
    max_rows : int, optional
        Of more rows than this, so many are drawn to learn from, each class by its share, and a
        warning is given: scikit-learn holds several N×N arrays of float64, 32 MiB each at 2,000
        rows and 3.2 GiB at 20,000.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    components_ : (n_components, D) array L
    matrix_ : (D, D) array LᵀL
    rank_, n_iter_ : int
        Rows of L, and iterations.
    n_rows_ : int
        Rows learned from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> NCA(2, max_iter=20, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        max_iter: int = 50,
        max_rows: int | None = 4_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn L by maximising the probability that a random neighbour is of the same class."""
        check_number("max_iter", self.max_iter, 1, whole=True)
        if self.n_components is not None:
            check_number("n_components", self.n_components, 1, whole=True)
        rows, labels = limited_rows(self, *labelled_rows(self, X, y)[:2])
        n = rows.shape[1] if self.n_components is None else min(self.n_components, rows.shape[1])
        seed = int(generator(self.random_state).integers(2**31))
        scale = np.float32(1 / mean_length(rows))
        nca = NeighborhoodComponentsAnalysis(n, max_iter=self.max_iter, random_state=seed)
        nca.fit(rows * scale, labels)
        self._keep(nca.components_ * scale)
        self.rank_, self.n_iter_ = n, int(nca.n_iter_)
        return self
