"""Linear support vector machines, one class against all others."""

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state

from nearkin.learning.holdout import held_out, sample
from nearkin.preprocessing.pca import row_blocks
from nearkin.reproduction.baselines import _averaged_sgd
from nearkin.reproduction.baselines._rows import labelled_rows
from nearkin.reproduction.baselines._scored import ScoredClassifier
from nearkin.validation.parameters import check_choice, check_number

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
HELD_OUT, SEARCH_ROWS = 0.2, 10_000
# liblinear copies the rows to float64; beyond half a GiB of that the online solver takes over.
EXACT_CELLS = 1 << 26
MAX_ITER = 1_000


class LinearSVM(ScoredClassifier, BaseEstimator):
    """Linear SVM, one versus all: exact where the data is small, averaged online where it is large.

    Rows are taken at mean squared length one, so that C means the same for any data.

    Parameters
    ----------
    C : float or "auto"
        Weight of the losses. ``auto`` holds out a fifth of the rows (of at most 10,000, drawn by
        class) and climbs from 1 along 0.01, 0.03, 0.1 … 300 while they are classified better.
    solver : {"auto", "exact", "online"}
        ``exact`` is liblinear with squared hinge losses. ``online`` is averaged stochastic
        gradient descent on hinge losses (Bottou), whose memory is that of the result: rows are
        read in blocks, also from memory maps. ``auto`` is exact up to 67 million cells of `X`.
    max_epochs : int
        Passes of the online solver.
    tol : float
        Of the exact solver.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    classes_ : array of labels
    coef_, intercept_ : (classes, D) and (classes,) arrays; one row where there are two classes
    C_ : float
    solver_ : str
    trials_ : dict
        Accuracy on the held-out rows of each C that was tried; empty where C is given.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LinearSVM(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.9), model.predict_top(X[:2], n=3).shape
    (True, (2, 3))
    """

    def __init__(
        self,
        *,
        C: float | str = "auto",
        solver: str = "auto",
        max_epochs: int = 5,
        tol: float = 1e-3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.solver = solver
        self.max_epochs = max_epochs
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn `coef_` and `intercept_`."""
        self._check_parameters()
        rows, labels, self.classes_ = labelled_rows(self, X, y)
        self.trials_: dict[float, float] = {}
        self.solver_ = self.solver
        if self.solver == "auto":
            self.solver_ = "exact" if rows.size <= EXACT_CELLS else "online"
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        total = sum(float(np.square(b, dtype=np.float64).sum()) for _, b in row_blocks(rows))
        scale = 1 / np.sqrt(max(total / len(rows), 1e-30))
        self.C_ = self._choose(rows, labels, scale, seed) if self.C == "auto" else float(self.C)
        self.coef_, self.intercept_ = self._solve(rows, labels, scale, self.C_, seed)
        return self

    def _check_parameters(self) -> None:
        check_choice("solver", self.solver, ["auto", "exact", "online"])
        if isinstance(self.C, str):
            check_choice("C", self.C, ["auto"])
        else:
            check_number("C", self.C, 0, open_low=True)
        check_number("tol", self.tol, 0, open_low=True)
        check_number("max_epochs", self.max_epochs, 1, whole=True)

    def _choose(self, rows: Array, labels: Labels, scale: float, seed: int) -> float:
        """Climb from C = 1 in the direction that helps."""
        rng = np.random.default_rng(seed)
        drawn = sample(labels, SEARCH_ROWS, rng)
        some, own = rows[drawn], labels[drawn]
        held = held_out(own, HELD_OUT, rng)
        place = GRID.index(1.0)
        known = np.unique(own[~held])
        if not held.any() or len(known) < 2:
            return GRID[place]

        def accuracy(at: int) -> float:
            C = GRID[at]
            if C not in self.trials_:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    own_codes = np.searchsorted(known, own[~held])
                    coef, bias = self._solve(some[~held], own_codes, scale, C, seed)
                guess = known[_scores(some[held], coef, bias).argmax(axis=1)]
                self.trials_[C] = float(np.mean(guess == own[held]))
            return self.trials_[C]

        for way in (1, -1):
            while 0 <= place + way < len(GRID) and accuracy(place + way) > accuracy(place):
                place += way
        return GRID[place]

    def _solve(
        self, rows: Array, labels: Labels, scale: float, C: float, seed: int
    ) -> tuple[Array, Array]:
        n_classes = int(labels.max()) + 1
        if self.solver_ == "online":
            epochs = self.max_epochs
            W = _averaged_sgd.learn(rows, labels, n_classes, scale, C, epochs, seed)
            return np.ascontiguousarray(W[:-1].T) * np.float32(scale), W[-1]
        svm = LinearSVC(C=C, tol=self.tol, max_iter=MAX_ITER, random_state=seed, dual="auto")
        svm.fit(rows * np.float64(scale), labels)
        return (svm.coef_ * scale).astype(np.float32), svm.intercept_.astype(np.float32)

    def _class_scores(self, rows: Array) -> Array:
        return _scores(rows, self.coef_, self.intercept_)


def _scores(rows: Array, coef: Array, bias: Array) -> Array:
    scores: Any = rows @ coef.T + bias
    return np.hstack([-scores / 2, scores / 2]) if scores.shape[1] == 1 else scores
