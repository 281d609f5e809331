"""Sums and scatter by class, of rows that need not fit in memory, dense or sparse."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.preprocessing import pca

Array = NDArray[np.float32]


def class_sums(
    X: Any, labels: NDArray[np.integer], n_classes: int, centre: Array | None = None
) -> NDArray[np.float64]:
    """Sum of each class's rows, less `centre`, as an (n_classes, D) array; reads `X` once."""
    sums = np.zeros((n_classes, X.shape[1]))
    for lo, block in pca.row_blocks(X):
        part = labels[lo : lo + len(block)]
        order = np.argsort(part, kind="stable")
        first = np.flatnonzero(np.diff(part[order], prepend=-1))
        rows = (block if centre is None else block - centre)[order]
        sums[part[order][first]] += np.add.reduceat(rows, first, axis=0, dtype=np.float64)
    return sums


def within_class_scatter(X: Any, labels: NDArray[np.integer], centre: Array) -> NDArray[np.float64]:
    """Total scatter less that of the class means, both about `centre`; a D×D array."""
    counts = np.bincount(labels).astype(np.float64)
    scaled = class_sums(X, labels, len(counts), centre) / np.sqrt(counts)[:, None]
    return pca.scatter(X, centre) - scaled.T @ scaled
