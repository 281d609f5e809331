"""Soft votes (Eq. 9): how much each neighbour counts, given its similarity."""

from collections.abc import Callable
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
    """How neighbours, and class means, vote.

    Where no similarity in a row is positive, as with minus distances, ``similarity`` and ``power``
    are shifted to start just below the least of them.

    Parameters
    ----------
    kind : {"similarity", "power", "softmax", "top"}
        ``similarity``: the paper's, votes are the similarities; ``power``: sign(s)·|s|^sharpness;
        ``softmax``: exp(s / sharpness); ``top``: one vote each for the `sharpness` most similar.
    sharpness : float, optional
        Power, temperature or number of voters.
    csls : float
        Some rows are similar to everything near them and outvote the right ones. From each stored
        row's score this share of its mean similarity to its 50 nearest rows is taken off.
    class_weight : float
        Share of the class means in the vote, the neighbours have the rest: probabilities are
        ``(1 − w)·votes + w·softmax(s(x, m_c) / class_temperature)``, m_c the mean of the rows of
        class c, scaled to unit length.
    class_temperature : float
    smoothing : float
        Share that is dealt out evenly to all classes: a class without a voter is improbable, not
        impossible.
    exponent : float
        The probabilities from the neighbours' votes are raised to this power and divided by their
        sum, before hyperplanes and class means vote: many voters hedge, however well their sum
        ranks the classes, and a power above 1 makes it as sure as it is right.
    hyperplane_weight : float
        Share of the local hyperplanes in what the neighbours say, w in
        ``(1 − w)·votes + w·softmax(−d_c² / hyperplane_temperature)``: d_c is the distance of the
        query to the hyperplane through its voters of class c (`nearkin.native.hyperplanes`).
    hyperplane_temperature : float
    refinement : float
        Temperature at which a fit refines the class means by logistic regression
        (`nearkin.voting.refinement`); 0 leaves them as they are.

    Examples
    --------
    >>> scores, labels = np.array([[0.9, 0.5, 0.5]], np.float32), np.array([[0, 1, 1]])
    >>> Vote("similarity").tally(scores, labels, 2).argmax(), Vote("power", 4).tally(
    ...     scores, labels, 2
    ... ).argmax()
    (np.int64(1), np.int64(0))
    """

    kind: VoteName
    sharpness: float | None = None
    csls: float = 0.0
    class_weight: float = 0.0
    class_temperature: float = 1.0
    smoothing: float = 0.0
    exponent: float = 1.0
    hyperplane_weight: float = 0.0
    hyperplane_temperature: float = 1.0
    refinement: float = 0.0

    PARAMETERS: ClassVar[Table] = {
        "kind": expect.choice(*KINDS),
        "sharpness": expect.number(*_SHARPNESS),
        "csls": expect.number(0, 10),
        "class_weight": expect.number(0, 1),
        "class_temperature": expect.number(*_SHARPNESS),
        "smoothing": expect.number(0, 1),
        "exponent": expect.number(0.01, 100),
        "hyperplane_weight": expect.number(0, 1),
        "hyperplane_temperature": expect.number(*_SHARPNESS),
        "refinement": expect.number(0, _SHARPNESS[1]),
    }

    def __post_init__(self) -> None:
        if self.sharpness is None:
            default = DEFAULT_SHARPNESS.get(str(self.kind), 1.0)
            object.__setattr__(self, "sharpness", default)
        check_parameters(self)

    def combine(
        self, tally: Array, class_scores: Array | None, distances: Array | None = None
    ) -> Array:
        """Votes of neighbours, hyperplanes and class means: probabilities, or the tally alone."""
        voters = self.class_weight or self.hyperplane_weight
        if not voters and not self.smoothing and self.exponent == 1:
            return tally
        shares = (1 - self.class_weight) * self.near_shares(tally, distances)
        if class_scores is not None:
            shares += self.class_weight * class_shares(class_scores, self.class_temperature)
        return (1 - self.smoothing) * shares + self.smoothing / shares.shape[1]

    def near_shares(self, tally: Array, distances: Array | None) -> Array:
        """What the neighbours, and the hyperplanes through them, make of the probabilities."""
        shares = sharpened(probabilities(tally), self.exponent)
        if distances is None or not self.hyperplane_weight:
            return shares
        local = hyperplane_shares(distances, self.hyperplane_temperature)
        silent = np.isinf(distances).all(axis=1)
        local[silent] = shares[silent]
        return (1 - self.hyperplane_weight) * shares + self.hyperplane_weight * local

    def weights(self, scores: Array) -> Array:
        """The vote of each neighbour; a score of −inf has none."""
        absent = np.isneginf(scores)
        if not (np.isfinite(scores) | absent).all():
            raise ValueError(
                "similarities hold NaN or infinity: they are beyond float32; divide X by its "
                "largest number, or lower csls"
            )
        if absent.any() and self.kind != "top":  # ranks them last anyway
            least = np.where(absent, np.inf, scores).min(axis=1, keepdims=True)
            scores = np.where(absent, np.where(np.isfinite(least), least, 0), scores)
        return np.where(absent, 0, KINDS[self.kind](scores, float(self.sharpness or 1)))

    def tally(self, scores: Array, labels: NDArray[np.integer], n_classes: int) -> Array:
        """Sum the votes of each row's neighbours by class; a score of −inf has no vote.

        A class without a voter has 0, or −inf where 0 would rank it above one that has voters.
        """
        tally = class_totals(self.weights(scores), labels, n_classes)
        _rank_voteless_last(tally, labels, np.isneginf(scores))
        return tally


