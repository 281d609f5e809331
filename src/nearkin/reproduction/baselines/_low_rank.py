"""Stochastic gradient descent on a low-rank W, as Mensink et al. do it.

W starts from the principal directions, at the length of least loss; steps are of one size and on
mini-batches; there is no regularisation but the rank and the time of stopping. The size of the
steps, the rank and when to stop are what classifies held-out rows best.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.holdout import sample
from nearkin.preprocessing import pca
from nearkin.reproduction.baselines._early_stopping import Best, Quality
from nearkin.validation.arrays import check_choice, check_number

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

RANKS = (32, 128, 512)
GAINS = [2.0 ** (k / 2) for k in range(-4, 13)]
BETWEEN = 25  # steps from one look at the held-out rows to the next
START_ROWS = 20_000


@dataclass
class Problem:
    """What is minimised, and how a W is judged."""

    learn: Labels  # rows to draw batches from
    batch_size: int
    loss: Callable[[Array, Labels], tuple[float, Array]]  # of W on a batch, with its gradient
    quality: Callable[[Array], Quality | None]  # of W on held-out rows
    seed: int


@dataclass
class Found:
    """The best W, how good it is and how it was reached."""

    W: Array
    quality: Quality
    rank: int
    step_size: float
    steps: int


def check_parameters(model: Any) -> None:
    """Refuse counts that are none, and a `rank` or `step_size` that is no number nor "auto"."""
    if isinstance(model.rank, str):
        check_choice("rank", model.rank, ["auto"])
    else:
        check_number("rank", model.rank, 1, whole=True)
    if isinstance(model.step_size, str):
        check_choice("step_size", model.step_size, ["auto"])
    else:
        check_number("step_size", model.step_size, 0, open_low=True)
    for name in ("batch_size", "max_iter"):
        check_number(name, getattr(model, name), 1, whole=True)


def principal_start(rows: Array, labels: Labels, rank: int, rng: np.random.Generator) -> Array:
    """The first principal directions, each of length one."""
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
    """Choose the size of the steps at the lowest rank, then the rank; keep the best W."""
    ranks = sorted({min(r, len(start)) for r in RANKS}) if rank == "auto" else [len(start)]
    sizes = list(steps) if isinstance(step_size, str) else [step_size]
    tried = [descend(problem, start[: ranks[0]], size, most) for size in sizes]
    best = max(tried, key=lambda found: found.quality)
    for n in ranks[1:]:
        more = descend(problem, start[:n], best.step_size, most)
        best = max(best, more, key=lambda found: found.quality)
    return best


def descend(problem: Problem, start: Array, step_size: float, most: int) -> Found:
    """Steps of one size until the held-out rows are no longer classified better."""
    rng = np.random.default_rng(problem.seed)
    size = min(problem.batch_size, len(problem.learn))

    def draw() -> Labels:
        return np.sort(rng.choice(problem.learn, size, replace=False))

    W = least_loss(problem, start, draw())
    best, done = Best(), 0
    while not best.offer(problem.quality(W), W.copy()) and done < most:
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(min(BETWEEN, most - done)):
                W -= np.float32(step_size) * problem.loss(W, draw())[1]
                done += 1
        if not np.isfinite(W).all():  # steps too large: what was best before stays
            break
    return Found(best.state, best.quality, len(W), float(step_size), done)


def least_loss(problem: Problem, start: Array, batch: Labels) -> Array:
    """The start, longer or shorter, as it fits a batch best."""
    gains = [np.float32(g) for g in GAINS]
    return start * min(gains, key=lambda g: problem.loss(start * g, batch)[0])
