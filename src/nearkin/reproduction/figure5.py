"""Figure 5: precision against recall of the most similar images.

Command: ``nearkin reproduce figure5 --data DIR --folder RUN``; about three minutes on two cores
once the features are there; Caltech-256 and SUN-397 where their folders are (see `layouts`).

The paper: SL-NE improves on Retrieval at every point of the curve on all three sets, and SL-DE is
very close to SL-NE on Caltech-256 and SUN. Here the shortlist of our Retrieval (see `tasks`; the
paper's is another system) is re-ranked by the learned similarities, at the paper's settings.
"""

from functools import partial
from typing import Any

import numpy as np

from nearkin.metrics import mean_average_precision, precision_recall_curve
from nearkin.native.listed_scores import pair_scores
from nearkin.reproduction import methods, published, tasks
from nearkin.reproduction.results import Claim, Result, axes_of
from nearkin.reproduction.setup import DataMissing, Setup

TITLE = "Figure 5: precision against recall"


def run(setup: Setup) -> Result:
    """Curves of Retrieval, SL-NE and SL-DE for every set that is there."""
    result = Result("figure5", TITLE, notes=[
        "The paper's settings; Retrieval is ours (square roots of LLC features, half whitened), "
        "because the paper's (Shen et al. 2012) has no public code. The shortlist is the same for "
        "all three, so the curves meet at its end."])  # fmt: skip
    for name in published.TABLE3:
        try:
            task = tasks.task(setup, name)
        except DataMissing as missing:
            result.not_run.append(str(missing))
            continue
        settings = methods.fitting(published.SETTINGS[name], task, setup.quick)
        found = methods.kept(
            setup, "figure5", task, settings, partial(curves, setup, task, settings)
        )
        result.numbers[name] = found
        result.claims += claims(name, found)
        setup.log(f"{name}: mean average precision " + ", ".join(
            f"{m} {c['map']:.2f}" for m, c in found.items()))  # fmt: skip
    return result


def curves(setup: Setup, task: tasks.Task, settings: published.PaperSettings) -> dict[str, Any]:
    """Precision and recall after each place of the re-ranked shortlists."""
    _, near = task.lists(setup, settings.neighbors)
    sizes = np.bincount(task.y, minlength=int(task.truth.max()) + 1)
    found = {}
    for name, learner in (
        ("Retrieval", None),
        ("SL-NE", methods.slne(settings)),
        ("SL-DE", methods.slde(settings, setup.jobs)),
    ):
        order: Any = np.arange(near.shape[1])[None]
        if learner is not None:
            M = methods.matrix(setup, task, learner)
            order = np.argsort(-pair_scores(task.Q @ M, task.X, near), axis=1, kind="stable")
        relevant = task.y[np.take_along_axis(np.asarray(near), order, 1)] == task.truth[:, None]
        precision, recall = precision_recall_curve(relevant, sizes[task.truth])
        found[name] = {
            "precision": precision.tolist(),
            "recall": recall.tolist(),
            "map": 100 * mean_average_precision(relevant, sizes[task.truth]),
        }
    return found


def claims(name: str, found: dict[str, Any]) -> list[Claim]:
    """SL-NE above Retrieval everywhere; SL-DE close to SL-NE."""
    plain, slne, slde = (np.array(found[m]["precision"]) for m in ("Retrieval", "SL-NE", "SL-DE"))
    # The last place holds the same images in whatever order.
    gain, gap = 100 * (slne - plain)[:-1], 100 * np.abs(slne - slde)
    return [
        Claim(
            f"SL-NE above Retrieval at every point of the curve ({name})",
            bool((gain > 0).all()),
            f"after 1 … {len(gain)} images: {gain.min():+.2f} to {gain.max():+.2f} points",
        ),
        Claim(
            f"SL-DE within 2 points of SL-NE at every point of the curve ({name})",
            bool((gap <= 2).all()),
            f"precision differs by at most {gap.max():.2f} points",
        ),
    ]


def plots(result: Result) -> dict[str, Any]:
    """A panel a set."""
    plot, panels = axes_of(5.4, 4.0, columns=max(1, len(result.numbers)))
    for axes, (name, found) in zip(panels, result.numbers.items()):
        for method, curve in found.items():
            axes.plot(curve["recall"], curve["precision"], label=method)
        axes.set(xlabel="recall", ylabel="precision", title=name)
        axes.legend()
    return {"figure5": plot} if result.numbers else {}
