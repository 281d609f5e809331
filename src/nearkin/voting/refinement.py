"""Class means refined by logistic regression, which tells classes apart that the means confuse.

The score of class c becomes ``s(x, m_c) + x·δ_c``. The offsets δ minimise the log loss of
``softmax(score / T)`` on the stored rows plus a penalty on their size, from zero: where rows leave
nothing to tell apart, the means stay what they are.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from nearkin.native.blas import serial_blas

Array = NDArray[np.float32]

# The inverse of the penalty, as scikit-learn's C for rows of unit length, and steps of L-BFGS.
# Held-out rows of Banking77 and network embeddings: C from 10 to 100 differ little.
INVERSE_PENALTY, STEPS = 20.0, 15
# rows × columns × classes, rows × classes and columns × classes beyond which nothing is refined:
# a minute, and what the bytes say (scores; L-BFGS in float64).
MAX_PRODUCTS, MAX_SCORES, MAX_OFFSETS = 2e11, 2e7, 1e6
MOST_BYTES = int(4 * MAX_SCORES + 160 * MAX_OFFSETS)
BLOCK = 4_096


def refinable(n: int, columns: int, n_classes: int) -> bool:
    """Whether so many rows and classes are refined within a minute and `MOST_BYTES`."""
    small = n * n_classes <= MAX_SCORES and columns * n_classes <= MAX_OFFSETS
    return small and n * columns * n_classes <= MAX_PRODUCTS


def class_offsets(
    rows: Array, labels: NDArray[np.integer], scores: Array, temperature: float
) -> Array:
    """The offsets δ of all classes.

    Parameters
    ----------
    rows : (n, D) array
    labels : (n,) array
        Classes of the rows, as columns of `scores`; −1: not to be learned from.
    scores : (n, n_classes) array
        s(x, m_c); −inf for a class that is not to be told apart.
    temperature : float
        T.

    Returns
    -------
    (n_classes, D) array
    """
    shape = scores.shape[1], rows.shape[1]
    length = float(np.einsum("nd,nd->", rows, rows, dtype=np.float64)) / len(rows)
    if not length > 0:
        return np.zeros(shape, np.float32)
    penalty = length / (INVERSE_PENALTY * np.count_nonzero(labels >= 0))

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        offsets = flat.reshape(shape)
        value, gradient = log_loss(rows, labels, scores, offsets.astype(np.float32), temperature)
        value += penalty / 2 * float((offsets**2).sum())
        return value, (gradient + penalty * offsets).ravel()

    with serial_blas():  # the same bits on any number of cores
        found = minimize(
            loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 5},
        )  # fmt: skip
    return (temperature * found.x.reshape(shape)).astype(np.float32)


def log_loss(
    rows: Array, labels: NDArray[np.integer], scores: Array, offsets: Array, temperature: float
) -> tuple[float, NDArray[np.float64]]:
    """Mean log loss and its gradient; the offsets are in units of the temperature."""
    total, gradient = 0.0, np.zeros(offsets.shape)
    for lo in range(0, len(rows), BLOCK):
        part: slice | NDArray[np.int64] = slice(lo, lo + BLOCK)
        known = labels[part] >= 0
        if not known.all():  # else a view does
            part = lo + np.flatnonzero(known)
        some = rows[part]
        logits = scores[part] / np.float32(temperature) + some @ offsets.T
        logits -= logits.max(axis=1, keepdims=True)
        own = np.arange(len(logits)), labels[part]
        truth = logits[own].astype(np.float64)
        shares = np.exp(logits)
        sums = shares.sum(axis=1, keepdims=True)
        total += float((np.log(sums[:, 0].astype(np.float64)) - truth).sum())
        shares /= sums
        shares[own] -= 1
        gradient += shares.T @ some
    count = np.count_nonzero(labels >= 0)
    return total / count, gradient / count
