"""Learners and preprocessing as parts of a larger estimator: copied, seeded, fitted along."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from nearkin._checkpoint import Checkpoint
from nearkin.neighborhoods import NeighborLists

Array = NDArray[np.float32]


def cut(lists: NDArray[np.int32] | None, learner: Any) -> NDArray[np.int32] | None:
    """As many neighbours as the learner wants; the shortlist may be longer."""
    wanted = getattr(learner, "n_neighbors", None)
    return lists if lists is None or wanted is None else lists[:, :wanted]


def is_fitted(part: Any) -> bool:
    """Whether a part is to be used as it is: fitted, or not made to be fitted."""
    return not hasattr(part, "fit") or any(name.endswith("_") for name in vars(part))


def seeded(part: Any, rng: Any) -> Any:
    """A clone whose unset seeds follow from ours, so that one seed fixes everything."""
    part = clone(part)
    names = [name for name in sorted(part.get_params()) if name.split("__")[-1] == "random_state"]
    unset = [name for name in names if part.get_params()[name] is None]
    return part.set_params(**{name: rng.randint(2**31 - 1) for name in unset})


def apart(learner: Any) -> Any:
    """A clone for the fit without the held-out rows, with a folder of its own for its files."""
    learner = clone(learner)
    if getattr(learner, "cache_dir", None):
        learner.set_params(cache_dir=os.path.join(learner.cache_dir, "held-out"))
    return learner


def learn(
    learner: Any,
    rows: Array,
    y: ArrayLike,
    neighbors: NeighborLists | None,
    held: NDArray[np.bool_] | None = None,
    keep: Checkpoint | None = None,
) -> Any:
    """Fit a learner without the held-out rows, which `neighbors` no longer mentions."""
    keep = keep.part("learner") if keep else None
    if keep and getattr(learner, "cache_dir", "none") is None:  # an ensemble has a way of its own
        learner.set_params(cache_dir=keep.folder)
    if has_fit_parameter(learner, "neighbors"):
        durable = keep and has_fit_parameter(learner, "checkpoint")
        also = {"checkpoint": keep} if durable else {}
        return learner.fit(rows, y, neighbors=neighbors, **also)
    chosen = slice(None) if held is None else ~held
    return learner.fit(rows[chosen], np.asarray(y)[chosen])
