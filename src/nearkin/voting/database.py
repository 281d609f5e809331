"""The stored rows of a classifier: kept, measured, extended, and compared with queries."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.run_folder import RunFolder
from nearkin.native import pairs
from nearkin.neighborhoods import NeighborLists
from nearkin.preprocessing.prepared import prepared
from nearkin.validation.arrays import check_squares, concatenate_labels
from nearkin.voting.class_means import class_means
from nearkin.voting.csls import matrix_for_csls, mean_similarity
from nearkin.voting.lists import lists_of
from nearkin.voting.novelty import listed_novelty
from nearkin.voting.parts import listed_scores

Array = NDArray[np.float32]
Lists = NDArray[np.int32]


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


def voter_scores(model: Any, queries: Array, voters: Lists) -> Array:
    """What the vote is weighted by: similarities, corrected for hubs."""
    scores = _similarities(model, queries, voters)
    return scores - model.csls_bias_[voters] if model.vote_.csls else scores


def voter_novelty(model: Any, queries: Array, voters: Lists) -> Array:
    """How little each query resembles its voters."""
    scores = _similarities(model, queries, voters)
    return listed_novelty(model.similarity_, queries, model.database_, voters, scores, model.scale_)


def class_scores(model: Any, queries: Array, means: Array) -> Array:
    """Similarities of queries to class means."""
    if model.similarity_ is None:
        return queries @ means.T
    return np.asarray(model.similarity_.similarity(queries, means), np.float32)


def _similarities(model: Any, queries: Array, voters: Lists) -> Array:
    if model.similarity_ is None:
        return pairs.pair_closeness(queries, model.database_, voters, model.scale_)
    return listed_scores(model.similarity_, queries, model.database_, voters)
