"""Classifiers that give each class a score."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from nearkin.validation.parameters import check_number

Array = NDArray[np.float32]

_CELLS = 1 << 24


class ScoredClassifier(ClassifierMixin):
    """Predictions from scores. A mixin: learners supply `fit`, `classes_` and `_class_scores`."""

    classes_: NDArray[Any]

    def _class_scores(self, rows: Array) -> Array:
        """Scores of a block of rows, as a (len(rows), classes) array."""
        raise NotImplementedError

    def _blocks(self, X: ArrayLike) -> Iterator[Array]:
        check_is_fitted(self, "classes_")
        rows = validate_data(self, X, dtype=np.float32, order="C", reset=False)
        step = max(1, min(4_096, _CELLS // len(self.classes_)))
        for lo in range(0, len(rows), step):
            yield self._class_scores(rows[lo : lo + step])

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores by class; of two classes, how much the second is ahead."""
        scores = np.concatenate(list(self._blocks(X)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the highest score, for each row of `X`."""
        winners = [scores.argmax(axis=1) for scores in self._blocks(X)]
        return self.classes_[np.concatenate(winners)]

    def predict_top(self, X: ArrayLike, n: int = 5) -> NDArray[Any]:
        """The `n` labels of the highest scores, best first, as an (m, n) array."""
        check_is_fitted(self, "classes_")
        check_number("n", n, 1, whole=True)
        if n > len(self.classes_):
            raise ValueError(f"n={n} must lie between 1 and the {len(self.classes_)} classes")
        best = [np.argsort(-s, axis=1, kind="stable")[:, :n] for s in self._blocks(X)]
        return self.classes_[np.concatenate(best)]
