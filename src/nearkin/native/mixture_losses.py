"""Mean log losses of many votes, each at several smoothings."""

from collections.abc import Sequence
from functools import partial
from math import log

import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import in_threads
from nearkin.native.vectors import jit, read_only

FACTORS = 16  # whose product has one logarithm: no product of likelihoods over 1e-19 underflows


def mean_losses(
    likelihoods: NDArray[np.float32], smoothing: Sequence[float], n_classes: int
) -> NDArray[np.float64]:
    """Mean of ``−log((1 − s)·p + s / n_classes)`` of each row, for each smoothing s.

    Parameters
    ----------
    likelihoods : (m, n) array
        Probabilities p of the true classes of n queries, by m votes.
    smoothing : (S,) sequence
        Above 0.

    Returns
    -------
    (S, m) array
    """
    kept = np.array([1 - s for s in smoothing])
    floor = np.array([s / n_classes for s in smoothing])
    out = np.empty((len(smoothing), len(likelihoods)))
    in_threads(partial(_mean_losses, read_only(likelihoods), kept, floor, out), len(likelihoods))
    return out


@jit
def _mean_losses(likelihoods, kept, floor, out, lo, hi):  # type: ignore[no-untyped-def]
    n = likelihoods.shape[1]
    for i in range(lo, hi):
        row = likelihoods[i]
        for s in range(len(kept)):
            total = 0.0
            for first in range(0, n - FACTORS + 1, FACTORS):
                product = 1.0
                for q in range(first, first + FACTORS):
                    product *= kept[s] * row[q] + floor[s]
                total -= log(product)
            for q in range(n - n % FACTORS, n):
                total -= log(kept[s] * row[q] + floor[s])
            out[s, i] = total / n
