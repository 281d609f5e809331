"""The methods at our own settings, all of them settled on training rows.

`SoftVotingKNN()` makes the selection (`automatic`). The 60 or 120 rows of Table 1 are too few to
spare any for that: what SL-NE takes there (`slne_of_few`) was settled on other classes of
Caltech-101 (``benchmarks/few_images.py``); the whitening of what it is compared with is selected
within each split.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from nearkin.classifier import SoftVotingKNN
from nearkin.learning.holdout import held_out
from nearkin.learning.presets import IMAGES, Preset
from nearkin.learning.sampling import AllPairs
from nearkin.metrics import top_n_accuracy
from nearkin.native.listed_scores import pair_scores
from nearkin.neighbors import nearest
from nearkin.reproduction.methods import Score, score, tally
from nearkin.reproduction.results import timed
from nearkin.reproduction.setup import Setup
from nearkin.reproduction.tasks import Array, Task
from nearkin.selection import Selection
from nearkin.slde import SLDE
from nearkin.slne import SLNE
from nearkin.voting.class_means import class_means
from nearkin.voting.votes import Vote, class_shares, probabilities

HELD_OUT, WHITENING, VOTERS = 0.2, 0.5, 1_000
POWERS = [Vote("power", p) for p in (1.0, 2.0, 3.0, 4.0, 6.0)]
TOPS = [Vote("top", n) for n in (1.0, 3.0, 5.0, 10.0)]  # for plain neighbours
SELECTION_ROWS, PLAIN_FOLDS = 20_000, 3  # for plain neighbours
WHITENINGS = (0.0, 0.25, 0.5)
# Of few rows: learner, votes, the share of the class means, and their temperature in units of
# their scores' spread. Whitened rows, few and of many columns, are nearly at right angles: their
# similarities differ by less than the paper's margin of .02.
FEW = IMAGES["all"] | {"sampling": AllPairs(margin=0.005)}
SHARP, MEANS_SHARE, TEMPERATURE = Vote("power", 4.0), 0.6, 0.2
OF_FEW = FEW, WHITENING, SHARP, MEANS_SHARE, TEMPERATURE
QUICK_EFFORT = 0.1


class Validation(NamedTuple):
    """Scores of the neighbours of held-out rows, the neighbours' labels, and the true labels."""

    scores: Array
    labels: NDArray[Any]
    truth: NDArray[Any]


def automatic(setup: Setup, task: Task) -> tuple[Score, Score]:
    """SL-NE with automatic settings, and SL-DE of that learner."""
    selection = Selection(effort=QUICK_EFFORT if setup.quick else 1.0)
    model = SoftVotingKNN(selection=selection, random_state=0)
    _, seconds = timed(lambda: model.fit(task.X, task.y))
    if model.similarity_ is None:  # plain neighbours were best, which are not what is asked for
        model = SoftVotingKNN(SLNE(random_state=0), random_state=0)
        _, seconds = timed(lambda: model.fit(task.X, task.y))
    learner = clone(model.similarity_).set_params(random_state=None)
    members = SLDE(learner, **_projections(*model.database_.shape), n_jobs=setup.jobs)
    ensemble = SoftVotingKNN(
        members,
        preprocess=model.preprocess_,
        n_neighbors=model.n_neighbors_,
        vote=model.vote_,
        random_state=0,
    )
    single = _classified(model, task, seconds)
    _, seconds = timed(lambda: ensemble.fit(task.X, task.y))
    return single, _classified(ensemble, task, seconds)


