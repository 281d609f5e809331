"""A block: rows that take their steps one after the other between two matrix products."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into

# Measured (benchmarks/learner.py): larger blocks amortise the traffic over M, but need more
# products of rows with each other.
BLOCK = 256
# Larger sub-blocks amortise the entry into compiled code, but need more corrections per row.
SUB_BLOCK = 64
# Share of rows with a step, above which they are not copied out for the update of M.
DENSE = 0.8

Array = NDArray[np.float32]


class Block:
    """Rows of a block, what their steps need, and the steps themselves.

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
        self.G = np.empty((len(XB), len(XB)), np.float32)

    def __len__(self) -> int:
        return len(self.XB)

    def fill_products(self, M: Array) -> None:
        """Compute Q, and of G the products of each row with the rows before it."""
        multiply_into(self.Q, self.XB, M)
        for lo, hi in self.sub_blocks:
            multiply_into(self.G[lo:hi, :hi], self.XB[lo:hi], self.XB[:hi], right_transposed=True)

    @property
    def sub_blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of rows that get the corrections of all earlier ones in one product."""
        for lo in range(0, len(self), SUB_BLOCK):
            yield lo, min(lo + SUB_BLOCK, len(self))

    def apply_corrections(self, lo: int, hi: int, symmetric: bool) -> None:
        """Add the steps before `lo` to ``Q[lo:hi]``: ``w_a (x_b·x_a) v_a`` each."""
        if lo == 0:
            return
        Q, V, w = self.Q[lo:hi], self.V[:lo], self.w[:lo]
        multiply_into(Q, self.G[lo:hi, :lo] * w, V, scale=0.5 if symmetric else 1.0, keep=1)
        if symmetric:
            along_v = np.empty((hi - lo, lo), np.float32)
            multiply_into(along_v, self.XB[lo:hi], V, right_transposed=True)
            multiply_into(Q, along_v * w, self.XB[:lo], scale=0.5, keep=1)

    def truncate(self, n: int) -> None:
        """Drop all but the first `n` rows."""
        self.XB, self.V, self.w = self.XB[:n], self.V[:n], self.w[:n]

    def steps_taken(self) -> tuple[Array, Array]:
        """Rows that took a step, times its weight, and the directions of these steps."""
        stepped = self.w != 0
        took: Any = stepped if stepped.mean() < DENSE else slice(None)
        return self.XB[took] * self.w[took, None], self.V[took]
