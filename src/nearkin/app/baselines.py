"""Baselines from scikit-learn to compare a model with."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from nearkin.app.comparison import Factory, compare
from nearkin.app.labels import match_labels
from nearkin.learning.holdout import held_out, sample

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN

COSTS = [0.1, 1.0, 10.0, 100.0]  # C, for rows of unit length
QUICK = ("retrieval", "svm")


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


def _retrieval(seed: int) -> "SoftVotingKNN":
    from nearkin.classifier import SoftVotingKNN

    return SoftVotingKNN(None, random_state=seed)


BASELINES: dict[str, Factory] = {
    "retrieval": _retrieval,  # the vote of the plain nearest neighbours
    "svm": lambda seed: select(LinearSVC(random_state=seed), {"C": COSTS}, seed),
    "logistic": lambda seed: select(LogisticRegression(max_iter=1_000), {"C": COSTS}, seed),
    "lda": lambda seed: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "ridge": lambda seed: RidgeClassifierCV(alphas=np.logspace(-3, 3, 7)),
}


def check_baselines(names: Sequence[str]) -> None:
    """Raise ValueError for a name that is not in `BASELINES`."""
    for name in names:
        if name not in BASELINES:
            raise ValueError(
                f"baselines={name!r} is not known; use some of {', '.join(BASELINES)}, or none"
            )


def parse_baselines(text: str) -> tuple[str, ...]:
    """Names of baselines from comma-separated text, or from 'none', 'quick' or 'all'.

    Examples
    --------
    >>> parse_baselines("quick"), parse_baselines("lda, ridge")
    (('retrieval', 'svm'), ('lda', 'ridge'))
    """
    groups = {"none": (), "quick": QUICK, "all": tuple(BASELINES)}
    names = groups.get(text, tuple(part.strip() for part in text.lower().split(",")))
    check_baselines(names)
    return names


def measure(
    model: "SoftVotingKNN",
    X: ArrayLike,
    y: ArrayLike,
    names: Sequence[str] = QUICK,
    time_limit: float | None = None,
) -> list[dict[str, Any]]:
    """Fit baselines on the model's own rows, preprocessed as the model does, and score them.

    Returns
    -------
    list of dict
        The fields of `nearkin.app.comparison.Outcome`; None for an accuracy that the time limit
        prevented.
    """
    check_baselines(names)
    if not names:
        return []
    outcomes = compare(
        {name: BASELINES[name] for name in names},
        model.database_,
        model.classes_[model.labels_],
        model._queries(X),
        match_labels(y, model.classes_),
        time_limit=time_limit,
    )
    return [
        {key: None if value != value else value for key, value in asdict(outcome).items()}
        for outcome in outcomes
    ]
