"""A block: rows that take their steps one after the other between two matrix products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin._blas import multiply_into

# Measured (benchmarks/learner.py): larger blocks spread the traffic over M, against more products
# of rows with each other.
BLOCK = 256
MOST = 0.8  # of a block's rows; where fewer took a step, copying these out is worth it

Array = NDArray[np.float32]


class Block:
    """Rows, what their steps need and what they leave behind.

    Attributes
    ----------
    XB : the rows' vectors; rows, steps, draws : their numbers, step sizes and random numbers
    Q : XB·M; G : XB·XBᵀ
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
        """Fill G, which exact steps need."""
        self.G = np.empty((len(self), len(self)), np.float32)
        self.products_with(self, self.G)

    def products_with(self, other: "Block", out: Array) -> None:
        """Fill `out` with the products of the rows with those of another block."""
        multiply_into(out, self.XB, other.XB, right_transposed=True, panel=BLOCK // 2)

    @property
    def took(self) -> Any:
        """Which rows took a step; all, where few did not."""
        stepped = self.w != 0
        return stepped if stepped.mean() < MOST else slice(None)

    def stepped(self) -> tuple[Array, Array]:
        """The rows that took a step, times its weight, and its directions."""
        took = self.took
        return self.XB[took] * self.w[took, None], self.V[took]

    def add_steps(self, coming: "Block", across: Array) -> None:
        """Let a later block, whose products with this one are `across`, know of the steps here."""
        took = self.took
        weights = np.ascontiguousarray(across[:, took] * self.w[took])
        multiply_into(coming.Q, weights, self.V[took], keep=1)
