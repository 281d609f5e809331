"""How good a candidate is on held-out rows; larger is better."""

from collections.abc import Callable

import numpy as np

from nearkin.selection.options import Scoring
from nearkin.voting.choice import Ballot, ChosenVote

RETRIEVED = 10
_TINY = 1e-12


def precision(ballot: Ballot) -> float:
    """Mean share of a query's own class among its most similar voters."""
    return float(_relevant(ballot)[:, :RETRIEVED].mean())


def average_precision(ballot: Ballot) -> float:
    """Mean average precision of the shortlists, ranked by similarity."""
    right = _relevant(ballot)
    at_rank = np.cumsum(right, axis=1) / np.arange(1, right.shape[1] + 1)
    return float(((at_rank * right).sum(axis=1) / np.maximum(right.sum(axis=1), 1)).mean())


def _relevant(ballot: Ballot) -> np.ndarray:
    order = np.argsort(-ballot.scores, axis=1, kind="stable")
    return np.take_along_axis(ballot.labels, order, axis=1) == ballot.truth[:, None]


def classification(ballot: Ballot, chosen: ChosenVote) -> float:
    """Minus the logarithm of the geometric mean of log loss and error; half an error at least."""
    errors = max(1 - chosen.accuracy, 0.5 / len(ballot.truth))
    return -0.5 * float(np.log(max(chosen.log_loss, _TINY)) + np.log(errors))


SCORES: dict[Scoring, Callable[[Ballot, ChosenVote], float]] = {
    "classification": classification,
    "log_loss": lambda _, chosen: -chosen.log_loss,
    "accuracy": lambda _, chosen: chosen.accuracy - 1e-3 * chosen.log_loss,
    "precision": lambda ballot, _: precision(ballot),
    "average_precision": lambda ballot, _: average_precision(ballot),
}
