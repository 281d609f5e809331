"""The best of several classifiers, on training rows held out from their learning."""

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from nearkin.learning.holdout import sample
from nearkin.validation.parameters import check_number

ENOUGH, MOST_SPLITS = 500, 3  # rows judged; few rows are split again until there are so many
_HELD = 0.1  # what SoftVotingKNN holds out


class BestOf(ClassifierMixin, BaseEstimator):
    """Try each of several `SoftVotingKNN` and fit the best one on all rows.

    With ``vote="auto"`` a candidate holds out a tenth of its rows from learning to choose its vote;
    its accuracy on them decides. All candidates hold out the same rows. Fewer than 5,000 rows are
    split up to three times.

    Parameters
    ----------
    candidates : sequence of SoftVotingKNN
    max_rows : int
        Of more rows than this, so many are drawn, by class, to choose on.
    random_state : int, RandomState instance or None
    verbose : int
        1 prints a line for each candidate.

    Attributes
    ----------
    best_ : SoftVotingKNN
        Fitted on all rows.
    best_index_ : int
        Which candidate it is.
    trials_ : list of float
        Accuracies of the candidates on the held-out rows.
    classes_ : array of labels

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from nearkin import SLNE, Preprocess, SoftVotingKNN
    >>> X, y = load_digits(return_X_y=True)
    >>> X = Preprocess().fit_transform(X)
    >>> rules = [SoftVotingKNN(SLNE(rule=rule, max_epochs=3)) for rule in ("hardest", "softmax")]
    >>> model = BestOf(rules, random_state=0).fit(X[:1000], y[:1000])
    >>> model.best_index_, model.predict_top(X[1000:], n=3).shape
    (1, (797, 3))
    """

    def __init__(
        self,
        candidates: Sequence[Any] = (),
        *,
        max_rows: int = 20_000,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.candidates = candidates
        self.max_rows = max_rows
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Choose, then fit the choice on all rows."""
        check_number("max_rows", self.max_rows, 2)
        if not len(self.candidates):
            raise ValueError("candidates is empty; give at least one SoftVotingKNN")
        rows, y = validate_data(self, X, y, dtype=np.float32, order="C")
        check_classification_targets(y)
        y = np.asarray(y)
        labels = np.unique(y, return_inverse=True)[1]
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        drawn = sample(labels, self.max_rows, np.random.default_rng(seed))
        self.trials_: list[float] = []
        if len(self.candidates) > 1:
            some = rows if len(drawn) == len(rows) else rows[drawn]
            for candidate in self.candidates:
                self.trials_.append(self._judged(candidate, some, y[drawn], seed))
        self.best_index_ = int(np.argmax(self.trials_)) if self.trials_ else 0
        best = clone(self.candidates[self.best_index_]).set_params(random_state=seed)
        self.best_ = best.fit(rows, y)
        self.classes_ = self.best_.classes_
        return self

    def _judged(self, candidate: Any, rows: Any, y: NDArray[Any], seed: int) -> float:
        """Mean accuracy on held-out rows, over as many splits as few rows need."""
        splits = int(np.clip(np.ceil(ENOUGH / (_HELD * len(y))), 1, MOST_SPLITS))
        accuracies = []
        for split in range(splits):
            trial = clone(candidate).set_params(refit=False, random_state=(seed + split) % 2**31)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # a slow candidate counts
                trial.fit(rows, y)
            accuracies.append(getattr(trial, "calibration_accuracy_", 0.0))
        if self.verbose:
            text = " ".join(repr(candidate).split())
            print(f"{np.mean(accuracies):.4f}  {text}", flush=True)
        return float(np.mean(accuracies))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label with the most votes, for each row of `X`."""
        check_is_fitted(self, "best_")
        return self.best_.predict(validate_data(self, X, dtype=np.float32, reset=False))

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Shares of the votes, in the order of `classes_`."""
        check_is_fitted(self, "best_")
        return self.best_.predict_proba(validate_data(self, X, dtype=np.float32, reset=False))

    def predict_top(self, X: ArrayLike, n: int = 5) -> NDArray[Any]:
        """The `n` labels with the most votes, best first, as an (m, n) array."""
        check_is_fitted(self, "best_")
        return self.best_.predict_top(X, n)
