"""Rows cut into cells of near ones, by k-means in the leading principal directions.

The same for any number of threads: nothing depends on the order in which they add up.
"""

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.topk import nearest_of
from nearkin.preprocessing.pca import mean, principal_directions, row_blocks

Array = NDArray[np.float32]

DIMS, ROUNDS, TRAIN_ROWS_A_CELL = 128, 10, 50
_ROWS = 16_384


class Partition:
    """Cells of `rows`, four times as many as the root of their number.

    Attributes
    ----------
    centre, directions : how rows are reduced, by `reduce`
    centroids : (cells, d) array
    """

    def __init__(self, rows: Array) -> None:
        n_cells = max(1, min(int(4 * np.sqrt(len(rows))), len(rows) // 8))
        step = max(1, len(rows) // (TRAIN_ROWS_A_CELL * n_cells))
        sample, rng = np.ascontiguousarray(rows[::step]), np.random.default_rng(0)
        with serial_blas():
            self.centre = mean(rows)
            dims = min(DIMS, *sample.shape)
            self.directions, _ = principal_directions(sample, dims, self.centre, rng)
            self.centroids = _means(self.reduce(sample), n_cells, rng)

    def reduce(self, rows: Array) -> Array:
        """Rows in the leading principal directions."""
        out = np.empty((len(rows), len(self.directions)), np.float32)
        with serial_blas():
            for lo in range(0, len(rows), _ROWS):
                part = np.ascontiguousarray(rows[lo : lo + _ROWS] - self.centre)
                multiply_into(out[lo : lo + _ROWS], part, self.directions, right_transposed=True)
        return out

    def cell(self, reduced: Array) -> NDArray[np.int64]:
        """The cell of each reduced row."""
        return _assigned(reduced, self.centroids)


def cells_of(rows: Array) -> NDArray[np.int32]:
    """Which rows lie together: the number of each row's cell.

    Examples
    --------
    >>> far, rng = np.repeat([[0], [9]], 32, axis=0), np.random.default_rng(0)
    >>> cells = cells_of((far + rng.normal(size=(64, 2))).astype(np.float32))
    >>> set(cells[:32].tolist()) & set(cells[32:].tolist())
    set()
    """
    cut = Partition(rows)
    parts = [cut.cell(cut.reduce(part)) for _, part in row_blocks(rows)]
    return np.concatenate(parts).astype(np.int32)


def _means(rows: Array, n: int, rng: np.random.Generator) -> Array:
    """Lloyd's k-means; a cell that loses all its rows starts again at one of them."""
    centroids = rows[np.sort(rng.permutation(len(rows))[:n])]
    for _ in range(ROUNDS):
        cell = _assigned(rows, centroids)
        order, counts = np.argsort(cell, kind="stable"), np.bincount(cell, minlength=n)
        full = np.flatnonzero(counts)
        starts = np.cumsum(counts) - counts
        sums = np.add.reduceat(rows[order], starts[full], axis=0)
        centroids = rows[rng.integers(0, len(rows), n)]
        centroids[full] = sums / counts[full, None]
    return centroids


def _assigned(rows: Array, centroids: Array) -> NDArray[np.int64]:
    squares = np.einsum("nd,nd->n", centroids, centroids)
    cell = np.empty(len(rows), np.int64)
    with serial_blas():
        for lo in range(0, len(rows), _ROWS):
            part = np.ascontiguousarray(rows[lo : lo + _ROWS])
            products = np.empty((len(part), len(centroids)), np.float32)
            multiply_into(products, part, centroids, scale=-2, right_transposed=True)
            cell[lo : lo + _ROWS] = nearest_of(products, squares)
    return cell
