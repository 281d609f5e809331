"""The epochs of a fit: taken one by one, reported, ended by convergence, callback or Ctrl-C."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from nearkin.learning.checkpoints import CheckpointWriter
from nearkin.learning.state import TrainingState
from nearkin.neighborhoods import Neighborhoods
from nearkin.validation.caller import warn_caller

if TYPE_CHECKING:
    from nearkin.learning.trainer import Trainer

DIVERGED_LOSS = 1e3  # times the margin plus two, which no loss exceeds under the identity


def run_epochs(
    model: Any,
    trainer: "Trainer",
    validate: Callable[[], float | None],
    state: TrainingState,
    checkpoints: CheckpointWriter,
) -> None:
    """Run epochs until one is the last; the model has the result of each as soon as it is there."""
    model.interrupted_ = False
    model._publish(trainer)
    try:
        _run(model, trainer, validate, state)
        checkpoints.write()
    except KeyboardInterrupt:
        # Perhaps within a step: good enough to use, not to go on from, so it is not written.
        trainer.project(trainer.matrix)
        model._publish(trainer)
        model.interrupted_ = True
        warn_caller(
            f"interrupted in epoch {trainer.epochs + 1}; what was learned so far is kept in "
            "matrix_, and warm_start=True goes on from it"
        )
    if state.best_matrix is not None:
        model.t_ -= (trainer.epochs - state.best_epochs) * trainer.n_visits
        model.matrix_, model.n_epochs_ = state.best_matrix, state.best_epochs


def _run(
    model: Any, trainer: "Trainer", validate: Callable[[], float | None], state: TrainingState
) -> None:
    diverged = False
    while state.done < model.max_epochs and not state.stopped:
        record = model._epoch(trainer)
        diverged = diverged or warn_if_diverged(model, record)  # once a fit
        model._publish(trainer)
        accuracy = validate()
        if accuracy is not None:
            record["validation"] = accuracy
        state.update(record, trainer, model.tol)
        state.stopped = report_epoch(model, record) or state.stopped


def warn_if_diverged(model: Any, record: dict[str, float]) -> bool:
    """Whether the loss is beyond all that a sound M can have; if so, warn."""
    if record["loss"] <= DIVERGED_LOSS * (model.margin + 2):
        return False
    warn_caller(
        f"step_size={model._step_size} diverges: the mean loss of epoch {record['epoch']} is "
        f"{record['loss']:.1e} times the squared row length; {how_to_converge(model)}",
        ConvergenceWarning,
    )
    return True


def how_to_converge(model: Any) -> str:
    """Advice for steps that are too large."""
    constrain = "" if model._constraint.normalize else " or set Constraint(normalize=True)"
    return f"lower step_size{constrain}"


def report_epoch(model: Any, record: dict[str, float]) -> bool:
    """Add an epoch to the history and report it; whether the callback asks to stop."""
    execution = model._execution
    model.history_.append(record)
    if execution.verbose:
        print("  ".join(f"{name} {value:.4g}" for name, value in record.items()))
    if execution.callback is None:
        return False
    return execution.callback(int(record["epoch"]), model) is True


def report_skipped(model: Any, hoods: Neighborhoods, held: NDArray[np.bool_] | None = None) -> None:
    """Count the rows that no epoch can visit, and the hubs; warn if no row is left."""
    unusable = ~hoods.usable & (hoods.degrees > 0)
    if held is not None:
        unusable &= ~held
    model.n_skipped_, model.n_hubs_ = int(unusable.sum()), hoods.n_hubs
    if not hoods.usable.any():
        warn_caller(
            "no row has both a target and an impostor among its neighbours, so nothing can "
            "be learned and M stays as it is; raise n_neighbors",
            ConvergenceWarning,
        )
    if model._execution.verbose:
        print(
            f"{hoods.usable.sum()} rows to visit, {model.n_skipped_} skipped (no target or no "
            f"impostor near), mean degree {hoods.degrees.mean():.1f}, {hoods.n_hubs} hubs"
        )
