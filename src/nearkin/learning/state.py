"""The course of a fit: what, beside M, decides how it goes on; and its way to a checkpoint."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.checkpoint import Checkpoint
from nearkin.learning.trainer import Progress, Trainer

PATIENCE = 5  # epochs without a better held-out accuracy, as in scikit-learn's SGD

_NAME = "learning"


@dataclass
class Course:
    """How the epochs of a fit have gone."""

    history: list[dict[str, float]] = field(default_factory=list)
    done: int = 0  # epochs of this fit
    smoothed: float = math.inf
    stopped: bool = False
    best: float = -1.0
    since_best: int = 0
    best_epochs: int = 0
    best_matrix: NDArray[np.float32] | None = None

    def note(self, record: Mapping[str, float], learner: Trainer, tol: float) -> None:
        """Take note of an epoch that is over, and decide whether it was the last."""
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
            self.best_matrix, self.best_epochs = learner.matrix.copy(), learner.epochs
        self.stopped = tol > 0 and self.since_best >= PATIENCE


class Journal:
    """Keeps learner and course in a checkpoint, and brings them back."""

    def __init__(
        self, checkpoint: Checkpoint, made_from: Mapping[str, Any], learner: Trainer, course: Course
    ) -> None:
        self.checkpoint, self.made_from = checkpoint, made_from
        self.learner, self.course = learner, course
        learner.between = self.tick

    def resume(self) -> None:
        """Go back to the last write, if there is one."""
        kept = self.checkpoint.read(_NAME, self.made_from)
        if kept is None:
            return
        arrays, notes = kept
        learner = self.learner
        learner.matrix = np.array(arrays["matrix"])
        learner.epochs, learner.taken = notes["epochs"], notes["taken"]
        learner.initial_norm, learner.progress = (
            notes["initial_norm"],
            Progress(**notes["progress"]),
        )
        best = np.array(arrays["best_matrix"]) if "best_matrix" in arrays else None
        vars(self.course).update(notes["course"], best_matrix=best)

    def tick(self) -> None:
        """Write if it is time."""
        if self.checkpoint.due:
            self.write()

    def write(self) -> None:
        """Keep where learner and course stand: within an epoch, or between two."""
        learner, course = self.learner, vars(self.course).copy()
        arrays = {"matrix": learner.matrix}
        best = course.pop("best_matrix")
        if best is not None:
            arrays["best_matrix"] = best
        notes = {
            "epochs": learner.epochs,
            "taken": learner.taken,
            "initial_norm": learner.initial_norm,
            "progress": asdict(learner.progress),
            "course": course,
        }
        self.checkpoint.write(_NAME, self.made_from, arrays, notes)
