"""The rows that a learner learns from, and those it is judged by."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from nearkin.learning.holdout import held_out, sample
from nearkin.native.pairs import pair_squared_distances
from nearkin.neighbors import nearest
from nearkin.preprocessing.pca import row_blocks
from nearkin.validation.arrays import classes_of
from nearkin.validation.parameters import check_number
from nearkin.voting import votes

Array = NDArray[np.float32]
Labels = NDArray[np.int64]
Quality = tuple[float, float]  # accuracy; among equals, mean log likelihood

NOTHING: Quality = (-1.0, 0.0)
HELD_OUT, MOST_HELD = 0.1, 2_000
VOTERS, MOST_VOTERS = 50, 20_000
PATIENCE = 8


def labelled_rows(model: Any, X: ArrayLike, y: ArrayLike) -> tuple[Array, Labels, NDArray[Any]]:
    """Rows, the number of each row's class, and the classes."""
    rows, y = validate_data(model, X, y, dtype=np.float32, order="C", ensure_min_samples=2)
    check_classification_targets(y)
    classes, labels = classes_of(y)
    return rows, labels, classes


def limited_rows(model: Any, rows: Array, labels: Labels) -> tuple[Array, Labels]:
    """At most ``model.max_rows`` rows, drawn by class, with a warning if that leaves any out."""
    model.n_rows_ = len(rows)
    if model.max_rows is None:
        return rows, labels
    check_number("max_rows", model.max_rows, 2, whole=True)
    if len(rows) <= model.max_rows:
        return rows, labels
    warnings.warn(
        f"X has {len(rows)} rows, but max_rows={model.max_rows}: {type(model).__name__} learns "
        "from so many, drawn by class; raise max_rows to learn from more",
        stacklevel=3,
    )
    drawn = sample(labels, model.max_rows, generator(model.random_state))
    model.n_rows_ = len(drawn)
    return rows[drawn], labels[drawn]


def generator(random_state: Any) -> np.random.Generator:
    """A generator that a scikit-learn `random_state` fixes."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def mean_length(rows: Array) -> float:
    """Root of the mean squared row length; one where all rows are zero."""
    total = sum(float(np.square(b, dtype=np.float64).sum()) for _, b in row_blocks(rows))
    return float(np.sqrt(total / len(rows))) or 1.0


class HeldOut:
    """A tenth of the rows (at most 2,000), held out by class, and who votes on them.

    The voters are the 50 plain nearest of the other rows (of at most 20,000 of them), as in
    `SoftVotingKNN`. ``learn`` lists the rows to learn from.
    """

    def __init__(self, rows: Array, labels: Labels, rng: np.random.Generator) -> None:
        held = held_out(labels, min(HELD_OUT, MOST_HELD / len(labels)), rng)
        self.learn = np.flatnonzero(~held)
        self.n_classes = int(labels.max()) + 1
        self.queries, self.truth = np.ascontiguousarray(rows[held]), labels[held]
        if held.any():
            voters = self.learn[sample(labels[self.learn], MOST_VOTERS, rng)]
            self.stored = np.ascontiguousarray(rows[voters])
            k = min(VOTERS, len(voters))
            self.lists = nearest(self.stored, k, queries=self.queries)[1]
            self.labels = labels[voters][self.lists]

    def quality(self, scores: Callable[[Array, Array, NDArray[np.int32]], Array]) -> Quality | None:
        """Accuracy of the best of the usual votes, and its mean log likelihood; None without rows.

        `scores` is called as ``scores(queries, stored, lists)``.
        """
        if not len(self.queries):
            return None
        seen = scores(self.queries, self.stored, self.lists)
        usual = [v for v in votes.candidates(seen) if v.kind in ("softmax", "top")]
        return max(votes.quality(v, seen, self.labels, self.truth, self.n_classes) for v in usual)


def metric_quality(held: HeldOut, L: Array) -> Quality | None:
    """The same for minus squared distances after L."""
    return held.quality(
        lambda queries, stored, lists: -pair_squared_distances(queries @ L.T, stored @ L.T, lists)
    )


class Best:
    """The best state so far, by its quality on held-out rows; the last one where there are none."""

    def __init__(self, patience: int = PATIENCE) -> None:
        self.patience, self.since = patience, 0
        self.quality: Quality = NOTHING
        self.state: Any = None

    def offer(self, quality: Quality | None, state: Any) -> bool:
        """Take note of a state; tell whether it is time to stop."""
        self.since += 1
        if quality is None or quality > self.quality:
            self.quality, self.state, self.since = quality or NOTHING, state, 0
        return self.since >= self.patience
