"""Partition of rows into cells, by k-means in the leading principal directions.

The same for any number of threads: no sum depends on the order in which threads finish.
faiss.Kmeans needs 0.7 times the CPU for the same inertia; own code keeps the bits of earlier fits
(docs/notes/search-libraries.md).
"""

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into, project_rows, serial_blas
from nearkin.native.topk import nearest_of
from nearkin.preprocessing.pca import mean, principal_directions, row_blocks

Array = NDArray[np.float32]

DIMS, ITERATIONS, TRAIN_ROWS_A_CELL = 128, 6, 25
CELLS_A_ROOT = 4  # rows of a cell share most of their neighbours, as learning likes it
PCA_ROWS = 10_000  # more of them move the leading directions by little
_ROWS = 2_048  # their copies stay in the cache


class Partition:
    """Cells of `rows`, `cells_a_root` times as many as the root of their number.

    Attributes
    ----------
    centre, directions : how rows are reduced, by `reduce`, to `dims` numbers
    centroids : (cells, d) array, in the leading directions, DIMS at most
    """

    def __init__(self, rows: Array, dims: int = DIMS, cells_a_root: float = CELLS_A_ROOT) -> None:
        n_cells = max(1, min(int(cells_a_root * np.sqrt(len(rows))), len(rows) // 8))
        step = max(1, len(rows) // (TRAIN_ROWS_A_CELL * n_cells))
        sample, rng = np.ascontiguousarray(rows[::step]), np.random.default_rng(0)
        with serial_blas():
            self.centre = mean(rows)
            some = sample[:: max(1, len(sample) // PCA_ROWS)]
            self.directions, _ = principal_directions(
                some, min(dims, *some.shape), self.centre, rng
            )
            self.centroids = kmeans(self.reduce(sample)[:, :DIMS], n_cells, rng)

    def reduce(self, rows: Array) -> Array:
        """Project the rows, centred, onto the leading principal directions."""
        out = np.empty((len(rows), len(self.directions)), np.float32)
        for lo in range(0, len(rows), _ROWS):
            out[lo : lo + _ROWS] = self.project(rows[lo : lo + _ROWS] - self.centre)
        return out

    def project(self, rows: Array) -> Array:
        """Project rows onto the leading principal directions, as they are."""
        out = np.empty((len(rows), len(self.directions)), np.float32)
        with serial_blas():
            multiply_into(out, np.ascontiguousarray(rows), self.directions, right_transposed=True)
        return out

    def assign(self, reduced: Array) -> NDArray[np.int64]:
        """Return the cell of each reduced row."""
        return assign(reduced[:, :DIMS], self.centroids)


def cells_of(rows: Array) -> NDArray[np.int32]:
    """Partition the rows and return the number of each row's cell.

    Examples
    --------
    >>> far, rng = np.repeat([[0], [9]], 32, axis=0), np.random.default_rng(0)
    >>> cells = cells_of((far + rng.normal(size=(64, 2))).astype(np.float32))
    >>> set(cells[:32].tolist()) & set(cells[32:].tolist())
    set()
    """
    partition = Partition(rows)
    parts = [partition.assign(partition.reduce(part)) for _, part in row_blocks(rows)]
    return np.concatenate(parts).astype(np.int32)


def kmeans(rows: Array, n: int, rng: np.random.Generator) -> Array:
    """Lloyd's k-means; an empty cell starts again at a random row."""
    centroids = rows[np.sort(rng.permutation(len(rows))[:n])]
    for _ in range(ITERATIONS):
        cell = assign(rows, centroids)
        order, counts = np.argsort(cell, kind="stable"), np.bincount(cell, minlength=n)
        full = np.flatnonzero(counts)
        starts = np.cumsum(counts) - counts
        sums = np.add.reduceat(rows[order], starts[full], axis=0)
        centroids = rows[rng.integers(0, len(rows), n)]
        centroids[full] = sums / counts[full, None]
    return centroids


def in_tour(centroids: Array) -> Array:
    """The centroids in an order in which each is followed by the nearest of those that are left.

    Examples
    --------
    >>> in_tour(np.array([[0], [7], [1], [5]], np.float32)).ravel().tolist()
    [0.0, 1.0, 5.0, 7.0]
    """
    squares = np.einsum("nd,nd->n", centroids, centroids)
    with np.errstate(over="ignore", invalid="ignore"):  # then the order is any
        distances = squares - 2 * project_rows(centroids, centroids)  # up to a number for each row
    order, left = [0], np.arange(1, len(centroids))
    while len(left):
        nearest = distances[order[-1], left].argmin()
        order.append(int(left[nearest]))
        left = np.delete(left, nearest)
    return centroids[order]


def assign(rows: Array, centroids: Array) -> NDArray[np.int64]:
    """Return the nearest centroid of each row."""
    squares = np.einsum("nd,nd->n", centroids, centroids)
    cell = np.empty(len(rows), np.int64)
    with serial_blas():
        for lo in range(0, len(rows), _ROWS):
            part = np.ascontiguousarray(rows[lo : lo + _ROWS])
            products = np.empty((len(part), len(centroids)), np.float32)
            multiply_into(products, part, centroids, scale=-2, right_transposed=True)
            cell[lo : lo + _ROWS] = nearest_of(products, squares)
    return cell
