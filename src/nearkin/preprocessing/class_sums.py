"""Sums and scatter by class, of rows that need not fit in memory, dense or sparse."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.preprocessing import pca

Array = NDArray[np.float32]


def class_sums(
    X: Any, labels: NDArray[np.integer], n_classes: int, centre: Array | None = None
) -> NDArray[np.float64]:
    """Sum of each class's rows, less `centre`, as an (n_classes, D) array; reads `X` once."""
    sums = np.zeros((n_classes, X.shape[1]))
    for lo, block in pca.row_blocks(X):
        sums += _members(labels[lo : lo + len(block)], n_classes) @ (
            block if centre is None else block - centre
        )
    return sums


def _members(labels: NDArray[np.integer], n_classes: int) -> sparse.csr_array:
    """A matrix whose product with rows is the sum of each class's, in order."""
    counts = np.bincount(labels, minlength=n_classes)
    rows, first = np.argsort(labels, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
    return sparse.csr_array((np.ones(len(rows)), rows, first), shape=(n_classes, len(rows)))


def within_class_scatter(X: Any, labels: NDArray[np.integer], centre: Array) -> NDArray[np.float64]:
    """Total scatter less that of the class means, both about `centre`; a D×D array."""
    counts = np.bincount(labels).astype(np.float64)
    scaled = class_sums(X, labels, len(counts), centre) / np.sqrt(counts)[:, None]
    return pca.scatter(X, centre) - scaled.T @ scaled
