"""Linear SVM, LMNN and NCM on a task, as scores beside those of `methods`."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import FunctionTransformer

from nearkin.app.comparison import Outcome, compare
from nearkin.classifier import SoftVotingKNN
from nearkin.neighbors import Retrieval
from nearkin.reproduction.baselines import LMNN, NCM
from nearkin.reproduction.linear_svms import linear_svm, sgd_svm
from nearkin.reproduction.methods import Score
from nearkin.reproduction.tasks import Array, Task

# Limits that keep LMNN to minutes: at 3,000 dimensions with all impostors it takes hours.
LMNN_ITERATIONS, LMNN_ROWS, LMNN_DIMS, LMNN_IMPOSTORS = 40, 5_000, 500, 100


# liblinear copies the rows to float64; beyond half a GiB of that, averaged SGD takes over.
EXACT_CELLS = 1 << 26


def svm(task: Task) -> Score:
    """One against all; C selected on held-out training rows."""
    if task.X.size > EXACT_CELLS:
        return measured(task, sgd_svm)
    rows, columns = task.X.shape
    return measured(task, partial(linear_svm, dual=rows < 2 * columns))


def ncm(task: Task) -> Score:
    """Nearest class means under a learned metric, after Mensink et al."""
    return measured(task, lambda seed: NCM(random_state=seed))


def lmnn(task: Task) -> Score:
    """LMNN, and a vote selected on held-out training rows.

    Rows of unit length put nearly every pair of rows inside the margin. The nearest impostors,
    about a hundred per row, are kept, and the first 500 principal directions. Voters are those
    that Retrieval finds.
    """
    task = task.shortened(LMNN_DIMS)
    rows = min(len(task.X), LMNN_ROWS)
    learner = LMNN(
        max_iter=LMNN_ITERATIONS, max_rows=LMNN_ROWS, max_impostors=LMNN_IMPOSTORS * rows
    )
    found = voting(task, learner)
    if len(task.X) > LMNN_ROWS:
        found["note"] = f"learned from {LMNN_ROWS:,} of the rows; {found['note']}"
    return found


def voting(task: Task, learner: Any) -> Score:
    """A learner, and a vote of at most 100 rows selected on held-out training rows."""
    voters = min(100, len(task.X) - 1)
    return measured(
        side_by_side(task),
        lambda seed: SoftVotingKNN(learner, n_neighbors=voters, random_state=seed, **_parts(task)),
    )


def side_by_side(task: Task) -> Task:
    """Each row followed by what Retrieval knows it by, if that is something else."""
    if task.retrieval is None:
        return task
    X, Q = task.retrieval
    return replace(task, X=np.hstack([task.X, X]), Q=np.hstack([task.Q, Q]), retrieval=None)


def _parts(task: Task) -> dict[str, Any]:
    """How a classifier of such rows preprocesses them, and finds neighbours."""
    if task.retrieval is None:
        return {"preprocess": None}
    D = task.X.shape[1]
    first, rest = (FunctionTransformer(_columns, kw_args={"part": part})
                   for part in (slice(D), slice(D, None)))  # fmt: skip
    return {"preprocess": first, "index": Retrieval(rest)}


def _columns(rows: Array, part: slice) -> Array:
    return np.ascontiguousarray(rows[:, part])


def measured(task: Task, factory: Callable[[int], Any]) -> Score:
    """The score of any classifier."""
    (outcome,) = compare({"method": factory}, task.X, task.y, task.Q, task.truth)
    return as_score(outcome)


def as_score(outcome: Outcome) -> Score:
    """The outcome in per cent, ready for the cache."""
    return Score(
        top1=100 * outcome.per_class,
        top3=100 * outcome.per_class_top3,
        plain_top1=100 * outcome.top1,
        plain_top3=100 * outcome.top3,
        seconds=outcome.seconds,
        note=", ".join(f"{name} {value}" for name, value in outcome.settings.items()),
    )
