"""Brute force: distances as matrix products, the smallest of each row picked in one pass."""

from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nearkin._blas import multiply_into, serial_blas
from nearkin._indexes import Array, blocks
from nearkin._kernel import smallest
from nearkin._pca import mean

DATABASE_BYTES = 256 << 20
PRODUCT_BYTES = 64 << 20


class Exact:
    """All rows, in blocks of the database, so that a memory map is read in order."""

    order: NDArray[np.int64] | None = None

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.step = max(1, DATABASE_BYTES // (4 * rows.shape[1]))
        # |x-z|² is expanded into products; far from the origin they would drown the difference.
        self.centre = mean(rows)

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Rows nearest to each query."""
        return self.nearest(queries, k)[1]

    def nearest(self, queries: Array, k: int) -> tuple[Array, NDArray[np.int64]]:
        """Squared distances and rows, nearest first."""
        queries = queries - self.centre
        best_d, best_i = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), int)
        for lo, hi in blocks(len(self.rows), self.step):
            block = self.rows[lo:hi] - self.centre
            d, i = by_products(queries, block, min(k, hi - lo))
            best_d = np.concatenate([best_d, d], axis=1)
            best_i = np.concatenate([best_i, i + lo], axis=1)
            if lo:
                order = np.argsort(best_d, axis=1, kind="stable")[:, :k]
                best_d = np.take_along_axis(best_d, order, axis=1)
                best_i = np.take_along_axis(best_i, order, axis=1)
        return best_d, best_i

    def prepare(self, k: int) -> None:
        """Nothing to do."""

    def save(self, path: Path) -> None:
        """Nothing but the rows is needed."""
        path.touch()

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """An index of the same rows."""
        return cls(rows)


def by_products(queries: Array, rows: Array, k: int) -> tuple[Array, NDArray[np.int64]]:
    """Squared distances and numbers of the `k` nearest rows of each query, nearest first."""
    squares = np.einsum("nd,nd->n", rows, rows)
    found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    panel = max(256, min(2_048, len(rows) // 16))  # few calls, and some for every core
    at_once = max(1, min(len(queries), PRODUCT_BYTES // (4 * len(rows))))
    room = np.empty((at_once, len(rows)), np.float32)
    with serial_blas():
        for lo, hi in blocks(len(queries), at_once):
            products = room[: hi - lo]
            multiply_into(
                products, queries[lo:hi], rows, scale=-2, right_transposed=True, panel=panel
            )
            found[0][lo:hi], found[1][lo:hi] = smallest(products, squares, k)
    found[0][:] += np.einsum("nd,nd->n", queries, queries)[:, None]
    return found
