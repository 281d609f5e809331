"""Nearest class mean with a learned metric (Mensink, Verbeek, Perronnin and Csurka, ECCV 2012).

With the class means μ_c, a row x is of class c with probability

    p(c|x) ∝ exp(-½ |Wx - Wμ_c|²),

and W, a d×D matrix, maximises the mean of ln p(y|x) over the training rows.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nearkin.native.blas import serial_blas
from nearkin.preprocessing.pca import row_blocks
from nearkin.reproduction.baselines._early_stopping import HeldOut, Quality
from nearkin.reproduction.baselines._low_rank import (
    PARAMETERS,
    Problem,
    principal_start,
    search,
)
from nearkin.reproduction.baselines._training_rows import generator, labelled_rows, rms_length
from nearkin.validation.arrays import validate_data
from nearkin.validation.parameters import Table, check_parameters

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

STEPS = (0.3, 1.0, 3.0)
BLOCK_CELLS = 1 << 24


class NCM(ClassifierMixin, BaseEstimator):
    """Classify by the nearest class mean, under a low-rank metric learned for it.

    A tenth of the rows (at most 2,000) is held out to select ``auto`` settings and when to stop.
    Rows are scaled to mean squared length one.

    Parameters
    ----------
    rank : int or "auto"
        d; ``auto`` is the best of 32, 128 and 512, as far as there are columns.
    step_size : float or "auto"
        ``auto`` is the best of 0.3, 1 and 3.
    batch_size : int
    max_iter : int
        Maximum number of steps. The held-out rows are classified every 25 steps; eight evaluations
        without improvement stop the descent.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    classes_ : array of labels
    components_ : (d, D) array W
    means_ : (classes, D) array of class means
    rank_, step_size_, n_iter_ :
        Selected rank and step size, and number of steps.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NCM(rank=32, step_size=1.0, max_iter=200, random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.9), model.predict_proba(X[:2]).shape
    (True, (2, 10))
    """

    PARAMETERS: ClassVar[Table] = PARAMETERS

    def __init__(
        self,
        *,
        rank: int | str = "auto",
        step_size: float | str = "auto",
        batch_size: int = 256,
        max_iter: int = 2_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.rank = rank
        self.step_size = step_size
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn `components_`; the means are those of all rows."""
        check_parameters(self)
        rows, labels, self.classes_ = labelled_rows(self, X, y)
        rng = generator(self.random_state)
        held = HeldOut(rows, labels, rng)
        scale = np.float32(1 / rms_length(rows))
        mask = np.zeros(len(rows), bool)
        mask[held.learn] = True
        means = class_means(rows, labels, len(self.classes_), mask) * scale
        queries, truth = held.queries * scale, held.truth

        def loss(W: Array, batch: Labels) -> tuple[float, Array]:
            return loss_and_gradient(W, rows[batch] * scale, labels[batch], means)

        def quality(W: Array) -> Quality | None:
            return quality_of(scores(W, queries, means), truth) if len(truth) else None

        most = rows.shape[1] if isinstance(self.rank, str) else self.rank
        with serial_blas():
            start = principal_start(rows, labels, min(512, most), rng)
            problem = Problem(held.learn, self.batch_size, loss, quality, int(rng.integers(2**31)))
            found = search(problem, start, self.rank, self.step_size, STEPS, self.max_iter)
        self.components_ = found.W * scale
        self.means_ = class_means(rows, labels, len(self.classes_), np.ones(len(rows), bool))
        self.rank_, self.step_size_, self.n_iter_ = found.rank, found.step_size, found.steps
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """p(c|x), in the order of `classes_`."""
        return np.concatenate([np.exp(log_softmax(s, axis=1)) for s in self._scores(X)])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the nearest class mean, for each row of `X`."""
        winners = [s.argmax(axis=1) for s in self._scores(X)]
        return self.classes_[np.concatenate(winners)]

    def _scores(self, X: ArrayLike) -> Iterator[Array]:
        """Scores by class, a block of rows at a time."""
        check_is_fitted(self, "classes_")
        rows = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        step = max(1, min(4_096, BLOCK_CELLS // len(self.classes_)))
        for lo in range(0, len(rows), step):
            yield scores(self.components_, rows[lo : lo + step], self.means_)


def class_means(rows: Array, labels: Labels, n_classes: int, use: NDArray[np.bool_]) -> Array:
    """The mean of the used rows of each class, summed in double precision, read in blocks."""
    totals = np.zeros((n_classes, rows.shape[1]))
    for lo, block in row_blocks(rows):
        part = slice(lo, lo + len(block))
        np.add.at(totals, labels[part][use[part]], block[use[part]])
    return (totals / np.bincount(labels[use], minlength=n_classes)[:, None]).astype(np.float32)


def scores(W: Array, rows: Array, means: Array) -> Array:
    """−½ |Wx − Wμ_c|² for each row and class."""
    Z, U = rows @ W.T, means @ W.T
    return Z @ U.T - ((Z**2).sum(axis=1)[:, None] + (U**2).sum(axis=1)) / 2


def quality_of(class_scores: Array, truth: Labels) -> Quality:
    """Accuracy, and the mean of ln p(y|x)."""
    logs = log_softmax(class_scores, axis=1)
    right = float(np.mean(logs.argmax(axis=1) == truth))
    return right, float(logs[np.arange(len(truth)), truth].mean(dtype=np.float64))


def loss_and_gradient(W: Array, X: Array, own: Labels, means: Array) -> tuple[float, Array]:
    """Mean of −ln p(y|x) over the rows `X`, and its gradient with respect to W.

    With α_ic = [y_i = c] − p(c|x_i), which sums to zero over c, the gradient Σ α_ic W z zᵀ / n of
    z = μ_c − x_i splits into products of small matrices.
    """
    logs = log_softmax(scores(W, X, means), axis=1)
    alpha = -np.exp(logs)
    alpha[np.arange(len(X)), own] += 1
    Z, U = X @ W.T, means @ W.T
    by_class = (U * alpha.sum(axis=0)[:, None]).T @ means
    gradient = by_class - (alpha @ U).T @ X - (alpha.T @ Z).T @ means
    loss = -logs[np.arange(len(X)), own].mean(dtype=np.float64)
    return float(loss), gradient / np.float32(len(X))
