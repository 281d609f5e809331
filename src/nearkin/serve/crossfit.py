"""The model learned again without some of its rows, which are then new to it.

A similarity that has been learned from a row, label included, takes that row for what its label
says, right or wrong: leave-one-out finds next to nothing. In `FOLDS` parts, each judged by what the
others teach, with the settings that the model has.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

FOLDS = 4
MOST_ROWS = 10_000
MOST_COST = 5_000_000_000  # rows × columns²: some seconds for each part


def worthwhile(model: Any) -> bool:
    """Whether the learner of a classifier can be asked for more, soon enough.

    Plain neighbours learn nothing of labels. Ensembles start processes, and a retrieval of its own
    finds rows by what is not stored.
    """
    n, width = model.database_.shape
    learner, counts = model.similarity_, np.bincount(model.labels_)
    return (
        hasattr(learner, "sampling")  # SLNE
        and learner.preparation_ is None  # by labels, maybe, and of all rows
        and model.retrieval_ is None
        and 2 * FOLDS <= n <= MOST_ROWS
        and n * width**2 <= MOST_COST
        and int(np.count_nonzero(counts > 1)) > 1
    )


def folds(labels: NDArray[np.integer], seed: int = 0) -> NDArray[np.int64]:
    """The part of each row; every class is distributed evenly, beginning anywhere.

    Examples
    --------
    >>> np.bincount(folds(np.repeat([0, 1], 8))).tolist()
    [4, 4, 4, 4]
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    parts = np.empty(len(labels), np.int64)
    parts[order] = np.arange(len(labels)) % FOLDS
    return parts


def without(model: Any, part: NDArray[np.bool_], shortlist: int) -> Any:
    """The classifier, learned from the stored rows that are not of a part."""
    rest = np.flatnonzero(~part)
    learner = clone(model.similarity_)
    learner.set_params(n_neighbors=min(learner.n_neighbors, len(rest) - 1))
    again = clone(model).set_params(
        similarity=learner, preprocess=None, n_neighbors=min(shortlist, len(rest)),
        vote=model.vote_, index="auto", selection=None, random_state=0,
    )  # fmt: skip
    again.fit(np.ascontiguousarray(model.database_[rest]), model.labels_[rest])
    again.n_search_columns_, again._cached_index = model.n_search_columns_, None
    return again


def judged(model: Any, rows: Any, n_classes: int) -> NDArray[np.float32]:
    """Probabilities of all classes for new rows; 0 for those that the part did not leave any of."""
    p = np.zeros((len(rows), n_classes), np.float32)
    p[:, model.classes_] = model.predict_proba(np.ascontiguousarray(rows))
    return p
