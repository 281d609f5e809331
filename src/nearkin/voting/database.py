"""The stored rows of a classifier: kept, measured, extended."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.run_folder import RunFolder
from nearkin.neighborhoods import NeighborLists
from nearkin.preprocessing.prepared import prepared
from nearkin.validation.arrays import check_squares, concatenate_labels
from nearkin.voting.class_means import class_means
from nearkin.voting.csls import matrix_for_csls, mean_similarity
from nearkin.voting.lists import lists_of

Array = NDArray[np.float32]


def store(
    model: Any, rows: Any, y: NDArray[Any], preprocess: Any, rng: Any, folder: RunFolder
) -> None:
    """Preprocess and keep checked rows and their labels."""
    model.classes_, labels = np.unique(y, return_inverse=True)
    model.preprocess_, model.database_ = prepared(preprocess, rows, np.asarray(y), rng, folder)
    model.labels_ = labels.astype(np.int32)
    _measure(model)


def extend(model: Any, rows: Array, y: NDArray[Any]) -> None:
    """Keep preprocessed rows beside those that are there."""
    labels = concatenate_labels(model.classes_[model.labels_], y)
    model.classes_, codes = np.unique(labels, return_inverse=True)
    model.labels_ = codes.astype(np.int32)
    model.database_ = np.concatenate([model.database_, rows])
    _measure(model)


def _measure(model: Any) -> None:
    """Class means, and the mean squared row length, which only plain neighbours need."""
    model.class_means_ = class_means(model.database_, model.labels_, len(model.classes_))
    model.scale_ = 1.0
    if model.similarity_ is None:
        check_squares(model.database_, "X")
        lengths = np.einsum("nd,nd->n", model.database_, model.database_)
        model.scale_ = float(lengths.mean(dtype=np.float64))


def measure_csls(model: Any, lists: NeighborLists | None) -> None:
    """Measure how similar each row is to its neighbours."""
    n = len(model.database_)
    model.csls_bias_ = np.zeros(n, np.float32)
    if model.vote_.csls and lists is not None:
        if not isinstance(lists, np.ndarray):
            lists = lists_of(lists, np.arange(n), n)
        matrix = matrix_for_csls(model.similarity_, model.vote_.csls)
        mean = mean_similarity(model.database_, lists, matrix, model.scale_)
        model.csls_bias_ += model.vote_.csls * mean
