"""Averaged stochastic gradient descent on one-versus-all hinge losses (after Bottou).

For every class c, with t = +1 on its own rows and −1 on the others, a step on row x is

    w ← (1 - ηλ) w + η t x [t w·x < 1],        η = η0 / (1 + λ η0 step)^¾,

and the result is the mean of w after the first pass. All classes take their steps together, a
block of rows at a time: ``S = X_B W`` and ``G = X_B X_Bᵀ`` are products, the steps within the block
then need nothing but numbers from them, and ``W ← W + X_Bᵀ·coefficients`` is a product again. The
steps are those of one row after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.threads import in_threads
from nearkin.native.vectors import jit

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

BLOCK = 128
POWER = 0.75
STEPS = [2.0**k for k in range(-6, 5)]  # for rows of length one
STEP_ROWS = 1_000


@jit
def _walk(S, G, own, eta, scales, coefficients, lo, hi):  # type: ignore[no-untyped-def]
    """Take the steps of a block for classes ``lo:hi``; W is ``scales[b]`` times what S knows."""
    for b in range(len(S)):
        for a in range(b):
            for c in range(lo, hi):
                S[b, c] += G[b, a] * coefficients[a, c]
        step = eta[b] / scales[b + 1]
        for c in range(lo, hi):
            sign = np.float32(1) if own[b] == c else np.float32(-1)
            inside = sign * scales[b] * S[b, c] < 1
            coefficients[b, c] = step * sign if inside else np.float32(0)


@dataclass
class Descent:
    """W, a (D+1, classes) array whose last row is the bias, and the sum of W over steps."""

    weights: Array
    total: NDArray[np.float64]
    regularization: float  # λ
    step_size: float  # η0
    steps: int = 0
    averaged: int = 0

    @classmethod
    def start(cls, shape: tuple[int, int], regularization: float, step_size: float) -> "Descent":
        """W = 0."""
        return cls(np.zeros(shape, np.float32), np.zeros(shape), regularization, step_size)

    def visit(self, rows: Array, own: Labels, average: bool) -> None:
        """Steps on the rows of one block; `own` says which class each is of."""
        first = self.steps + np.arange(len(rows))
        most = 0.5 / self.regularization  # beyond, a step would turn w around
        eta = (
            min(self.step_size, most) / (1 + self.regularization * self.step_size * first) ** POWER
        )
        scales = np.cumprod(np.concatenate([[1.0], 1 - eta * self.regularization]))
        S, G = np.empty((len(rows), self.weights.shape[1]), np.float32), _square(len(rows))
        multiply_into(S, rows, self.weights)
        multiply_into(G, rows, rows, right_transposed=True)
        coefficients = np.empty_like(S)
        single = S.shape[1] == 1  # two classes: the second against the first
        walk = partial(_walk, S, G, own - 1 if single else own, eta.astype(np.float32),
                       scales.astype(np.float32), coefficients)  # fmt: skip
        in_threads(walk, S.shape[1])
        if average:
            tails = np.cumsum(scales[:0:-1])[::-1]  # how long each row's coefficients count
            self.total += tails[0] * self.weights
            step = np.empty_like(self.weights)
            lasting = coefficients * tails[:, None].astype(np.float32)
            multiply_into(step, rows, lasting, left_transposed=True)
            self.total += step
            self.averaged += len(rows)
        last = float(scales[-1])
        multiply_into(self.weights, rows, coefficients, scale=last, keep=last, left_transposed=True)
        self.steps += len(rows)

    @property
    def result(self) -> Array:
        """The mean of W over the averaged steps, or W where there are none."""
        if not self.averaged:
            return self.weights
        return (self.total / self.averaged).astype(np.float32)


def learn(
    X: Array, own: Labels, n_classes: int, scale: float, C: float, epochs: int, seed: int
) -> Array:
    """W for rows ``X·scale`` with a one appended; memory: W three times and a block of rows."""
    shape = X.shape[1] + 1, 1 if n_classes == 2 else n_classes
    regularization = 1 / (C * len(X))
    rng = np.random.default_rng(seed)
    with serial_blas():
        trial = np.sort(rng.choice(len(X), min(STEP_ROWS, len(X)), replace=False))
        step_size = best_step(X, own, trial, shape, scale, regularization)
        descent = Descent.start(shape, regularization, step_size)
        for epoch in range(epochs):
            order = rng.permutation(len(X))
            for rows, labels in _blocks(X, own, order, scale):
                descent.visit(rows, labels, average=epoch > 0 or epochs == 1)
    return descent.result


def best_step(
    X: Array, own: Labels, trial: Labels, shape: tuple[int, int], scale: float, weight: float
) -> float:
    """The η0 whose single pass over the `trial` rows leaves the lowest cost, as Bottou picks it."""

    def cost(step_size: float) -> float:
        descent, total = Descent.start(shape, weight, step_size), 0.0
        for rows, labels in _blocks(X, own, trial, scale):
            descent.visit(rows, labels, average=False)
        for rows, labels in _blocks(X, own, trial, scale):
            total += hinge(rows @ descent.weights, labels)
        return total / len(trial) + weight / 2 * float(np.square(descent.weights).sum())

    return min(STEPS, key=cost)


def hinge(scores: Array, own: Labels) -> float:
    """One-versus-all hinge losses, summed over rows and classes."""
    if scores.shape[1] == 1:
        signs = np.where(own == 1, 1, -1)[:, None]
    else:
        signs = np.where(own[:, None] == np.arange(scores.shape[1]), 1, -1)
    return float(np.maximum(0, 1 - signs * scores).sum(dtype=np.float64))


def _blocks(X: Array, own: Labels, order: Labels, scale: float) -> Iterator[tuple[Array, Labels]]:
    for lo in range(0, len(order), BLOCK):
        part = order[lo : lo + BLOCK]
        rows = np.ones((len(part), X.shape[1] + 1), np.float32)
        np.multiply(X[part], np.float32(scale), out=rows[:, :-1])
        yield rows, own[part]


def _square(n: int) -> Array:
    return np.empty((n, n), np.float32)
