"""Stochastic gradient descent on a low-rank W, as Mensink et al. do it.

W starts from the principal directions, scaled to the least loss. Steps have a constant size and use
mini-batches; the only regularisation is the rank and early stopping. Step size, rank and number of
steps are selected on held-out rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.holdout import sample
from nearkin.preprocessing import pca
from nearkin.reproduction.baselines._early_stopping import Best, Quality
from nearkin.validation import expect
from nearkin.validation.parameters import Table

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

RANKS = (32, 128, 512)
GAINS = [2.0 ** (k / 2) for k in range(-4, 13)]
EVALUATE_EVERY = 25  # steps
START_ROWS = 20_000


@dataclass
class Problem:
    """The loss to minimise and the quality of a W on held-out rows."""

    learn: Labels  # rows to draw batches from
    batch_size: int
    loss: Callable[[Array, Labels], tuple[float, Array]]  # of W on a batch, with its gradient
    quality: Callable[[Array], Quality | None]  # of W on held-out rows
    seed: int


@dataclass
class Found:
    """The best W with its quality, rank, step size and number of steps."""

    W: Array
    quality: Quality
    rank: int
    step_size: float
    steps: int


# Of all estimators that learn W of low rank.
PARAMETERS: Table = {
    "rank": expect.either(expect.whole(1), expect.choice("auto")),
    "step_size": expect.either(expect.number(above=0), expect.choice("auto")),
    "batch_size": expect.whole(1),
    "max_iter": expect.whole(1),
    "random_state": expect.seed,
}


def principal_start(rows: Array, labels: Labels, rank: int, rng: np.random.Generator) -> Array:
    """The first principal directions, as rows of unit length."""
    some = rows[sample(labels, START_ROWS, rng)]
    n = min(rank, *some.shape)
    return pca.principal_directions(some, n, pca.mean(some), rng)[0]


def search(
    problem: Problem,
    start: Array,
    rank: int | str,
    step_size: float | str,
    steps: Sequence[float],
    most: int,
) -> Found:
    """Select the step size at the lowest rank, then the rank; return the best W."""
    ranks = sorted({min(r, len(start)) for r in RANKS}) if rank == "auto" else [len(start)]
    sizes = list(steps) if isinstance(step_size, str) else [step_size]
    tried = [descend(problem, start[: ranks[0]], size, most) for size in sizes]
    best = max(tried, key=lambda found: found.quality)
    for n in ranks[1:]:
        more = descend(problem, start[:n], best.step_size, most)
        best = max(best, more, key=lambda found: found.quality)
    return best


def descend(problem: Problem, start: Array, step_size: float, most: int) -> Found:
    """Constant steps until the quality on held-out rows stops improving."""
    rng = np.random.default_rng(problem.seed)
    size = min(problem.batch_size, len(problem.learn))

    def draw() -> Labels:
        return np.sort(rng.choice(problem.learn, size, replace=False))

    W = least_loss(problem, start, draw())
    best, done = Best(), 0
    while not best.offer(problem.quality(W), W.copy()) and done < most:
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(min(EVALUATE_EVERY, most - done)):
                W -= np.float32(step_size) * problem.loss(W, draw())[1]
                done += 1
        if not np.isfinite(W).all():  # diverged: the best W so far is returned
            break
    return Found(best.state, best.quality, len(W), float(step_size), done)


def least_loss(problem: Problem, start: Array, batch: Labels) -> Array:
    """The start, scaled to the least loss on a batch."""
    gains = [np.float32(g) for g in GAINS]
    return start * min(gains, key=lambda g: problem.loss(start * g, batch)[0])
