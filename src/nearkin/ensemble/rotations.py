"""Random rotations of which any rows can be made without the others.

A rotation drawn from all of them costs a decomposition of a D×D matrix, for a single row too. A
product of cosine transforms and random signs is as good a source of projections (Yu et al. 2016,
"Orthogonal Random Features": Hadamard matrices there, whose sizes are powers of two): d rows take
O(d·D·log D) and a seed.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

Array = NDArray[np.float32]

FACTORS = 3  # two leave traces of the transform in the rows


def rotation_rows(D: int, seed: list[int], first: int, last: int) -> Array:
    """Rows `first` to `last` (exclusive) of the rotation of D dimensions that the seed describes.

    Examples
    --------
    >>> R = rotation_rows(5, [0, 0], 0, 5)
    >>> bool(np.abs(R @ R.T - np.eye(5)).max() < 1e-6)
    True
    """
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([-1, 1], np.float32), (FACTORS, D))
    rows = np.zeros((last - first, D), np.float32)
    rows[np.arange(last - first), np.arange(first, last)] = 1
    for flips in signs:
        rows = dct(rows, axis=1, norm="ortho", workers=1) * flips
    return rows.take(rng.permutation(D), axis=1)  # no column is preferred, however few there are


def stacked_rows(D: int, seed: int, first: int, count: int) -> Array:
    """Rows of an endless stack of independent rotations, each of D rows.

    Examples
    --------
    >>> R = np.concatenate([stacked_rows(6, 0, first, 4) for first in (0, 4, 8)])  # two rotations
    >>> bool(np.abs(R.T @ R - 2 * np.eye(6)).max() < 1e-5)
    True
    """
    parts = []
    for turn in range(first // D, -(-(first + count) // D)):
        lo, hi = max(first - turn * D, 0), min(first + count - turn * D, D)
        parts.append(rotation_rows(D, [seed, turn], lo, hi))
    return np.concatenate(parts)
