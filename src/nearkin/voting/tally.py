"""The vote on queries (Eq. 9), a block of them at a time: voters, ranks, tallies, shares."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.neighborhoods import NeighborLists
from nearkin.voting.lists import as_voters, longest, padded
from nearkin.voting.scores import class_scores, local_distances, voter_scores
from nearkin.voting.shares import VoteShares, vote_shares
from nearkin.voting.shortlist import shortlist, wanted_length

Array = NDArray[np.float32]
Voters = tuple[Array, NDArray[np.int32]]  # preprocessed queries, the rows that vote on each

VOTE_CELLS = 1 << 24  # queries × classes, or voters, of a block


def voter_blocks(
    model: Any, given: Any, queries: Array, neighbors: NeighborLists | None
) -> Iterator[Voters]:
    """Preprocessed queries and their voters: the shortlist, or `neighbors` in its place."""
    lists = None
    if neighbors is not None:
        lists = as_voters(neighbors, len(queries), len(model.database_))
    listed = model.shortlist_length if lists is None else longest(lists)
    widest = max(len(model.classes_), listed)
    step = max(1, min(4_096, VOTE_CELLS // widest))
    for lo in range(0, len(queries), step):
        part = slice(lo, lo + step)
        block = queries[part]
        voters = shortlist(model, given[part], block) if lists is None else padded(lists[part])
        yield block, voters


def ranked(
    model: Any,
    given: Any,
    queries: Array,
    neighbors: NeighborLists | None,
    n_neighbors: int | None,
    rerank: bool,
) -> tuple[Array, NDArray[np.int32]]:
    """Similarities and indices of the voters: most similar first, or as they are listed."""
    if neighbors is None:
        n = wanted_length(model, n_neighbors, min(model.shortlist_length, len(model.database_)))
        indices = shortlist(model, given, queries)
    else:
        indices = padded(as_voters(neighbors, len(queries), len(model.database_)))
        n = wanted_length(model, n_neighbors, indices.shape[1])
    scores = voter_scores(model, queries, indices)
    if not rerank:
        return scores[:, :n], indices[:, :n]
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1)


def tallies(model: Any, blocks: Iterable[Voters]) -> Iterator[Array]:
    """Votes by class."""
    n_classes = len(model.classes_)
    for block, indices in blocks:
        scores = voter_scores(model, block, indices)
        tally = model.vote_.tally(scores, model.labels_[indices], n_classes)
        no_voters = np.isneginf(scores).all(axis=1)
        if no_voters.any():  # the class frequencies are all that is known
            tally[no_voters] = np.bincount(model.labels_, minlength=n_classes)
        distances = _distances(model, block, indices)
        yield model.vote_.combine(tally, _mean_scores(model, block), distances)


def shares(model: Any, blocks: Iterable[Voters]) -> VoteShares:
    """How much each voter and each class mean adds to the probabilities."""
    frequencies = np.bincount(model.labels_, minlength=len(model.classes_)).astype(np.float32)
    found = []
    for block, indices in blocks:
        scores, means = voter_scores(model, block, indices), _mean_scores(model, block)
        distances = _distances(model, block, indices)
        found.append(
            vote_shares(model.vote_, indices, scores, model.labels_, means, frequencies, distances)
        )
    return VoteShares(*map(np.concatenate, zip(*found)))


def _mean_scores(model: Any, block: Array) -> Array | None:
    """Similarities to the class means, where these vote."""
    weighted = model.vote_.class_weight > 0
    return class_scores(model, block, model.class_means_) if weighted else None


def _distances(model: Any, block: Array, indices: NDArray[np.int32]) -> Array | None:
    """Distances to the local hyperplanes, where these vote."""
    weighted = model.vote_.hyperplane_weight > 0
    return local_distances(model, block, indices) if weighted else None