def _projections(rows: int, columns: int) -> dict[str, Any]:
    """What SLDE takes by itself; where rows outnumber columns thirds, and random ones beside them.

    On held-out training images of Caltech-101 random ones cost two points.
    """
    if 2 * columns > rows:
        return {}
    return {"projection": "mixed", "n_members": 6, "n_components": max(1, columns // 3)}


def _classified(model: SoftVotingKNN, task: Task, seconds: float) -> Score:
    learner = getattr(model.similarity_, "learner", None) or model.similarity_
    rule = "plain" if learner is None else f"{learner.sampling}, k={learner.n_neighbors}"
    vote = f"{model.vote_.kind} {model.vote_.sharpness:.3g}"
    note = f"{type(model.preprocess_).__name__}, {rule}, {vote}"
    return score(model.predict_proba(task.Q), task.truth, seconds, note)


def slne_of_few(given: Task, learner: Preset = FEW, whitening: float = WHITENING) -> Score:
    """SL-NE of all pairs; all rows vote, and the class means beside them."""
    task = given.whitened(whitening)

    def work() -> tuple[Array, str]:
        settings = learner | {"n_neighbors": min(VOTERS, len(task.y) - 1)}
        M = SLNE.paper(tol=0, random_state=0, **settings).fit(task.X, task.y).matrix_
        towards = M @ class_means(task.X, task.y, int(task.y.max()) + 1).T
        near = nearest(task.X, min(VOTERS, len(task.X)), queries=task.Q)[1]
        votes = tally(task, near, pair_scores(task.Q @ M, task.X, near), SHARP)
        spread = float((task.X @ towards).std())
        shares = class_shares(np.asarray(task.Q @ towards, np.float32), TEMPERATURE * spread)
        mixed = (1 - MEANS_SHARE) * probabilities(votes) + MEANS_SHARE * shares
        return mixed, f"all pairs, power {SHARP.sharpness:g}, class means {MEANS_SHARE:.0%}"

    return _scored(task, *timed(work))


def of_few(task: Task, folds: int, accuracy: Callable[[Task], float]) -> float:
    """Any method on the whitening that is best for it on the same held-out rows."""
    spaces = [task.whitened(exponent) for exponent in WHITENINGS]
    return accuracy(
        max(spaces, key=lambda space: np.mean([accuracy(part) for part in parts(space, folds)]))
    )


def parts(task: Task, folds: int) -> Iterator[Task]:
    """Tasks of training rows alone: some are held out, to be asked about."""
    for fold in range(folds):
        held = held_out(task.y, HELD_OUT, np.random.default_rng([0, fold]))
        yield replace(
            task, X=task.X[~held], y=task.y[~held], Q=task.X[held], truth=task.y[held],
            retrieval=None,
        )  # fmt: skip


def _scored(task: Task, result: tuple[Array, str], seconds: float) -> Score:
    return score(result[0], task.truth, seconds, result[1])


def _vote(parts: list[Validation], among: list[Vote]) -> tuple[float, Vote]:
    """The accuracy of the best vote on held-out rows, and that vote."""
    trials = []
    for vote in among:
        right = []
        for part in parts:
            votes = vote.tally(part.scores, part.labels, int(part.labels.max()) + 1)
            right.append(top_n_accuracy(votes.argmax(axis=1)[:, None], part.truth, 1, True))
        trials.append((100 * float(np.mean(right)), vote))
    return max(trials, key=lambda trial: trial[0])


def plain(task: Task) -> Score:
    """Plain nearest rows; selects the space, their number and the vote."""

    def work() -> tuple[Array, str]:
        accuracy, vote, space, k = _plain_selection(task)
        rows = _plain_spaces(task)[space]
        near = nearest(rows.X, min(k, len(rows.X)), queries=rows.Q)[1]
        note = f"{space}, k={k}, {vote.kind} {vote.sharpness:g}, {accuracy:.2f} held out"
        return tally(rows, near, pair_scores(rows.Q, rows.X, near), vote), note

    return _scored(task, *timed(work))


def _plain_spaces(task: Task) -> dict[str, Task]:
    """The rows with more and more whitening, and the space of Retrieval."""
    spaces = {f"whitening {w:g}": task.whitened(w) for w in (0.0, 0.5, 0.75)}
    return spaces if task.retrieval is None else spaces | {"Retrieval": task.retrieved}


def _plain_selection(task: Task) -> tuple[float, Vote, str, int]:
    """The best accuracy on held-out rows, with its vote, space and number of neighbours."""
    some = np.random.default_rng(0).permutation(len(task.X))[:SELECTION_ROWS]
    y, trials = task.y[some], []
    for space, made in _plain_spaces(task).items():
        rows = made.X[some]
        for k in (20, 50, 100):
            parts = []
            for fold in range(PLAIN_FOLDS):
                held = held_out(y, HELD_OUT, np.random.default_rng([0, fold]))
                X, Q = rows[~held], rows[held]
                near = nearest(X, min(k, len(X)), queries=Q)[1]
                parts.append(Validation(pair_scores(Q, X, near), y[~held][near], y[held]))
            trials.append((*_vote(parts, POWERS + TOPS), space, k))
    return max(trials, key=lambda trial: trial[0])
