"""Kinds of random projections beside each other, on held-out training images of Caltech-101.

Command: ``python benchmarks/random_projections.py --data DIR --folder RUN``, where RUN is the run
folder of ``nearkin reproduce`` (it holds the features); about half an hour of one core. The two
panels of Figure 4, with a fifth of the training images of split 0 held out to judge on: what is
drawn there is chosen here, never on test images.

Mean of the per-class accuracies in % on the held-out images; mean and standard deviation over the
seeds that the projections are drawn with. Last, one similarity in the whole space.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.base import clone

import machine
from nearkin import SLDE, RunFolder
from nearkin.learning.holdout import held_out
from nearkin.native.listed_scores import pair_scores
from nearkin.neighbors import nearest
from nearkin.reproduction import figure4, methods
from nearkin.reproduction.setup import Setup

KINDS = ("random", "orthonormal", "sparse")
SIZES = ((300, 20), (1_000, 10))  # d and members, as in the paper's claims


def held_out_task(task, fold):
    """The training rows as a task of their own."""
    held = held_out(task.y, 0.2, np.random.default_rng([0, fold]))
    spaces = None if task.retrieval is None else (task.retrieval[0][~held], task.retrieval[0][held])
    return replace(task, key=f"{task.key}-held", X=task.X[~held], y=task.y[~held],
                   Q=task.X[held], truth=task.y[held], retrieval=spaces)  # fmt: skip


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
        shown = figure4.panels(Setup(arguments.data, folder, jobs=1))
    for rule in arguments.rules:
        panel = shown[rule]
        panel = replace(panel, task=held_out_task(panel.task, 0))
        compare(rule, panel, range(1, 1 + arguments.seeds), arguments.kinds)
