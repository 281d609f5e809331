"""The state of a fit beside M, and how it is written to and read from a run folder."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.run_folder import RunFolder
from nearkin.learning.averaging import IterateMean
from nearkin.learning.trainer import Progress, Trainer
from nearkin.validation.arrays import check_fitted_array

PATIENCE = 5  # epochs without a better held-out accuracy, as in scikit-learn's SGD

_PART = "learning"


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

    def update(self, record: Mapping[str, float], learner: Trainer, tol: float) -> None:
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


class CheckpointWriter:
    """Writes the trainer and its state to a run folder, and restores them."""

    def __init__(
        self, folder: RunFolder, inputs: Mapping[str, Any], learner: Trainer, state: TrainingState
    ) -> None:
        self.folder, self.inputs = folder, inputs
        self.learner, self.state = learner, state
        learner.between = self.write_if_due

    def resume(self) -> None:
        """Restore the last checkpoint, if there is one."""
        kept = self.folder.read(_PART, self.inputs)
        if kept is None:
            return
        arrays, notes = kept
        learner = self.learner
        for matrix in arrays.values():
            check_fitted_array("matrix", matrix, learner.matrix.shape, owner="the checkpoint")
        learner.matrix = np.array(arrays["matrix"])
        learner.epochs, learner.taken = notes["epochs"], notes["taken"]
        learner.initial_norm = notes["initial_norm"]
        learner.progress = Progress(**notes["progress"])
        if "mean" in arrays:
            learner.mean = IterateMean(np.array(arrays["mean"]), notes["averaged"])
        best = np.array(arrays["best_matrix"]) if "best_matrix" in arrays else None
        vars(self.state).update(notes["state"], best_matrix=best)

    def write_if_due(self) -> None:
        """Write a checkpoint if it is time."""
        if self.folder.due:
            self.write()

    def write(self) -> None:
        """Write a checkpoint: within an epoch, or between two."""
        learner, state = self.learner, vars(self.state).copy()
        arrays = {"matrix": learner.matrix}
        best = state.pop("best_matrix")
        if best is not None:
            arrays["best_matrix"] = best
        if learner.mean.matrix is not None:
            arrays["mean"] = learner.mean.matrix
        notes = {
            "epochs": learner.epochs,
            "taken": learner.taken,
            "initial_norm": learner.initial_norm,
            "progress": asdict(learner.progress),
            "averaged": learner.mean.count,
            "state": state,
        }
        self.folder.write(_PART, self.inputs, arrays, notes)
