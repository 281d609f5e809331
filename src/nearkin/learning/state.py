"""Where a fit stands beside M: within an epoch, and over its epochs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nearkin.io.run_folder import RunFolder

if TYPE_CHECKING:
    from nearkin.learning.trainer import Trainer

PATIENCE = 5  # epochs without a better held-out accuracy, as in scikit-learn's SGD


@dataclass
class Progress:
    """How far an epoch has come at a moment when M is complete; with M, all it takes to go on."""

    row: int = 0  # of the epoch's usable rows
    violations: int = 0
    loss: float = 0.0
    since: int = 0  # rows since the last projection


@dataclass
class TrainingState:
    """Progress of a fit: losses, stopping, the best matrix so far."""

    history: list[dict[str, float]] = field(default_factory=list)
    done: int = 0  # epochs of this fit
    smoothed: float = math.inf
    stopped: bool = False
    best: float = -1.0
    since_best: int = 0
    best_epochs: int = 0
    best_matrix: NDArray[np.float32] | None = None

    def update(self, record: Mapping[str, float], learner: "Trainer", tol: float) -> None:
        """Record a finished epoch, and decide whether it was the last."""
        self.done += 1
        before, loss = self.smoothed, record["loss"]
        self.smoothed = loss if math.isinf(before) else (before + loss) / 2
        if "validation" not in record:
            settled = self.smoothed == 0 or before - self.smoothed < tol * before
            self.stopped = tol > 0 and settled
            return
        self.since_best += 1
        if record["validation"] > self.best:
            self.best, self.since_best = record["validation"], 0
            self.best_matrix, self.best_epochs = learner.learned.copy(), learner.epochs
        self.stopped = tol > 0 and self.since_best >= PATIENCE

    def check_epochs(self, most: int, folder: RunFolder) -> None:
        """Refuse a state, perhaps of a checkpoint, that is beyond the last epoch."""
        if self.done > most:
            raise ValueError(
                f"max_epochs={most}, but folder={str(folder.path)!r} holds a fit of {self.done} "
                "epochs; raise max_epochs, or give another folder"
            )
