"""Training rows of the baselines: validated, limited in number, scaled."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from nearkin.learning.holdout import sample
from nearkin.preprocessing.pca import row_blocks
from nearkin.validation.arrays import classes_of, validate_data

Array = NDArray[np.float32]
Labels = NDArray[np.int64]


def labelled_rows(model: Any, X: ArrayLike, y: ArrayLike) -> tuple[Array, Labels, NDArray[Any]]:
    """Validated float32 rows, the class index of each row, and the classes."""
    rows, y = validate_data(model, X, y, dtype=np.float32, order="C", ensure_min_samples=2)
    check_classification_targets(y)
    classes, labels = classes_of(y)
    return rows, labels, classes


def limited_rows(model: Any, rows: Array, labels: Labels) -> tuple[Array, Labels]:
    """At most ``model.max_rows`` rows, a stratified sample, with a warning if some are left out."""
    model.n_rows_ = len(rows)
    if model.max_rows is None:
        return rows, labels
    if len(rows) <= model.max_rows:
        return rows, labels
    warnings.warn(
        f"X has {len(rows)} rows, but max_rows={model.max_rows}: {type(model).__name__} learns "
        "from a stratified sample of that size; raise max_rows to learn from more",
        stacklevel=3,
    )
    drawn = sample(labels, model.max_rows, generator(model.random_state))
    model.n_rows_ = len(drawn)
    return rows[drawn], labels[drawn]


def generator(random_state: Any) -> np.random.Generator:
    """A numpy generator seeded by a scikit-learn `random_state`."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


def rms_length(rows: Array) -> float:
    """Root mean squared row length; one where all rows are zero."""
    total = sum(float(np.square(b, dtype=np.float64).sum()) for _, b in row_blocks(rows))
    return float(np.sqrt(total / len(rows))) or 1.0
