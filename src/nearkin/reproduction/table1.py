"""Table 1: four classes of Caltech-101, divided in four ways, by kNN, LMNN and SL-NE.

Command: ``nearkin reproduce table1 --data DIR --folder RUN``; about five minutes on two cores once
the features are there.

The paper: SL-NE is far above LMNN where classes are alike (flamingo against ibis 78.14 to 64.93)
and a little above it where they are not (birds against boats 98.72 to 94.00). It does not say how
the images were split or how many neighbours were used. Here: 30 random training images of each
class, thirty splits, mean of the per-class accuracies; the rows are the principal directions of the
training images (at most 119), of unit length; neighbourhoods of 30, the size of a class, from the
Retrieval of `tasks`. The number of voters of kNN and LMNN is chosen by leave-one-out on the
training images.

Own settings, for which both get LLC features as nearkin makes them by default, with square roots:
60 or 120 training images are too few to choose on, so SL-NE (`own_settings.slne_of_few`) has one
setting for all divisions, settled on 14 pairs of other classes that are about as hard to tell
apart (``benchmarks/few_images.py``: without whitening 85.6, half-whitened 86.5, with the paper's
margin 86.2, half-whitened LMNN 85.3). The whitening of LMNN is chosen on held-out training images;
LMNN on half-whitened rows, without any choice, stands in where it is better in the mean.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.fingerprint import Digest
from nearkin.neighbors import nearest
from nearkin.reproduction import methods, own_settings, published, tasks
from nearkin.reproduction.baselines import LMNN
from nearkin.reproduction.results import Cell, Claim, Result
from nearkin.reproduction.setup import Setup
from nearkin.reproduction.toy_task import NEIGHBORS, divided, toy
from nearkin.voting.votes import Vote

TITLE = "Table 1: four classes, divided in four ways"
SPLITS, QUICK_SPLITS, FOLDS = 30, 1, 10
VOTERS = (1, 3, 5, 7, 9, 15)
WIDER = "SL-NE, all rows, similarity⁴"
CHOSEN_LMNN, HALF_LMNN = "LMNN, chosen whitening", "LMNN, half-whitened"
VOTE_WHY = "The vote of Eq. 9 sums over near and far rows; a sharper one closes most of the gap."
Work = dict[str, Callable[[tasks.Task], float]]
REASONS = {
    "Euclidean kNN": "own features and splits; number of voters chosen on training images",
    "LMNN": "own LMNN and splits; the paper's settings of LMNN are not known",
    "SL-NE": "own features and splits; neighbours come from our Retrieval, not the paper's",
}


def run(setup: Setup) -> Result:
    """All methods on all divisions, over random splits."""
    images, features = toy(setup)
    _, own_features = toy(setup, tasks.OWN)
    splits = QUICK_SPLITS if setup.quick else SPLITS
    cells, spread = [], {}
    for division, names in published.DIVISIONS.items():
        found = setup.value(
            f"table1-{division.replace('/', '-').replace(' ', '-')}",
            {
                "features": Digest(features, own_features, images.folder.labels),
                "splits": splits,
                "folds": FOLDS,
                "own": repr(own_settings.OF_FEW),
            },
            partial(measured, images.folder.labels, (features, own_features), names, splits),
        )
        setup.log(f"{division}: " + ", ".join(f"{m} {v[0]:.2f}" for m, v in found.items()))
        spread[division] = found
        for method, figures in published.TABLE1.items():
            own = found.get(f"{method}, own best", [None])[0]
            cells.append(
                Cell(division, method, figures[division], found[method][0], own, REASONS[method])
            )
    found = notes(splits, spread)
    return Result("table1", TITLE, cells, claims(spread), found, {"accuracies": spread})


def notes(splits: int, spread: dict[str, Any]) -> list[str]:
    """Remarks for the reader."""
    gains = ", ".join(f"{d} {found[WIDER][0] - found['LMNN'][0]:+.2f}"
                      for d, found in spread.items())  # fmt: skip
    errors = ", ".join(f"{d} {found['paired'][0]:+.2f} ± {found['paired'][1]:.2f}"
                       for d, found in spread.items())  # fmt: skip
    both = ", ".join(f"{d} {found[CHOSEN_LMNN][0]:.2f} and {found[HALF_LMNN][0]:.2f}"
                     for d, found in spread.items())  # fmt: skip
    return [
        f"Mean of the per-class accuracies in %, over {splits} random split(s) of 30 training "
        "images a class; the paper does not give its split.",
        "Part of the gap between SL-NE and LMNN at the paper's settings is the vote: kNN asks a "
        "few rows, Eq. 9 sums over all 30, near and far. The same SL-NE with all rows as "
        f"neighbours and votes = similarity⁴ against LMNN: {gains}.",
        "At own settings the differences are within chance where they are small: SL-NE less LMNN, "
        f"mean and standard error over the splits: {errors}. LMNN's figure is the better one of "
        "a whitening chosen on held-out training images and of half whitening without a choice: "
        f"{both}.",
    ]


def measured(
    labels: NDArray[Any], features: tuple[Any, Any], names: dict[str, str], splits: int
) -> dict[str, list[float]]:
    """Mean and spread of the accuracies of each method."""
    papers: Work = {
        "Euclidean kNN": euclidean,
        "LMNN": lmnn,
        "SL-NE": slne,
        WIDER: lambda task: slne(task, len(task.X), Vote("power", 4.0)),
    }
    own: Work = {
        CHOSEN_LMNN: lambda task: own_settings.of_few(task, FOLDS, lmnn),
        HALF_LMNN: lambda task: lmnn(task.whitened(own_settings.WHITENING)),
        "SL-NE, own best": lambda task: own_settings.slne_of_few(task)["top1"],
    }
    found: dict[str, Any] = {}
    for work, made in zip((papers, own), features):
        drawn = [divided(labels, made, names, seed) for seed in range(splits)]
        found |= {name: [method(task) for task in drawn] for name, method in work.items()}
    found["LMNN, own best"] = max(found[CHOSEN_LMNN], found[HALF_LMNN], key=np.mean)
    gained = np.subtract(found["SL-NE, own best"], found["LMNN, own best"])
    error = float(gained.std(ddof=1) / np.sqrt(splits)) if splits > 1 else 0.0
    spread = {name: [float(np.mean(a)), float(np.std(a))] for name, a in found.items()}
    return spread | {"paired": [float(gained.mean()), error]}


def euclidean(task: tasks.Task) -> float:
    """Majority of the k nearest rows; k by leave-one-out."""
    most = min(max(VOTERS), len(task.X) - 1)
    own = task.y[nearest(task.X, most)[1]]
    near = task.y[nearest(task.X, most, queries=task.Q)[1]]
    classes = int(task.y.max()) + 1

    def votes(labels: NDArray[Any], k: int) -> Any:
        rank = np.tile(-np.arange(most, dtype=np.float32), (len(labels), 1))
        return Vote("top", float(k)).tally(rank, labels, classes)

    k = max(VOTERS, key=lambda k: methods.score(votes(own, k), task.y)["top1"])
    return methods.score(votes(near, k), task.truth)["top1"]


def lmnn(task: tasks.Task) -> float:
    """The same in the space that LMNN learned."""
    model = LMNN(max_iter=100).fit(task.X, task.y)
    moved = tasks.Task("lmnn", model.transform(task.X), task.y, model.transform(task.Q), task.truth,
                      task.variances)  # fmt: skip
    return euclidean(moved)


def slne(task: tasks.Task, k: int = NEIGHBORS, vote: Vote = methods.PAPER_VOTE) -> float:
    """SL-NE at the paper's settings, with the paper's vote."""
    k = min(k, len(task.X) - 1)
    X, Q = task.searched
    own, near = nearest(X, k)[1], nearest(X, k, queries=Q)[1]
    settings = published.PaperSettings(k, task.X.shape[1], 0, 0)
    model = methods.slne(settings).fit(task.X, task.y, neighbors=own)
    scores = model.neighbor_scores(task.Q, task.X, near)
    return methods.score(methods.tally(task, near, scores, vote), task.truth)["top1"]


def _behind(spread: dict[str, Any]) -> str:
    """Where SL-NE at own settings is behind, with the standard error over the splits."""
    gains = {division: found["paired"] for division, found in spread.items()}
    behind = ", ".join(f"{d} {gain:+.2f} ± {e:.2f}" for d, (gain, e) in gains.items() if gain <= 0)
    return behind and f"Behind, with the standard error over the splits: {behind}."


def claims(spread: dict[str, Any]) -> list[Claim]:
    """SL-NE against LMNN, where classes are alike and where not."""
    made = []
    kinds = ("paper's settings", "", VOTE_WHY), ("own settings", ", own best", _behind(spread))
    for kind, suffix, why in kinds:
        gains = {
            d: found[f"SL-NE{suffix}"][0] - found[f"LMNN{suffix}"][0] for d, found in spread.items()
        }
        shown = ", ".join(f"{d} {gain:+.2f}" for d, gain in gains.items())
        text = f"SL-NE above LMNN in every division ({kind})"
        holds = all(gain > 0 for gain in gains.values())
        made.append(Claim(text, holds, f"difference: {shown}", why))
    return made
