"""Checkpoints: the state of a fit, written to and read from a run folder."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nearkin.io.run_folder import RunFolder
from nearkin.learning.averaging import IterateMean
from nearkin.learning.state import Progress, TrainingState
from nearkin.validation.arrays import check_fitted_array

if TYPE_CHECKING:
    from nearkin.learning.trainer import Trainer


_PART = "learning"


class CheckpointWriter:
    """Writes the trainer and its state to a run folder, and restores them."""

    def __init__(
        self, folder: RunFolder, inputs: Mapping[str, Any], learner: "Trainer", state: TrainingState
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
