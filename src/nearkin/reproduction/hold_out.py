"""Settings chosen as in the comparisons of the paper: on one held-out set of training rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GridSearchCV

from nearkin.learning.holdout import held_out, sample


class HoldOutSplitter:
    """A scikit-learn splitter: one stratified hold-out set, of at most `max_rows` rows in all.

    The estimator that `GridSearchCV` refits still sees every row.
    """

    def __init__(self, seed: int, fraction: float = 0.2, max_rows: int = 10_000) -> None:
        self.seed, self.fraction, self.max_rows = seed, fraction, max_rows

    def split(
        self, X: Any, y: ArrayLike, groups: object = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows to fit and the rows to score."""
        rng = np.random.default_rng(self.seed)
        labels = np.unique(np.asarray(y), return_inverse=True)[1]
        drawn = sample(labels, self.max_rows, rng)
        held = held_out(labels[drawn], self.fraction, rng)
        # Classes of one or two rows cannot spare any: then all candidates score training rows.
        yield (drawn[~held], drawn[held]) if held.any() else (drawn, drawn)

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """One."""
        return 1


def select(estimator: Any, grid: dict[str, list[Any]], seed: int) -> GridSearchCV:
    """The estimator with the settings of `grid` that score best on held-out training rows."""
    return GridSearchCV(estimator, grid, cv=HoldOutSplitter(seed))
