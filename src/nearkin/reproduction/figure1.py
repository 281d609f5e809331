"""Figure 1: the four classes of Table 1 in the plane of LDA, with SL-NE's equal similarities.

Command: ``nearkin reproduce figure1 --data DIR --folder RUN``; seconds once the features are there.

The paper shows two clusters, birds and boats, in each of which two classes mix, and at the centre
of each cluster an ellipse of equal similarity, narrow in the direction that tells the two classes
apart. Here: linear discriminant analysis (with shrinkage, because there are more dimensions than
rows) on 30 training images a class, SL-NE learned in its plane, and at the centre c of each
cluster the ellipses (z−c)ᵀM(z−c) = r².
"""

from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from nearkin.learning.constraints import Constraint
from nearkin.reproduction import published, toy_task
from nearkin.reproduction.results import Claim, Result, axes_of
from nearkin.reproduction.setup import Setup
from nearkin.slne import SLNE

TITLE = "Figure 1: four classes in the plane of LDA"
COLOURS = dict(zip(published.TOY_CLASSES, ("#d6453d", "#f0a03c", "#2f6fb0", "#3aa6a0")))
CLUSTERS = {"birds": ("flamingo", "ibis"), "boats": ("ketch", "schooner")}


def run(setup: Setup) -> Result:
    """The plane, the rows in it, and M."""
    images, features = toy_task.toy(setup)
    names = published.DIVISIONS["all four"]
    task = toy_task.divided(images.folder.labels, features, names, 0)
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto", n_components=2)
    plane = lda.fit(task.X, task.y).transform(task.X).astype(np.float32)
    tested = lda.transform(task.Q).astype(np.float32)
    model = SLNE.paper(
        n_neighbors=toy_task.NEIGHBORS,
        tol=0,
        random_state=0,
        constraint=Constraint(psd=True, normalize=True),
    )
    model.fit(plane, task.y)
    classes = sorted(published.TOY_CLASSES)
    numbers: dict[str, Any] = {
        "matrix": model.matrix_.tolist(),
        "training": {c: plane[task.y == i].tolist() for i, c in enumerate(classes)},
        "test": {c: tested[task.truth == i].tolist() for i, c in enumerate(classes)},
    }
    return Result("figure1", TITLE, claims=claims(numbers), numbers=numbers, notes=[
        "Dots are training images, rings test images. SL-NE learned in the plane, M kept positive "
        "semidefinite and at its norm."])  # fmt: skip


def claims(numbers: dict[str, Any]) -> list[Claim]:
    """Whether M is steepest across the boundary within a cluster."""
    M, made = np.array(numbers["matrix"]), []
    for cluster, (one, other) in CLUSTERS.items():
        means = [np.mean(numbers["training"][c], axis=0) for c in (one, other)]
        across = means[1] - means[0]
        across /= np.linalg.norm(across)
        along = np.array([-across[1], across[0]])
        ratio = float(across @ M @ across) / max(float(along @ M @ along), 1e-9)
        made.append(
            Claim(
                f"Similarity falls faster from {one} to {other} than along their boundary",
                ratio > 1,
                f"{cluster}: {ratio:.2f} times as fast (squared)",
            )
        )
    return made


def plots(result: Result) -> dict[str, Any]:
    """The plane."""
    plot, (axes,) = axes_of(7.2, 5.4)
    for name, colour in COLOURS.items():
        for kind, style in (("training", {"s": 22}), ("test", {"s": 22, "facecolors": "none"})):
            points = np.array(result.numbers[kind][name])
            label = name if kind == "training" else None
            fill = {} if kind == "test" else {"color": colour}
            axes.scatter(*points.T, edgecolors=colour, lw=0.8, alpha=0.8, label=label,
                         **{**style, **fill})  # fmt: skip
    training = result.numbers["training"]
    spread = float(np.mean([np.std(points, axis=0) for points in training.values()]))
    for classes in CLUSTERS.values():
        centre = np.mean([p for c in classes for p in training[c]], axis=0)
        for radius in (0.75, 1.5):
            axes.plot(
                *ellipse(np.array(result.numbers["matrix"]), centre, radius * spread), "k-", lw=1
            )
    axes.set(xlabel="first direction of LDA", ylabel="second direction of LDA", aspect="equal")
    axes.legend()
    return {"figure1": plot}


def ellipse(M: Any, centre: Any, radius: float, points: int = 200) -> Any:
    """Points z with (z−c)ᵀM(z−c) = r²·√det M, so that the area does not depend on M's scale.

    Examples
    --------
    >>> x, y = ellipse(4 * np.eye(2), np.array([1.0, 0.0]), 2.0)
    >>> bool(np.allclose(np.hypot(x - 1, y), 2.0))
    True
    """
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    values = np.maximum(values, 1e-3 * values.max())  # a flat direction would go off the page
    values = values / np.sqrt(values.prod())
    angle = np.linspace(0, 2 * np.pi, points)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return centre[:, None] + radius * vectors @ (circle / np.sqrt(values)[:, None])
