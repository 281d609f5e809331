"""What a user would try instead, on the rows as they were given: baselines from scikit-learn.

Each chooses its settings, and linear classifiers also how to scale the rows, by cross-validation.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from nearkin.app.comparison import compare
from nearkin.learning.holdout import sample
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.preprocessing.unit_length import UnitLength
from nearkin.preprocessing.within_class import WithinClassWhitening
from nearkin.voting.votes import Vote

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN

COSTS = [0.1, 1.0, 10.0, 100.0, 1_000.0]  # C, for rows whose mean squared length is 1
SEARCH_ROWS, FOLDS = 6_000, 3
COSINE_NEIGHBORS, COSINE_TEMPERATURE = 50, 0.07
# rows × columns × classes, from which a search or a fit of the slowest would take minutes
SEARCH_CELLS, FIT_CELLS = 6e7, 1e9
LEAST_ROWS = 500
QUICK = ("cosine", "svm")
NO_RAW = (
    "raw cosine is left out: it needs the vectors that the model was trained on, which a run on "
    "images has; for other models give --train FILE"
)
NO_MEMORY = "raw cosine is left out: its rows do not fit into memory beside the model"


class Scale(TransformerMixin, BaseEstimator):
    """Centre; divide each column by its deviation, or all rows by their mean length."""

    def __init__(self, columns: bool = True) -> None:
        self.columns = columns

    def fit(self, X: NDArray[Any], y: object = None) -> Self:
        """Measure the columns."""
        self.mean_ = X.mean(axis=0)
        deviation = X.std(axis=0)
        length = np.sqrt((deviation**2).sum()) or 1.0
        self.scale_ = np.full_like(deviation, length)
        if self.columns:
            self.scale_ = np.where(deviation > 0, deviation, 1) * np.sqrt(X.shape[1])
        return self

    def transform(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Centre and scale."""
        return ((X - self.mean_) / self.scale_).astype(np.float32)


