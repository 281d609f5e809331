"""The vote that gives held-out rows the smallest log loss.

Log loss rather than accuracy: it is smooth, tells candidates of the same accuracy apart, and the
probabilities come out calibrated. Each vote is tried with several exponents, for log loss alone
would prefer few and sure voters to many that rank the classes better.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearkin.native.mixture_losses import mean_losses
from nearkin.native.threads import in_parallel
from nearkin.voting import votes
from nearkin.voting.novelty import novelty
from nearkin.voting.votes import Vote

Array = NDArray[np.float32]
T = TypeVar("T")

TEMPERATURES = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # in units of the scores' spread
CLASS_TEMPERATURES = (0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)
HYPERPLANE_TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.4)  # in units of the distances' spread
HYPERPLANE_WEIGHTS = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
CLASS_WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Exponents, by products and roots: powers take several times as long.
_RAISED: dict[float, Callable[[Array], Array]] = {
    1.0: lambda p: p,
    1.5: lambda p: p * np.sqrt(p),
    2.0: np.square,
    3.0: lambda p: p * p * p,
}
EXPONENTS = tuple(_RAISED)
SMOOTHING = (0.001, 0.003, 0.01, 0.03, 0.1)
MIXED = 6  # votes of neighbours that are tried together with hyperplanes and class means
LEAST_SPREAD = 1e-20  # of scores that differ; temperatures are finite multiples of it
_BLOCK_CELLS = 1 << 17


@dataclass(frozen=True)
class Ballot:
    """Neighbour scores, neighbour labels and true labels of held-out queries.

    Attributes
    ----------
    scores, labels : (m, k) arrays
        Similarities and labels of each query's voters; −inf where there is none.
    truth : (m,) array
    n_classes : int
    mean_similarity : (m, k) array, optional
        Of the voters to their own neighbours (CSLS).
    class_scores : (m, n_classes) array, optional
        Similarities to the class means.
    lengths : (m, k) array, optional
        What makes the scores cosines: see `nearkin.voting.novelty`.
    distances : (m, n_classes) array, optional
        Squared distances to the hyperplanes through the voters of each class.
    """

    scores: Array
    labels: NDArray[np.integer]
    truth: NDArray[np.integer]
    n_classes: int
    mean_similarity: Array | None = None
    class_scores: Array | None = None
    lengths: Array | None = None
    distances: Array | None = None

    def truncated(self, k: int) -> "Ballot":
        """The first `k` voters of each query only."""
        names = "scores", "labels", "mean_similarity", "lengths"
        known = {name: getattr(self, name) for name in names}
        return replace(self, **{n: a[:, :k] for n, a in known.items() if a is not None})

    def novelty(self) -> Array:
        """How little each query resembles its voters."""
        assert self.lengths is not None
        return novelty(self.scores, self.lengths)

    def shares(self, vote: Vote) -> Array:
        """Probabilities of the classes for each query."""
        return np.concatenate(self.in_blocks(lambda part: self._shares(vote, part)))

    def in_blocks(self, work: Callable[[slice], T]) -> list[T]:
        """Call `work` with some of the queries at a time, whose probabilities fit the cache."""
        block = max(1, _BLOCK_CELLS // self.n_classes)
        ranges = [(lo, min(lo + block, self.size)) for lo in range(0, self.size, block)]
        return in_parallel(lambda lo, hi: work(slice(lo, hi)), ranges)

    @property
    def size(self) -> int:
        """Number of queries."""
        return len(self.truth)

    def _shares(self, vote: Vote, part: slice) -> Array:
        scores = self.scores[part]
        if vote.csls and self.mean_similarity is not None:
            scores = scores - np.float32(vote.csls) * self.mean_similarity[part]
        tally = vote.tally(scores, self.labels[part], self.n_classes)
        known = None if self.class_scores is None else self.class_scores[part]
        distances = None if self.distances is None else self.distances[part]
        return votes.probabilities(vote.combine(tally, known, distances))


class ChosenVote(NamedTuple):
    """A vote, and how well it does on the rows that it was chosen on: all of them, and each."""

    vote: Vote
    log_loss: float
    accuracy: float
    losses: Array


def join(ballots: Sequence[Ballot]) -> Ballot:
    """One ballot of the queries of several, each with as many voters as the least has."""
    ballots = [ballot.truncated(min(b.scores.shape[1] for b in ballots)) for ballot in ballots]

    def joined(name: str) -> Array | None:
        parts = [getattr(ballot, name) for ballot in ballots]
        return None if parts[0] is None else np.concatenate(parts)

    names = "scores", "labels", "truth", "mean_similarity", "class_scores", "lengths", "distances"
    return Ballot(n_classes=ballots[0].n_classes, **{name: joined(name) for name in names})  # type: ignore[arg-type]


def candidates(scores: Array) -> list[Vote]:
    """Candidate votes for such scores; temperatures are multiples of their spread."""
    temperatures = [_spread(scores) * t for t in TEMPERATURES]
    tops = [n for n in (1, 3, 5, 7, 10, 15, 20, 30, 50) if n <= scores.shape[1]]
    return [
        Vote("similarity"),
        *(Vote("power", p) for p in (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)),
        *(Vote("softmax", t) for t in temperatures),
        *(Vote("top", float(n)) for n in tops),
    ]


def choose(ballot: Ballot, among: Sequence[Vote] | None = None) -> ChosenVote:
    """The vote with the smallest log loss, of neighbours, hyperplanes and class means.

    The best votes of the neighbours are tried with hyperplanes, and the best of these with class
    means, as far as the ballot has their distances and scores.
    """
    bases = candidates(ballot.scores) if among is None else among
    tried = [vars(vote) | {"exponent": e} for vote in bases for e in EXPONENTS]
    likelihoods = np.concatenate([_sharpened(vote, ballot) for vote in bases])
    best = _Mixtures(tried, likelihoods).best(ballot)
    if ballot.distances is not None:
        best = best.with_hyperplanes(ballot).best(ballot)
    if ballot.class_scores is not None:
        best = best.with_class_means(ballot).best(ballot)
    loss, smoothing = _smoothed(best.likelihoods[:1], ballot)[0]
    vote = Vote(**best.votes[0] | {"smoothing": smoothing})
    accuracy = float((ballot.shares(vote).argmax(axis=1) == ballot.truth).mean())
    return ChosenVote(vote, loss, accuracy, _losses(best.likelihoods[0], smoothing, ballot))


class _Voters(NamedTuple):
    """Others than neighbours: what `Vote` calls them, their values, and the shares these make."""

    name: str
    values: Array
    shares: Callable[[Array, float], Array]


class _Mixtures(NamedTuple):
    """Votes, and the probability that each gives the true class of each query.

    Hundreds are tried, so that they are what makes a `Vote`, whose checks take time.
    """

    votes: list[dict[str, Any]]
    likelihoods: Array

    def best(self, ballot: Ballot) -> "_Mixtures":
        """The `MIXED` of the smallest log loss, best first."""
        losses = [loss for loss, _ in _smoothed(self.likelihoods, ballot)]
        order = np.argsort(losses, kind="stable")[:MIXED]
        return _Mixtures([self.votes[i] for i in order], self.likelihoods[order])

    def with_hyperplanes(self, ballot: Ballot) -> "_Mixtures":
        """These, and each with hyperplanes beside it."""
        assert ballot.distances is not None
        voters = _Voters("hyperplane", ballot.distances, votes.hyperplane_shares)
        return self._beside(voters, HYPERPLANE_TEMPERATURES, HYPERPLANE_WEIGHTS, ballot)

    def with_class_means(self, ballot: Ballot) -> "_Mixtures":
        """These, and each with class means beside it."""
        assert ballot.class_scores is not None
        voters = _Voters("class", ballot.class_scores, votes.class_shares)
        return self._beside(voters, CLASS_TEMPERATURES, CLASS_WEIGHTS, ballot)

    def _beside(
        self,
        voters: _Voters,
        temperatures: Sequence[float],
        weights: Sequence[float],
        ballot: Ballot,
    ) -> "_Mixtures":
        """These, and each with other voters beside it, at all temperatures and weights."""
        found, spread = [self], _spread(voters.values)
        for temperature in (spread * t for t in temperatures):
            other = _of_truth(voters.shares(voters.values, temperature), ballot)
            settings = {f"{voters.name}_temperature": temperature}
            found += [
                self._mixed(other, w, **settings, **{f"{voters.name}_weight": w}) for w in weights
            ]
        tried = [vote for part in found for vote in part.votes]
        return _Mixtures(tried, np.concatenate([part.likelihoods for part in found]))

    def _mixed(self, other: Array, weight: float, **settings: Any) -> "_Mixtures":
        mixed = (1 - weight) * self.likelihoods + weight * other
        return _Mixtures([vote | settings for vote in self.votes], mixed)


def class_temperature(ballot: Ballot) -> float:
    """The temperature at which class means alone have the smallest log loss."""
    assert ballot.class_scores is not None
    spread = _spread(ballot.class_scores)
    temperatures = [spread * t for t in CLASS_TEMPERATURES]
    shares = (votes.class_shares(ballot.class_scores, t) for t in temperatures)
    losses = _smoothed(np.stack([_of_truth(share, ballot) for share in shares]), ballot)
    return temperatures[int(np.argmin([loss for loss, _ in losses]))]


def _of_truth(shares: Array, ballot: Ballot) -> Array:
    """Probability of the true class, for each query."""
    return np.take_along_axis(shares, ballot.truth[:, None], axis=1)[:, 0]


def _sharpened(vote: Vote, ballot: Ballot) -> Array:
    """Probability of the true class, with each exponent and for each query."""

    def likelihoods(part: slice) -> Array:
        shares = ballot._shares(vote, part)
        ratios = shares / shares.max(axis=1, keepdims=True)
        truth = ballot.truth[part, None]
        return np.stack([
            np.take_along_axis(raised, truth, axis=1)[:, 0] / raised.sum(axis=1)
            for raised in (power(ratios) for power in _RAISED.values())
        ])  # fmt: skip

    return np.concatenate(ballot.in_blocks(likelihoods), axis=1)


def _smoothed(likelihoods: Array, ballot: Ballot) -> list[tuple[float, float]]:
    """For each row of likelihoods, the smallest mean log loss and its smoothing."""
    losses = mean_losses(likelihoods, SMOOTHING, ballot.n_classes)
    best = losses.argmin(axis=0)
    return [(float(losses[b, i]), SMOOTHING[b]) for i, b in enumerate(best)]


def _losses(likelihoods: Array, smoothing: float, ballot: Ballot) -> Array:
    """Log losses, given the probabilities of the true classes."""
    return -np.log((1 - smoothing) * likelihoods + smoothing / ballot.n_classes)


def _spread(scores: Array) -> float:
    """Standard deviation of the scores that there are; 1 where they are all equal."""
    seen = scores[np.isfinite(scores)]
    spread = float(seen.std(dtype=np.float64)) if seen.size else 1.0
    return spread if LEAST_SPREAD < spread < 1 / LEAST_SPREAD else 1.0
