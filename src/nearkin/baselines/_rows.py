"""The rows that a learner with a row limit learns from."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nearkin._holdout import sample
from nearkin._validation import check_number


def limited_rows(
    model: Any, rows: NDArray[np.float32], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """At most ``model.max_rows`` rows, drawn by class, with a warning if that leaves any out."""
    model.n_rows_ = len(rows)
    if model.max_rows is None:
        return rows, labels
    check_number("max_rows", model.max_rows, 2)
    if len(rows) <= model.max_rows:
        return rows, labels
    warnings.warn(
        f"X has {len(rows)} rows, but max_rows={model.max_rows}: {type(model).__name__} learns "
        "from so many, drawn by class; raise max_rows to learn from more",
        stacklevel=3,
    )
    seed = check_random_state(model.random_state).randint(np.iinfo(np.int32).max)
    drawn = sample(labels, model.max_rows, np.random.default_rng(seed))
    model.n_rows_ = len(drawn)
    return rows[drawn], labels[drawn]
