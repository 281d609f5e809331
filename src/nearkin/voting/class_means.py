"""Class means, which vote beside the neighbours.

Linear classifiers win where classes overlap, because they use statistics of whole classes. The
similarity of a query to the mean of each class uses the same statistics, under the learned M.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_BLOCK = 16_384


def class_means(rows: Array, labels: NDArray[np.integer], n_classes: int) -> Array:
    """The mean of each class's rows, scaled to unit length; zero for a class without rows."""
    sums = np.zeros((n_classes, rows.shape[1]))
    for lo in range(0, len(rows), _BLOCK):  # memory maps are read once, in order
        part = labels[lo : lo + _BLOCK]
        order = np.argsort(part, kind="stable")
        first = np.flatnonzero(np.diff(part[order], prepend=-1))
        block = np.asarray(rows[lo : lo + _BLOCK])[order]
        sums[part[order][first]] += np.add.reduceat(block, first, axis=0, dtype=np.float64)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1)).astype(np.float32)
