"""Figure 3: the training images most similar to a test image, before and after learning.

Command: ``nearkin reproduce figure3 --data DIR --folder RUN``; a minute on two cores once the
features are there (SL-NE at the paper's settings, shared with Table 3 and Figure 5).

The paper shows four test images; those found by SL-NE are more alike in meaning and more often of
the same class than those of Retrieval. Here the four test images that gained most and the two
that lost most, and over all test images how many of the first eight are of the same class. The
plain strip is what our Retrieval finds (see `tasks`); the paper's is another system.
"""

from typing import Any

import numpy as np

from nearkin.app import strips
from nearkin.native.listed_scores import pair_scores
from nearkin.reproduction import methods, published, tasks
from nearkin.reproduction.results import Claim, Result
from nearkin.reproduction.setup import Setup

TITLE = "Figure 3: most similar images, plain and learned"
SHOWN, GAINED, LOST = 8, 4, 2


def run(setup: Setup) -> Result:
    """The first images of both lists, for all test images and for a few to look at."""
    images = tasks.image_set(setup, "Caltech-101")
    task = tasks.task(setup, "Caltech-101")
    learner = methods.slne(published.SETTINGS["Caltech-101"])
    M = methods.matrix(setup, task, learner)
    _, near = task.lists(setup, learner.n_neighbors)
    order = np.argsort(-pair_scores(task.Q @ M, task.X, near), axis=1, kind="stable")
    lists = {
        "plain": np.asarray(near[:, :SHOWN]),
        "learned": np.take_along_axis(np.asarray(near), order, 1)[:, :SHOWN],
    }
    right = {name: task.y[found] == task.truth[:, None] for name, found in lists.items()}
    gained = strips.most_changed(right["plain"], right["learned"], GAINED)
    lost = strips.most_changed(right["plain"], right["learned"], -LOST)
    mask = images.training(0)
    shares = {name: 100 * float(hits.mean()) for name, hits in right.items()}
    shown = [
        {"query": _image(images, ~mask, q)}
        | {name: [_image(images, mask, j) for j in found[q]] for name, found in lists.items()}
        for q in [*gained.tolist(), *lost.tolist()]
    ]
    numbers = {"same class among the first eight, %": shares, "shown": shown, "gained": len(gained)}
    claim = Claim(
        "Images found by SL-NE are more often of the query's class",
        shares["learned"] > shares["plain"],
        f"of the first {SHOWN}: {shares['learned']:.2f} % against {shares['plain']:.2f} % by "
        "Retrieval",
    )
    return Result("figure3", TITLE, claims=[claim], numbers=numbers, notes=[
        "The paper's settings, 50 neighbours; the plain strip is our Retrieval, not the paper's. "
        "Green: the same class as the query; red: another one. The last strips are "
        "those that lost most."])  # fmt: skip


def _image(images: Any, mask: Any, row: int) -> list[str]:
    place = int(np.flatnonzero(mask)[row])
    return [images.folder.paths[place], str(images.folder.labels[place])]


def page(result: Result) -> str:
    """The strips, as HTML."""
    return "".join(
        strips.strip_html(
            strips.Picture(*entry["query"]),
            {kind: [strips.Picture(*hit) for hit in entry[kind]] for kind in ("plain", "learned")},
        )
        for entry in result.numbers["shown"]
    )