def class_totals(values: Array, labels: NDArray[np.integer], n_classes: int) -> Array:
    """Sums of each row's values by the class of their place."""
    cell = np.arange(len(values))[:, None] * n_classes + labels
    totals = np.bincount(cell.ravel(), values.ravel(), minlength=len(values) * n_classes)
    return totals.reshape(len(values), n_classes).astype(np.float32)


def vote_problem(value: Any) -> str | None:
    """What is wrong with a vote, or None: an `Expectation`. ``"auto"`` is yet to be chosen."""
    named = None if isinstance(value, Vote) else expect.choice("auto", *KINDS)(value)
    return named and f"{named}, or a Vote such as Vote('power', 3)"


def as_vote(value: Any) -> Vote:
    """The vote that a checked value stands for; one yet to be chosen starts as ``power``."""
    if isinstance(value, Vote):
        return value
    return Vote("power" if value == "auto" else value)


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


def probabilities(votes: Array) -> Array:
    """Votes as probabilities in the same order; −inf has probability 0.

    Where some are positive, the others are scaled into the range below the least of these; where
    none is, all are shifted.
    """
    if votes.size and votes.min() >= 0:  # the usual case, in a fraction of the time
        total = votes.sum(axis=1, keepdims=True)
        if total.min() > 0:
            return votes / total
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


def sharpened(shares: Array, exponent: float) -> Array:
    """Probabilities raised to a power, divided by their sum."""
    if exponent == 1:
        return shares
    raised = (shares / shares.max(axis=1, keepdims=True)) ** np.float32(exponent)
    return raised / raised.sum(axis=1, keepdims=True)


def hyperplane_shares(distances: Array, temperature: float) -> Array:
    """Softmax of minus the squared distances; 0 for classes without a voter (infinity)."""
    nearest = distances.min(axis=1, keepdims=True)
    nearest[np.isinf(nearest)] = 0  # no voters at all
    with np.errstate(over="ignore"):  # far beyond the nearest: no vote
        shares = np.exp((nearest - distances) / np.float32(temperature))
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), np.float32(1e-30))


def class_shares(scores: Array, temperature: float) -> Array:
    """Softmax of the scores of the class means; a class without one (−inf) has none."""
    shares = _softmax(scores, temperature)
    return shares / shares.sum(axis=1, keepdims=True)
