"""Figure 4: accuracy of SL-DE against the size of the ensemble and the projected dimension.

Command: ``nearkin reproduce figure4 --data DIR --folder RUN``; about five minutes on two cores once
the features are there.

The paper: accuracy grows with the ensemble to a bound that the dimension sets; ten members in
1,000 dimensions do almost as well as one similarity in 3,000; twenty members work in much lower
dimension without loss. Here on half-whitened rows, 400 neighbours, 10 epochs, votes =
similarity⁴, random projections to 20 … 1,000 dimensions, with the paper's rule ``hardest`` and
with ``softmax``, members learned apart. Beyond the paper, in a note: as many
members of the second largest dimension, coupled, in PCA blocks that overlap, with the rule that
`SLNE` takes where columns outnumber rows.
"""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from nearkin.reproduction import methods, published, tasks
from nearkin.reproduction.results import Claim, Result, axes_of
from nearkin.reproduction.setup import Setup
from nearkin.slde import SLDE
from nearkin.slne import SLNE
from nearkin.voting.votes import Vote

TITLE = "Figure 4: ensemble size and projected dimension"
VOTE = Vote("power", 4.0)
LEARNERS: dict[str, dict[str, Any]] = {
    "hardest": {"sampling": "hardest", "n_neighbors": 400, "max_epochs": 10},
    "softmax": {"sampling": "softmax", "n_neighbors": 400, "max_epochs": 2, "step_size": 0.5},
}
COUPLED: dict[str, Any] = {"sampling": "all", "n_neighbors": 400, "max_epochs": 3}
ALMOST, NO_LOSS = 1.0, 0.5  # points


def run(setup: Setup) -> Result:
    """Both rules: the single similarity, then ensembles of every dimension."""
    task = tasks.task(setup, "Caltech-101").whitened(0.5)
    D = task.X.shape[1]
    dims = [d for d in published.FIGURE4_DIMS if d < D]
    if len(dims) < 2:  # a very small set
        dims = [max(1, D // 4), max(2, D // 2)]
    members = 6 if setup.quick else published.FIGURE4_MEMBERS
    found: dict[str, Any] = {}
    for rule, settings in LEARNERS.items():
        learner = SLNE.paper(tol=0, random_state=0, **settings)
        single = setup.value(
            f"figure4-{rule}-single",
            {"rows": task.digest, **settings},
            partial(alone, setup, task, learner),
        )
        curves = {
            str(d): setup.value(
                f"figure4-{rule}-{d}",
                {"rows": task.digest, **settings, "members": members},
                partial(curve, setup, task, learner, d, members),
            )
            for d in dims
        }
        found[rule] = {"single": single, "curves": curves}
        setup.log(f"{rule}: single {single:.2f}; {members} members " + ", ".join(
            f"{d}-d {c[-1]:.2f}" for d, c in curves.items()))  # fmt: skip
    found["coupled"] = setup.value(
        "figure4-coupled",
        {"rows": task.digest, **COUPLED, "members": members, "dims": dims[-2]},
        partial(coupled, setup, task, dims[-2], members),
    )
    made = [claim for rule in LEARNERS for claim in claims(rule, found[rule], members, D)]
    notes = [f"Mean of the per-class accuracies in %; {D:,}-d half-whitened rows. The paper prints "
             "curves, not figures."]  # fmt: skip
    notes.append(beyond(found["coupled"], members, dims[-2]))
    numbers = found | {"members": members}
    return Result("figure4", TITLE, claims=made, numbers=numbers, notes=notes)


def alone(setup: Setup, task: tasks.Task, learner: SLNE) -> float:
    """Accuracy of the similarity that is learned in the whole space."""
    return methods.learned(setup, task, learner, VOTE)["top1"]


def curve(setup: Setup, task: tasks.Task, learner: SLNE, d: int, members: int) -> list[float]:
    """Accuracy of the first 1, 2, … members together."""
    own, near = task.lists(setup, learner.n_neighbors)
    member = clone(learner).set_params(random_state=None)
    model = SLDE(member, projection="random", n_members=members, n_components=d, coupling="none",
                 n_jobs=setup.jobs, random_state=0)  # fmt: skip
    model.fit(task.X, task.y, neighbors=own)
    total, accuracies = np.zeros(near.shape, np.float32), []
    for scores in methods.member_scores(model, task.X, task.Q, near):
        total += scores
        votes = methods.tally(task, near, total, VOTE)
        accuracies.append(methods.score(votes, task.truth)["top1"])
    return accuracies


def coupled(setup: Setup, task: tasks.Task, d: int, members: int) -> dict[str, float]:
    """Accuracy of members that know each other, in PCA blocks, and of the single similarity."""
    single = SLNE(prepare=None, tol=0, random_state=0, **COUPLED)
    ensemble = SLDE(clone(single), n_members=members, n_components=d, coupling="start",
                    n_jobs=setup.jobs, random_state=0)  # fmt: skip
    models = {"single": single, "ensemble": ensemble}
    return {name: methods.learned(setup, task, one, VOTE)["top1"] for name, one in models.items()}


def beyond(found: dict[str, float], members: int, d: int) -> str:
    """What coupled members reach, in a sentence."""
    return (
        f"Beyond the paper: {members} coupled members of {d}-d in PCA blocks, rule "
        f"{COUPLED['sampling']}, reach {found['ensemble']:.2f}; the single similarity with that "
        f"rule {found['single']:.2f}."
    )


def claims(rule: str, found: dict[str, Any], members: int, D: int) -> list[Claim]:
    """The paper's statements, for one rule."""
    single, curves = found["single"], found["curves"]
    largest, lower = list(curves)[-1], list(curves)[-2]
    ten = curves[largest][min(10, members) - 1]
    many = curves[lower][-1]
    growth = {d: c[-1] - c[0] for d, c in curves.items()}
    return [
        Claim(
            f"Accuracy grows with the ensemble ({rule})",
            all(gain > 0 for gain in growth.values()),
            ", ".join(f"{d}-d {gain:+.2f}" for d, gain in growth.items()),
        ),
        Claim(
            f"{min(10, members)} members of {largest}-d are within {ALMOST:g} point of the single "
            f"similarity in {D:,}-d ({rule})",
            ten > single - ALMOST,
            f"{ten:.2f} against {single:.2f}",
        ),
        Claim(
            f"{members} members work in {lower}-d without loss ({rule})",
            many > single - NO_LOSS,
            f"{many:.2f} against {single:.2f}",
        ),
    ]


def plots(result: Result) -> dict[str, Any]:
    """Two panels a rule, as in the paper."""
    made, members = {}, result.numbers["members"]
    for rule in LEARNERS:
        found = result.numbers[rule]
        plot, (left, right) = axes_of(5.2, 3.8, columns=2)
        for d, values in found["curves"].items():
            left.plot(range(1, members + 1), values, label=f"d = {d}")
        left.xaxis.get_major_locator().set_params(integer=True)
        left.set(xlabel="ensemble size", ylabel="test accuracy %", title=f"rule {rule}")
        dims = [int(d) for d in found["curves"]]
        for n, style in ((1, "o--"), (members, "s-")):
            values = [c[n - 1] for c in found["curves"].values()]
            right.plot(dims, values, style, label=f"{n} member{'s' * (n > 1)}")
        right.set(xlabel="projected dimension d", xscale="log")
        right.set_xticks(dims, [f"{d:,}" for d in dims])
        right.minorticks_off()
        for axes in (left, right):
            axes.axhline(found["single"], color="black", lw=1, ls=":", label="single SL-NE")
            axes.legend(fontsize=8)
        made[f"figure4-{rule}"] = plot
    return made