class SampledFolds:
    """A scikit-learn splitter: stratified folds of at most so many rows.

    The estimator that `GridSearchCV` refits still sees every row.
    """

    def __init__(self, seed: int, rows: int = SEARCH_ROWS) -> None:
        self.seed, self.rows = seed, rows

    def split(
        self, X: Any, y: ArrayLike, groups: object = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows to fit and the rows to score."""
        labels = np.unique(np.asarray(y), return_inverse=True)[1]
        drawn = sample(labels, self.rows, np.random.default_rng(self.seed))
        if np.bincount(labels[drawn]).max() < FOLDS:  # no class can spare a row
            for _ in range(FOLDS):
                yield drawn, drawn
            return
        for fit, score in StratifiedKFold(FOLDS).split(drawn, labels[drawn]):
            yield drawn[fit], drawn[score]

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """The number of folds."""
        return FOLDS


class _Search(GridSearchCV):
    """A search without warnings of candidates that so many iterations are too few for."""

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super().fit(X, y, **params)


def _linear(model: Any, name: str, values: list[float]) -> Callable[..., GridSearchCV]:
    """A linear classifier with the scaling and setting that cross-validation finds best."""

    def make(seed: int, rows: int = SEARCH_ROWS) -> GridSearchCV:
        pipeline = Pipeline([("scale", Scale()), ("model", model)])
        grid = {"scale__columns": [True, False], f"model__{name}": values}
        return _Search(pipeline, grid, cv=SampledFolds(seed, rows))

    return make


def raw_cosine(seed: int = 0) -> "SoftVotingKNN":
    """What a user has today: cosine of the rows as they are, votes softmax(s / .07)."""
    from nearkin.classifier import SoftVotingKNN

    vote = Vote("softmax", COSINE_TEMPERATURE)
    return SoftVotingKNN(
        None, preprocess=UnitLength(), n_neighbors=COSINE_NEIGHBORS, vote=vote, random_state=seed
    )


def fit_raw_cosine(X: ArrayLike, y: ArrayLike) -> "SoftVotingKNN | None":
    """Raw cosine of these rows; None, and a warning, where they do not fit into memory."""
    try:
        return raw_cosine().fit(X, y)
    except MemoryError as error:
        warnings.warn(f"raw cosine is left out: {error}", stacklevel=2)
        return None


def _class_means(seed: int, rows: int = SEARCH_ROWS) -> GridSearchCV:
    """Nearest class mean after whitening within classes."""
    from nearkin.classifier import SoftVotingKNN

    vote = Vote("softmax", class_weight=1.0, class_temperature=0.1)
    model = SoftVotingKNN(None, preprocess=WithinClassWhitening(), n_neighbors=1, vote=vote)
    grid = {"preprocess__shrinkage": [0.01, 0.1, 1.0]}
    return GridSearchCV(model, grid, cv=SampledFolds(seed, rows))


BASELINES: dict[str, Callable[..., Any]] = {
    "cosine": raw_cosine,
    "means": _class_means,
    "ridge": _linear(RidgeClassifier(), "alpha", [1e-4, 1e-3, 1e-2, 1e-1, 1.0]),
    "lda": _linear(LinearDiscriminantAnalysis("lsqr"), "shrinkage", [0.01, 0.1, 0.3, 0.6]),
    "svm": _linear(LinearSVC(max_iter=300, tol=1e-3, random_state=0), "C", COSTS),
    "logistic": _linear(LogisticRegression(max_iter=300, tol=1e-3), "C", COSTS),
}
TITLES = {
    "cosine": "raw cosine kNN",
    "means": "class means",
    "ridge": "ridge",
    "lda": "shrinkage LDA",
    "svm": "linear SVM",
    "logistic": "logistic regression",
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
    (('cosine', 'svm'), ('lda', 'ridge'))
    """
    groups = {"none": (), "quick": QUICK, "all": tuple(BASELINES)}
    names = groups.get(text, tuple(part.strip() for part in text.lower().split(",")))
    check_baselines(names)
    return names


def measure(
    X: Any,
    y: ArrayLike,
    queries: ArrayLike,
    truth: ArrayLike,
    names: Sequence[str] = QUICK,
    time_limit: float | None = None,
) -> list[dict[str, Any]]:
    """Fit baselines on training rows and score them on test rows, within minutes.

    Linear classifiers get a sample of very many rows. Where columns outnumber rows they and class
    means get the rows' principal components, all of them: the same rows in fewer columns.

    Returns
    -------
    list of dict
        The fields of `nearkin.app.comparison.Outcome`; None for an accuracy that the time limit
        prevented. ``rows`` is what a baseline was fitted on.
    """
    check_baselines(names)
    return [_measured(name, X, y, queries, truth, time_limit) for name in names]


def _measured(
    name: str, X: Any, y: ArrayLike, queries: Any, truth: ArrayLike, time_limit: float | None
) -> dict[str, Any]:
    make, labels = BASELINES[name], np.unique(np.asarray(y), return_inverse=True)[1]
    shape = X.shape[1], int(labels.max()) + 1
    rows = len(labels)
    if name != "cosine":
        drawn = sample(labels, affordable(FIT_CELLS, *shape), np.random.default_rng(0))
        X, y, rows = X[drawn], np.asarray(y)[drawn], len(drawn)
        if shape[0] > rows:
            span = Preprocess(whitening=0.0, unit_length=False).fit(X)
            X, queries = span.transform(X), span.transform(queries)
        searched = min(SEARCH_ROWS, affordable(SEARCH_CELLS, *shape))
        make = partial(make, rows=searched)
    (outcome,) = compare({TITLES[name]: make}, X, y, queries, truth, time_limit=time_limit)
    found = {key: None if value != value else value for key, value in asdict(outcome).items()}
    return found | {"rows": rows}


def affordable(cells: float, columns: int, classes: int) -> int:
    """Rows of so many columns and classes that make so many cells; wide rows count as square.

    Examples
    --------
    >>> affordable(1e9, 100, 10), affordable(1e9, 50_000, 10)
    (1000000, 10000)
    """
    square = min(columns, (cells / classes) ** 0.5)
    return max(LEAST_ROWS, int(max(cells / (columns * classes), square)))
