"""The stored rows of a classifier: kept, measured, extended."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.run_folder import RunFolder
from nearkin.neighborhoods import NeighborLists
from nearkin.neighbors.retrieval import extended_retrieval
from nearkin.preprocessing.prepared import prepared
from nearkin.preprocessing.transformers import applied, search_columns
from nearkin.preprocessing.unit_length import have_unit_length
from nearkin.validation import memory
from nearkin.validation.arrays import check_squares, concatenate_labels
from nearkin.voting.class_means import class_means
from nearkin.voting.csls import CSLS_NEIGHBORS, matrix_for_csls, mean_similarity
from nearkin.voting.lists import lists_of
from nearkin.voting.refinement import class_offsets, refinable
from nearkin.voting.scores import mean_scores
from nearkin.voting.shortlist import stored_lists

Array = NDArray[np.float32]


def store(
    model: Any, rows: Any, y: NDArray[Any], preprocess: Any, rng: Any, folder: RunFolder,
    held: NDArray[np.bool_] | None = None,
) -> None:  # fmt: skip
    """Preprocess and keep checked rows and their labels; those of `held` rows fit nothing."""
    model.classes_, labels = np.unique(y, return_inverse=True)
    y = np.asarray(y)
    model.preprocess_, model.database_ = prepared(preprocess, rows, y, rng, folder, held)
    model.n_search_columns_ = search_columns(model.preprocess_)
    model.labels_ = labels.astype(np.int32)
    model.class_offsets_ = None
    _measure(model)


def refine_means(model: Any) -> None:
    """Refine the class means, where the vote wants it and they are not too many."""
    model.class_offsets_ = refined(model, model.class_means_, model.labels_)


def refined(model: Any, means: Array, labels: NDArray[np.integer]) -> Array | None:
    """What a refinement adds to class means; rows labelled −1 take no part."""
    rows, shape = model.database_, (len(model.classes_), model.database_.shape[1])
    wanted = model.vote_.refinement > 0 and model.vote_.class_weight > 0
    if not wanted or not refinable(len(rows), shape[1], shape[0]):
        return None
    scores = np.empty((len(rows), shape[0]), np.float32)
    for lo in range(0, len(rows), 4_096):
        part = slice(lo, lo + 4_096)
        scores[part] = mean_scores(model, rows[part], means)
    return class_offsets(rows, labels, scores, model.vote_.refinement)


def extend(model: Any, given: Any, y: NDArray[Any]) -> None:
    """Preprocess and keep checked rows and labels beside those that are there."""
    model.unit_length_ = getattr(model, "unit_length_", False) and have_unit_length(given)
    if model.retrieval_ is not None:
        model.retrieval_ = extended_retrieval(model.retrieval_, given)
    rows = applied(model.preprocess_, given)
    total = 4 * (len(model.database_) + len(rows)) * rows.shape[1]
    memory.check("add", {"all rows": total}, "fit on a memory map of all rows")
    labels, known = concatenate_labels(model.classes_[model.labels_], y), model.classes_
    model.classes_, codes = np.unique(labels, return_inverse=True)
    if model.class_offsets_ is not None:  # new classes have none
        offsets = np.zeros((len(model.classes_), rows.shape[1]), np.float32)
        offsets[np.searchsorted(model.classes_, known)] = model.class_offsets_
        model.class_offsets_ = offsets
    model.labels_ = codes.astype(np.int32)
    model.database_ = np.concatenate([model.database_, rows])
    model._cached_index = model.search_index_ = None
    _measure(model)
    n = len(model.labels_)
    wanted = model.vote_.csls and n > 1
    measure_csls(model, stored_lists(model, min(CSLS_NEIGHBORS, n - 1)) if wanted else None)


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
