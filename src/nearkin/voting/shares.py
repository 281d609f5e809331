"""Who decided: the shares that neighbours and class means have in the probabilities of a vote."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.voting.votes import Vote, class_shares, class_totals, sharpened

Array = NDArray[np.float32]


class VoteShares(NamedTuple):
    """Where the probabilities of m queries come from; `probabilities` sums the shares again.

    Attributes
    ----------
    indices : (m, k) int32 array
        The rows on the shortlist, nearest first; ``-1`` stands for none.
    similarities : (m, k) float32 array
    neighbors : (m, k) float32 array
        How much each of these rows adds to the probability of its own class.
    class_means : (m, n_classes) float32 array
        How much the mean of each class adds to its probability.
    prior : (m, n_classes) float32 array
        What no row and no mean has voted for: the smoothing of the vote, and for a query without
        voters the share of each class among the stored rows.
    """

    indices: NDArray[np.int32]
    similarities: Array
    neighbors: Array
    class_means: Array
    prior: Array

    def probabilities(self, labels: NDArray[np.integer]) -> Array:
        """The probabilities of all classes; `labels` are those of the stored rows."""
        voted = class_totals(self.neighbors, labels[self.indices], self.prior.shape[1])
        return voted + self.class_means + self.prior


def vote_shares(
    vote: Vote,
    indices: NDArray[np.int32],
    scores: Array,
    labels: NDArray[np.integer],
    class_scores: Array | None,
    frequencies: Array,
    distances: Array | None = None,
) -> VoteShares:
    """The shares of a vote in its probabilities.

    The probability of a class from the votes of its neighbours is divided among them in proportion
    to their votes; of those that are not positive only where no other of their class is, evenly.

    Parameters
    ----------
    indices, scores : (m, k) arrays
        The listed rows and their scores, −inf where there is none.
    labels : (n,) array
        Of all stored rows, as places among the classes.
    class_scores : (m, n_classes) array or None
        Scores of the class means, where these vote.
    frequencies : (n_classes,) array
        Rows of each class, which decide where nobody votes.
    distances : (m, n_classes) array or None
        To the local hyperplanes, where these vote: a hyperplane is its voters'.
    """
    n_classes, own = len(frequencies), labels[indices]
    by_class = vote.near_shares(vote.tally(scores, own, n_classes), distances)
    silent = np.isneginf(scores).all(axis=1)
    prior = np.zeros_like(by_class)
    prior[silent] = sharpened(frequencies[None] / frequencies.sum(), vote.exponent)
    kept = np.float32((1 - vote.smoothing) * (1 - vote.class_weight))
    means = np.zeros_like(by_class)
    if class_scores is not None:
        weight = np.float32((1 - vote.smoothing) * vote.class_weight)
        means = weight * class_shares(class_scores, vote.class_temperature)
    return VoteShares(
        indices,
        scores,
        kept * _divided(by_class, vote.weights(scores), own, np.isneginf(scores)),
        means,
        kept * prior + np.float32(vote.smoothing / n_classes),
    )


def _divided(
    by_class: Array, weights: Array, own: NDArray[np.integer], absent: NDArray[np.bool_]
) -> Array:
    """Each voter's part of what its class has."""
    n_classes = by_class.shape[1]
    votes = np.where(absent, 0, np.maximum(weights, 0)).astype(np.float32)
    none = np.take_along_axis(class_totals(votes, own, n_classes), own, axis=1) <= 0
    votes = np.where(none & ~absent, np.float32(1), votes)
    totals = np.take_along_axis(class_totals(votes, own, n_classes), own, axis=1)
    shares = np.take_along_axis(by_class, own, axis=1)
    return (shares * votes / np.where(totals > 0, totals, 1)).astype(np.float32)
