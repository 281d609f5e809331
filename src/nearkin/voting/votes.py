"""Soft votes (Eq. 9): how much each neighbour counts, given its similarity."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from nearkin.validation import expect
from nearkin.validation.parameters import Table, check_parameters

Array = NDArray[np.float32]


# Where no similarity is positive, votes are shifted to a tenth beyond the least similar voter, so
# that it keeps a positive vote and the majority wins among equals.
_SHIFT = np.float32(1.1)
_TIE_EPSILON = 1e-7
_SHARPNESS = 1e-37, 1e37  # what float32 can divide by


def _shift_positive(scores: Array) -> Array:
    """Shift rows without a positive similarity; sums of negative ones would favour few voters."""
    negative = scores.max(axis=1, keepdims=True) <= 0
    if not negative.any():
        return scores
    return np.where(negative, scores - _SHIFT * scores.min(axis=1, keepdims=True), scores)


def _similarity(scores: Array, _: float) -> Array:
    return _shift_positive(scores)


def _power(scores: Array, p: float) -> Array:
    scores = _shift_positive(scores)
    # Divided by the largest, which changes no decision and cannot overflow.
    largest = np.abs(scores).max(axis=1, keepdims=True)
    return np.sign(scores) * (np.abs(scores) / np.maximum(largest, 1e-30)) ** np.float32(p)


def _softmax(scores: Array, temperature: float) -> Array:
    with np.errstate(over="ignore"):  # far below the best: no vote
        return np.exp((scores - scores.max(axis=1, keepdims=True)) / np.float32(temperature))


def _top(scores: Array, n: float) -> Array:
    rank = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
    # Equal votes; among equal counts the more similar decide. Those beyond the first n are too
    # small to change the winner; they only order the classes that have no vote.
    beyond = _TIE_EPSILON * np.exp2(np.minimum(n - rank, 0))
    return np.where(rank < n, 1 + 0.02 / n * (1 - rank / n), beyond).astype(np.float32)


VoteName = Literal["similarity", "power", "softmax", "top"]
KINDS: dict[str, Callable[[Array, float], Array]] = {
    "similarity": _similarity,
    "power": _power,
    "softmax": _softmax,
    "top": _top,
}
DEFAULT_SHARPNESS = {"similarity": 1.0, "power": 4.0, "softmax": 0.05, "top": 10.0}


@dataclass(frozen=True)
class Vote:
    """A kind of vote and its sharpness.

    ``similarity``: the paper's, votes are the similarities; ``power``: sign(s)·|s|^sharpness;
    ``softmax``: exp(s / sharpness); ``top``: one vote each for the `sharpness` most similar.

    Where no similarity in a row is positive, as with minus distances, ``similarity`` and ``power``
    are shifted to start just below the least of them.

    Examples
    --------
    >>> scores, labels = np.array([[0.9, 0.5, 0.5]], np.float32), np.array([[0, 1, 1]])
    >>> Vote("similarity").tally(scores, labels, 2).argmax(), Vote("power", 4).tally(
    ...     scores, labels, 2
    ... ).argmax()
    (np.int64(1), np.int64(0))
    """

    kind: VoteName
    sharpness: float | None = None  # power, temperature or number of voters

    PARAMETERS: ClassVar[Table] = {
        "kind": expect.choice(*KINDS),
        "sharpness": expect.number(*_SHARPNESS),
    }

    def __post_init__(self) -> None:
        if self.sharpness is None:
            default = DEFAULT_SHARPNESS.get(str(self.kind), 1.0)
            object.__setattr__(self, "sharpness", default)
        check_parameters(self)

    def tally(self, scores: Array, labels: NDArray[np.integer], n_classes: int) -> Array:
        """Sum the votes of each row's neighbours by class; a score of −inf has no vote.

        A class without a voter has 0, or −inf where 0 would rank it above one that has voters.
        """
        absent = np.isneginf(scores)
        if not (np.isfinite(scores) | absent).all():
            raise ValueError(
                "similarities hold NaN or infinity: they are beyond float32; divide X by its "
                "largest number, or lower csls"
            )
        if absent.any() and self.kind != "top":  # ranks them last anyway
            least = np.where(absent, np.inf, scores).min(axis=1, keepdims=True)
            scores = np.where(absent, np.where(np.isfinite(least), least, 0), scores)
        weights = np.where(absent, 0, KINDS[self.kind](scores, float(self.sharpness or 1)))
        cell = np.arange(len(scores))[:, None] * n_classes + labels
        votes = np.bincount(cell.ravel(), weights.ravel(), minlength=len(scores) * n_classes)
        tally = votes.reshape(len(scores), n_classes).astype(np.float32)
        _rank_voteless_last(tally, labels, absent)
        return tally


def known_vote(value: Any) -> str | None:
    """Whether there is such a vote, or it is to be chosen: see `nearkin.validation.parameters`."""
    named = None if isinstance(value, Vote) else expect.choice("auto", *KINDS)(value)
    return named and f"{named}, or a Vote such as Vote('power', 3)"


def _rank_voteless_last(
    tally: Array, labels: NDArray[np.integer], absent: NDArray[np.bool_]
) -> None:
    """Set classes without a voter to −inf in rows whose votes are negative or all zero."""
    rows = np.flatnonzero((tally.min(axis=1) < 0) | (tally.max(axis=1) <= 0))
    row, place = np.nonzero(~absent[rows])
    voted = np.zeros((len(rows), tally.shape[1]), bool)
    voted[row, labels[rows[row], place]] = True
    voteless = ~voted & voted.any(axis=1, keepdims=True)
    tally[rows] = np.where(voteless, -np.inf, tally[rows])


def candidates(scores: Array) -> list[Vote]:
    """Candidate votes for such scores; temperatures are multiples of their spread."""
    seen = scores[np.isfinite(scores)]
    spread = float(seen.std()) if seen.size else 1.0
    temperatures = [spread * f for f in (0.05, 0.1, 0.2, 0.4, 0.8)]
    temperatures = [t for t in temperatures if _SHARPNESS[0] <= t <= _SHARPNESS[1]]
    tops = [n for n in (1, 3, 5, 7, 10, 15, 20, 30, 50) if n <= scores.shape[1]]
    return [
        Vote("similarity"),
        *(Vote("power", p) for p in (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)),
        *(Vote("softmax", t) for t in temperatures),
        *(Vote("top", float(n)) for n in tops),
    ]


def choose(
    scores: Array,
    labels: NDArray[np.integer],
    truth: NDArray[np.integer],
    n_classes: int,
    among: Iterable[Vote] | None = None,
) -> tuple[Vote, float]:
    """Select the vote that predicts `truth` best; ties in accuracy are broken by likelihood.

    Returns
    -------
    vote, accuracy
    """
    votes = candidates(scores) if among is None else list(among)
    results = [(quality(vote, scores, labels, truth, n_classes), vote) for vote in votes]
    (accuracy, _), best = max(results, key=lambda result: result[0])
    return best, accuracy


def quality(
    vote: Vote,
    scores: Array,
    labels: NDArray[np.integer],
    truth: NDArray[np.integer],
    n_classes: int,
) -> tuple[float, float]:
    """Accuracy of a vote, and the mean log likelihood of the truth under its shares."""
    right, likelihood = 0, 0.0
    block = max(1, (1 << 24) // n_classes)
    for lo in range(0, len(scores), block):
        part = slice(lo, lo + block)
        votes = vote.tally(scores[part], labels[part], n_classes)
        right += int((votes.argmax(axis=1) == truth[part]).sum())
        p = np.take_along_axis(probabilities(votes), truth[part, None], axis=1)
        likelihood += float(np.log(np.maximum(p, 1e-4)).sum())
    return right / len(scores), likelihood / len(scores)


def probabilities(votes: Array) -> Array:
    """Votes as probabilities in the same order; −inf has probability 0.

    Where some are positive, the others are scaled into the range below the least of these; where
    none is, all are shifted.
    """
    finite = ~np.isneginf(votes)
    known = np.where(finite, votes, 0)
    least = known.min(axis=1, keepdims=True, initial=0)
    lowest = np.where(known > 0, known, np.inf).min(axis=1, keepdims=True)
    ceiling = np.where(np.isfinite(lowest), lowest / 2, -least)  # of those not positive
    low = (np.minimum(known, 0) - least) / np.where(least < 0, -least, 1)
    shares = np.where(finite, np.where(known > 0, known, ceiling * low), 0)
    total = shares.sum(axis=1, keepdims=True)
    even = (finite / finite.sum(axis=1, keepdims=True)).astype(np.float32)
    return np.where(total > 0, shares / np.where(total > 0, total, 1), even)
