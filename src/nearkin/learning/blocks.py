"""A block: rows that take their steps one after the other between two matrix products."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into

# Measured (benchmarks/learner.py): larger blocks spread the traffic over M, against more products
# of rows with each other.
BLOCK = 256
# Larger strides spread the cost of entering compiled code, against more corrections per row.
STRIDE = 64
MOST = 0.8  # of a block's rows; where fewer took a step, copying these out is worth it

Array = NDArray[np.float32]


class Block:
    """Rows, what their steps need and what they leave behind.

    Attributes
    ----------
    XB : the rows' vectors; rows, steps, draws : their numbers, step sizes and random numbers
    Q : XB·M; G : XB·XBᵀ, up to its diagonal
    V, w : directions and weights of the steps, ``M += Σ_b w_b x_b v_bᵀ``
    """

    def __init__(
        self, XB: Array, rows: NDArray[np.int64], steps: Array, draws: NDArray[np.float64]
    ) -> None:
        self.XB, self.rows, self.steps, self.draws = XB, rows, steps, draws
        self.Q, self.V = np.empty_like(XB), np.empty_like(XB)
        self.w = np.zeros(len(XB), np.float32)
        self.G = np.empty((0, 0), np.float32)

    def __len__(self) -> int:
        return len(self.XB)

    def fill_products(self) -> None:
        """Fill what exact steps need of G: the products of each row with those before it."""
        self.G = np.empty((len(self), len(self)), np.float32)
        for lo, hi in self.strides:
            multiply_into(self.G[lo:hi, :hi], self.XB[lo:hi], self.XB[:hi], right_transposed=True)

    @property
    def strides(self) -> Iterator[tuple[int, int]]:
        """Rows that catch up with those before them at once."""
        for lo in range(0, len(self), STRIDE):
            yield lo, min(lo + STRIDE, len(self))

    def catch_up(self, lo: int, hi: int, symmetric: bool) -> None:
        """Add to ``Q[lo:hi]`` what the steps before `lo` changed: ``w_a (x_b·x_a) v_a`` each."""
        if lo == 0:
            return
        Q, V, w = self.Q[lo:hi], self.V[:lo], self.w[:lo]
        multiply_into(Q, self.G[lo:hi, :lo] * w, V, scale=0.5 if symmetric else 1.0, keep=1)
        if symmetric:
            along_v = np.empty((hi - lo, lo), np.float32)
            multiply_into(along_v, self.XB[lo:hi], V, right_transposed=True)
            multiply_into(Q, along_v * w, self.XB[:lo], scale=0.5, keep=1)

    def cut(self, n: int) -> None:
        """Forget all but the first `n` rows."""
        self.XB, self.V, self.w = self.XB[:n], self.V[:n], self.w[:n]

    def stepped(self) -> tuple[Array, Array]:
        """The rows that took a step, times its weight, and its directions."""
        stepped = self.w != 0
        took: Any = stepped if stepped.mean() < MOST else slice(None)
        return self.XB[took] * self.w[took, None], self.V[took]
