"""Polyak averaging: the mean of the iterates of Algorithm 1, later ones weighted more.

Steps of constant sign leave M noisy around the optimum, and more epochs fit that noise. The mean of
the iterates has less of it. Weights grow like t^η (polynomial-decay averaging, Shamir and Zhang
2013), so that the identity at the start is soon forgotten.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

DECAY = 3.0  # η
# Iterates an epoch, if there are blocks enough; shorter superblocks would cost speed.
ITERATES_AN_EPOCH, MIN_BLOCKS = 12, 4


@dataclass
class IterateMean:
    """The weighted mean of the matrices seen so far.

    Examples
    --------
    >>> mean = IterateMean()
    >>> for value in (1.0, 2.0):
    ...     mean.add(np.full((1, 1), value, np.float32))
    >>> round(float(mean.matrix[0, 0]), 3)  # weights 1 and 4 of 5
    1.8
    """

    matrix: Array | None = None
    count: int = 0

    def add(self, iterate: Array) -> None:
        """Take in one more iterate."""
        self.count += 1
        if self.matrix is None:
            self.matrix = iterate.copy()
            return
        weight = np.float32((DECAY + 1) / (self.count + DECAY))
        self.matrix *= 1 - weight
        self.matrix += weight * iterate
