"""Kinds of random projections beside each other, on held-out training images of Caltech-101.

Command: ``python benchmarks/random_projections.py --data DIR --folder RUN``, where RUN is the run
folder of ``nearkin reproduce`` (it holds the features); about half an hour of one core. The two
panels of Figure 4, with a fifth of the training images of split 0 held out to judge on: what is
drawn there is chosen here, never on test images.

Mean of the per-class accuracies in % on the held-out images; mean and standard deviation over the
seeds that the projections are drawn with. Last, one similarity in the whole space.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.base import clone

import machine
from nearkin import SLDE, RunFolder
from nearkin.learning.holdout import held_out
from nearkin.native.listed_scores import pair_scores
from nearkin.neighbors import nearest
from nearkin.reproduction import figure4, methods, tasks
from nearkin.reproduction.setup import Setup

KINDS = ("random", "orthonormal", "sparse")
DIRECTIONS = 0.98  # of the training images: the paper's 3,000 of 3,060
SIZES = ((300, 20), (1_000, 10))  # d and members, as in the paper's claims


def held_out_task(setup, fold):
    """Split 0 without its test images: a fifth of the training images to judge on.

    The spaces are fitted without these, too: whitened among the rows that it was fitted on, a row
    is not like a new one.
    """
    images = tasks.image_set(setup, "Caltech-101")
    rows, y = np.flatnonzero(images.training(0)), images.labels
    held = held_out(y[rows], 0.2, np.random.default_rng([0, fold]))
    learn, judged = rows[~held], rows[held]
    features = tasks.features(setup, images)
    dims = int(DIRECTIONS * len(learn))
    made, parts = {}, (features[learn], features[judged])
    for name, space in tasks._spaces(dims).items():
        space.fit(parts[0])
        made[name] = [space.transform(part) for part in parts]
        made[f"{name} variances"] = space.variances_
    X, Q = made["rows"]
    return tasks.Task("held-out", X, y[learn], Q, y[judged], made["rows variances"],
                      tuple(made["retrieval"]))  # fmt: skip


def judge(panel, model, lists):
    """Accuracy on the held-out images, in %."""
    task, (own, near) = panel.task, lists
    model.fit(task.X, task.y, neighbors=own)
    scores = pair_scores(task.Q @ model.matrix_, task.X, near)
    return methods.score(methods.tally(task, near, scores, panel.vote), task.truth)["top1"]


def ensemble(panel, kind, d, members, seed):
    member = clone(panel.learner).set_params(random_state=None)
    return SLDE(member, projection=kind, n_members=members, n_components=d, coupling="none",
                random_state=seed)  # fmt: skip


def compare(rule, panel, seeds, kinds):
    """Print a line for each size and kind."""
    k = panel.learner.n_neighbors
    X, Q = panel.task.searched
    lists = nearest(X, k)[1], nearest(X, k, queries=Q)[1]
    for d, members in SIZES:
        for kind in kinds:
            found = [judge(panel, ensemble(panel, kind, d, members, s), lists) for s in seeds]
            print(f"| {rule} | {members} × {d}-d | {kind} | {np.mean(found):.2f} ± "
                  f"{np.std(found, ddof=1):.2f} | {' '.join(f'{a:.2f}' for a in found)}",
                  flush=True)  # fmt: skip
    one = judge(panel, clone(panel.learner), lists)
    print(f"| {rule} | one matrix | | {one:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("runs/paper"))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--rules", nargs="*", default=["hardest", "softmax"])
    arguments = parser.parse_args()
    print(machine.facts(), flush=True)
    folder = RunFolder(arguments.folder)
    with folder.claim("reproduce"):
        folder.begin({"quick": False})
        setup = Setup(arguments.data, folder, jobs=1)
        task = held_out_task(setup, 0)
    shown = figure4.panels(setup, task)
    for rule in arguments.rules:
        compare(rule, shown[rule], range(1, 1 + arguments.seeds), arguments.kinds)
