"""What a trial is about: a candidate, as it was judged."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.presets import Preset
from nearkin.voting.choice import ChosenVote

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """Settings, and how well they do on held-out rows."""

    preprocess: Any  # a transformer that is not fitted, or None
    learner: Preset | None  # None: plain nearest neighbours
    epochs: int
    n_neighbors: int
    chosen: ChosenVote
    score: float
    novelty_threshold: float | None = None
    matrices: tuple[Array, ...] | None = None  # M of each split, where they are small

    def describe(self) -> dict[str, Any]:
        """The candidate as plain values, for a table."""
        return {
            "preprocess": " ".join(repr(self.preprocess).split()),
            "learner": None
            if self.learner is None
            else {k: str(v) for k, v in self.learner.items()},
            "epochs": self.epochs,
            "n_neighbors": self.n_neighbors,
            "vote": self.chosen.vote,
            "log_loss": self.chosen.log_loss,
            "accuracy": self.chosen.accuracy,
            "score": self.score,
        }
