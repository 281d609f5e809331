"""The paper's methods on a task, at given settings; each result is a `Score`.

Votes are the paper's (Eq. 9): the similarities of the neighbours, summed by class.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from nearkin.io.fingerprint import TextDigest
from nearkin.learning.sampling import Hardest
from nearkin.metrics import top_n_accuracy
from nearkin.native.listed_scores import pair_scores
from nearkin.reproduction.published import MARGIN, STEP_SIZE, PaperSettings
from nearkin.reproduction.results import timed
from nearkin.reproduction.setup import Setup
from nearkin.reproduction.tasks import Array, Task
from nearkin.slde import SLDE
from nearkin.slne import SLNE
from nearkin.voting.votes import Vote

PAPER_VOTE = Vote("similarity")


class Score(TypedDict):
    """Accuracies in per cent: mean of the per-class ones, and over all test rows (plain)."""

    top1: float
    top3: float
    plain_top1: float
    plain_top3: float
    seconds: float
    note: str


def score(tally: Array, truth: NDArray[Any], seconds: float = 0.0, note: str = "") -> Score:
    """The score of votes (or decision values) by class."""
    n = min(3, tally.shape[1])
    ranked = np.argsort(-tally, axis=1, kind="stable")[:, :n]
    one, three, plain_one, plain_three = (
        100 * top_n_accuracy(ranked, truth, n, mean)
        for mean, n in ((True, 1), (True, n), (False, 1), (False, n))
    )
    return Score(
        top1=one,
        top3=three,
        plain_top1=plain_one,
        plain_top3=plain_three,
        seconds=seconds,
        note=note,
    )


def tally(task: Task, near: Any, scores: Array, vote: Vote = PAPER_VOTE) -> Array:
    """Votes by class, from the scores of the test rows' neighbours."""
    return vote.tally(scores, task.y[near], int(task.y.max()) + 1)


def fitting(settings: PaperSettings, task: Task, quick: bool = False) -> PaperSettings:
    """The settings, limited to the task's rows and columns; smaller if `quick`."""
    D = task.X.shape[1]
    d = min(settings.member_dims, max(1, D // 3)) if quick else min(settings.member_dims, D)
    members = min(settings.members, 6) if quick else settings.members
    return replace(
        settings,
        neighbors=min(settings.neighbors, len(task.X) - 1),
        dims=D,
        member_dims=d,
        members=min(members, D // d) if settings.projection == "pca" else members,
        epochs=min(settings.epochs, 10) if quick else settings.epochs,
    )


def slne(settings: PaperSettings, **changes: Any) -> SLNE:
    """SL-NE as the paper runs it."""
    given: dict[str, Any] = {
        "n_neighbors": settings.neighbors,
        "sampling": Hardest(MARGIN),
        "step_size": STEP_SIZE,
        "max_epochs": settings.epochs,
        "tol": 0,
        "random_state": 0,
    }
    return SLNE.paper(**(given | changes))


def slde(settings: PaperSettings, jobs: int, **changes: Any) -> SLDE:
    """SL-DE as the paper runs it."""
    return SLDE(
        slne(settings, random_state=None, **changes),
        projection=settings.projection,
        n_members=settings.members,
        n_components=settings.member_dims,
        coupling="none",
        n_jobs=jobs,
        random_state=0,
    )


def kept(
    setup: Setup, what: str, task: Task, settings: PaperSettings, make: Callable[[], Any]
) -> Any:
    """A JSON value about a task at these settings; measured unless the run folder has it."""
    name = "".join(c for c in what.lower() if c.isalnum() or c == "-")
    return setup.value(f"{name}-{task.key}", {"rows": task.digest, **vars(settings)}, make)


def matrix(setup: Setup, task: Task, learner: Any) -> Array:
    """M of a learner on the training rows, kept for other items."""
    return _learned(setup, task, learner)[0]


def _learned(setup: Setup, task: Task, learner: Any) -> tuple[Array, float]:
    """M, and the seconds that learning it took."""
    own, _ = task.lists(setup, learner.n_neighbors)
    settings = TextDigest(" ".join(repr(learner).split()))

    def learn() -> dict[str, Any]:
        _, seconds = timed(lambda: learner.fit(task.X, task.y, neighbors=own))
        return {"M": learner.matrix_, "seconds": np.array([seconds])}

    name = f"{task.key}-{type(learner).__name__}-{str(settings)[-8:]}"
    found = setup.arrays(name, {"rows": task.digest, "learner": settings}, learn)
    return found["M"], float(found["seconds"][0])


def learned(setup: Setup, task: Task, learner: Any, vote: Vote = PAPER_VOTE) -> Score:
    """Accuracy of a learner's similarity; voters are the neighbours it learned with."""
    M, seconds = _learned(setup, task, learner)
    _, near = task.lists(setup, learner.n_neighbors)
    scores = pair_scores(task.Q @ M, task.X, near)
    return score(tally(task, near, scores, vote), task.truth, seconds)


def member_scores(model: SLDE, X: Array, Q: Array, near: Any) -> Iterator[Array]:
    """Each member's scores of the neighbours `near` of the queries.

    The scores of an ensemble are the sum, so one fit gives ensembles of every smaller size.
    """
    for P, M in zip(model.projections_, model.members_):
        down = P.matrix().T
        yield pair_scores((Q @ down) @ M, np.ascontiguousarray(X @ down), near)


def retrieval(setup: Setup, task: Task, k: int, vote: Vote = PAPER_VOTE) -> Score:
    """What Retrieval finds, weighted by inner products in its own space."""
    (_, near), seconds = timed(lambda: task.lists(setup, k))
    X, Q = task.searched
    return score(tally(task, near, pair_scores(Q, X, near), vote), task.truth, seconds)
