"""Early stopping of the baselines: quality on held-out rows, and the best state so far."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.holdout import held_out, sample
from nearkin.native.listed_scores import pair_squared_distances
from nearkin.neighbors import nearest
from nearkin.voting.choice import Ballot, candidates, choose

Array = NDArray[np.float32]
Labels = NDArray[np.int64]
Quality = tuple[float, float]  # accuracy; among equals, mean log likelihood

WORST: Quality = (-1.0, 0.0)
FRACTION, MAX_HELD_OUT = 0.1, 2_000
VOTERS, MAX_VOTERS = 50, 20_000
PATIENCE = 8


class HeldOut:
    """A stratified tenth of the rows (at most 2,000), held out, with their nearest neighbours.

    The voters are the 50 nearest of the other rows (of at most 20,000 of them), as in
    `SoftVotingKNN`. ``learn`` lists the rows to learn from.
    """

    def __init__(self, rows: Array, labels: Labels, rng: np.random.Generator) -> None:
        held = held_out(labels, min(FRACTION, MAX_HELD_OUT / len(labels)), rng)
        self.learn = np.flatnonzero(~held)
        self.n_classes = int(labels.max()) + 1
        self.queries, self.truth = np.ascontiguousarray(rows[held]), labels[held]
        if held.any():
            voters = self.learn[sample(labels[self.learn], MAX_VOTERS, rng)]
            self.stored = np.ascontiguousarray(rows[voters])
            k = min(VOTERS, len(voters))
            self.lists = nearest(self.stored, k, queries=self.queries)[1]
            self.labels = labels[voters][self.lists]

    def quality(self, scores: Callable[[Array, Array, NDArray[np.int32]], Array]) -> Quality | None:
        """Accuracy and mean log likelihood of the best vote; None where no row is held out.

        `scores` is called as ``scores(queries, stored, lists)``.
        """
        if not len(self.queries):
            return None
        seen = scores(self.queries, self.stored, self.lists)
        usual = [v for v in candidates(seen) if v.kind in ("softmax", "top")]
        best = choose(Ballot(seen, self.labels, self.truth, self.n_classes), usual)
        return best.accuracy, -best.log_loss


def metric_quality(held: HeldOut, L: Array) -> Quality | None:
    """`HeldOut.quality` for minus the squared distances after the linear map L."""
    return held.quality(
        lambda queries, stored, lists: -pair_squared_distances(queries @ L.T, stored @ L.T, lists)
    )


class Best:
    """Keeps the state of best quality; without held-out rows, the last state."""

    def __init__(self, patience: int = PATIENCE) -> None:
        self.patience, self.since = patience, 0
        self.quality: Quality = WORST
        self.state: Any = None

    def offer(self, quality: Quality | None, state: Any) -> bool:
        """Record a state; return whether to stop."""
        self.since += 1
        if quality is None or quality > self.quality:
            self.quality, self.state, self.since = quality or WORST, state, 0
        return self.since >= self.patience
