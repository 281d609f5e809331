"""Linear SVM, LMNN and others on a task, through `nearkin.reproduction.comparison`."""

from collections.abc import Callable
from typing import Any

from nearkin.classifier import SoftVotingKNN
from nearkin.reproduction.baselines import LMNN
from nearkin.reproduction.comparison import METHODS, Outcome, compare
from nearkin.reproduction.methods import Score
from nearkin.reproduction.rows import Task

# What LMNN can do in minutes: at 3,000 dimensions with all impostors it takes hours.
LMNN_ITERATIONS, LMNN_ROWS, LMNN_DIMS, LMNN_IMPOSTORS = 40, 5_000, 500, 100


def svm(task: Task) -> Score:
    """One against all; C on held-out training rows."""
    return measured(task, METHODS["Linear SVM"])


def ncm(task: Task) -> Score:
    """Nearest class means under a learned metric, after Mensink et al."""
    return measured(task, METHODS["NCM"])


def lmnn(task: Task) -> Score:
    """LMNN, and a vote chosen on held-out training rows.

    With rows of unit length nearly all pairs of rows are within its margin; of them the nearest,
    about a hundred a row, are kept, and of the principal directions the first 500.
    """
    task = task.shortened(LMNN_DIMS)
    rows = min(len(task.X), LMNN_ROWS)
    learner = LMNN(
        max_iter=LMNN_ITERATIONS, max_rows=LMNN_ROWS, max_impostors=LMNN_IMPOSTORS * rows
    )
    found = measured(
        task,
        lambda seed: SoftVotingKNN(
            learner, n_neighbors=min(100, len(task.X) - 1), random_state=seed
        ),
    )
    if len(task.X) > LMNN_ROWS:
        found["note"] = f"learned from {LMNN_ROWS:,} of the rows; {found['note']}"
    return found


def measured(task: Task, factory: Callable[[int], Any]) -> Score:
    """Any classifier."""
    (outcome,) = compare({"method": factory}, task.X, task.y, task.Q, task.truth)
    return as_score(outcome)


def as_score(outcome: Outcome) -> Score:
    """In per cent, to be kept."""
    return Score(
        top1=100 * outcome.per_class,
        top3=100 * outcome.per_class_top3,
        plain_top1=100 * outcome.top1,
        plain_top3=100 * outcome.top3,
        seconds=outcome.seconds,
        note=", ".join(f"{name} {value}" for name, value in outcome.settings.items()),
    )
