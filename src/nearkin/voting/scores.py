"""Scores of what votes on a query: rows and class means by similarity, hyperplanes by distance."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.native import listed_scores
from nearkin.native.hyperplanes import hyperplane_distances
from nearkin.voting.novelty import listed_novelty

Array = NDArray[np.float32]
Lists = NDArray[np.int32]


def voter_scores(model: Any, queries: Array, voters: Lists) -> Array:
    """What the vote is weighted by: similarities, corrected for hubs."""
    scores = _similarities(model, queries, voters)
    return scores - model.csls_bias_[voters] if model.vote_.csls else scores


def voter_novelty(model: Any, queries: Array, voters: Lists) -> Array:
    """How little each query resembles its voters."""
    scores = _similarities(model, queries, voters)
    return listed_novelty(model.similarity_, queries, model.database_, voters, scores, model.scale_)


def class_scores(model: Any, queries: Array, means: Array) -> Array:
    """Similarities of queries to class means, and what a refinement adds to them."""
    scores = mean_scores(model, queries, means)
    return scores if model.class_offsets_ is None else scores + queries @ model.class_offsets_.T


def mean_scores(model: Any, queries: Array, means: Array) -> Array:
    """Similarities of queries to class means."""
    if model.similarity_ is None:
        return queries @ means.T
    return np.asarray(model.similarity_.similarity(queries, means), np.float32)


def local_distances(model: Any, queries: Array, voters: Lists) -> Array:
    """Squared distances to the hyperplanes through the voters of each class."""
    rows, labels = model.database_, model.labels_
    return hyperplane_distances(queries, rows, voters, labels, len(model.classes_))


def _similarities(model: Any, queries: Array, voters: Lists) -> Array:
    if model.similarity_ is None:
        return listed_scores.pair_closeness(queries, model.database_, voters, model.scale_)
    return _listed_scores(model.similarity_, queries, model.database_, voters)


def _listed_scores(similarity: Any, queries: Array, rows: Array, lists: Lists) -> Array:
    """What a part says of each query and the rows listed for it; −inf where ``-1`` is listed."""
    if hasattr(similarity, "transform_query"):  # the rows were checked when they were stored
        return listed_scores.pair_scores(similarity.transform_query(queries), rows, lists)
    if hasattr(similarity, "neighbor_scores"):
        return similarity.neighbor_scores(queries, rows, lists)
    scores = np.full(lists.shape, -np.inf, np.float32)
    for i, listed in enumerate(lists):  # any other object: a query at a time, never all pairs
        there = listed >= 0
        if there.any():
            scores[i, there] = _asked(similarity, queries[i : i + 1], rows[listed[there]])
    return scores


def _asked(similarity: Any, query: Array, rows: Array) -> NDArray[Any]:
    """What an object of unknown kind says about one query."""
    scores = np.asarray(similarity.similarity(query, rows))
    if scores.shape != (1, len(rows)):
        raise ValueError(
            f"{type(similarity).__name__}.similarity(X, Z) gave shape {scores.shape} for "
            f"1 row and {len(rows)} rows; a (len(X), len(Z)) array is expected"
        )
    return scores[0]
