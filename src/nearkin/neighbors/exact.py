"""Brute force: distances as matrix products, the smallest of each row picked in one pass.

Products in float32 can hide which of two rows is nearer, where rows are far from the centre and
close to each other. How much they can hide is known; where that leaves a doubt, all rows that may
be among the nearest are compared by their true distances.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.topk import nearest_within, smallest
from nearkin.neighbors.base import Array, blocks

DATABASE_BYTES = 256 << 20
PRODUCT_BYTES = 64 << 20
CENTRE_ROWS = 1_000


class Exact:
    """All rows, in blocks of the database, so that a memory map is read in order."""

    order: NDArray[np.int64] | None = None

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.step = max(1, DATABASE_BYTES // (4 * rows.shape[1]))
        # |x-z|² is expanded into products; far from the origin they would drown the difference.
        # The median, since a single row that is far off would take the mean along.
        some = rows[np.linspace(0, len(rows) - 1, min(CENTRE_ROWS, len(rows))).astype(int)]
        self.centre = np.median(some, axis=0).astype(np.float32)

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Rows near each query, more than `k`, the `k` nearest among them."""
        wanted = min(len(self.rows), k + 8 + k // 16)
        squared, near = self.nearest(queries, wanted)
        if wanted == len(self.rows):
            return near
        edge, last = squared[:, k - 1], squared[:, -1]
        doubt = self._doubt(queries, last)
        # Where the last is farther than the k-th beyond doubt, so is every row that was left out.
        unsure = np.flatnonzero(~(last - edge > 2 * doubt))
        if len(unsure):
            limits = edge[unsure] + 2 * doubt[unsure]
            near[unsure] = self._looked_through(queries[unsure], limits, wanted)
        return near

    def _doubt(self, queries: Array, last: Array) -> Array:
        """How far a squared distance of up to `last` from products can be from the true one.

        Sums of D products are off by √D roundings of the two rows' squared lengths. A row of more
        than twice the query's length is at least half its own length away, so that what is known
        of the query and of `last` suffices.
        """
        lengths = np.square(queries - self.centre).sum(axis=1)
        roundings = np.float32(4 + np.sqrt(self.rows.shape[1])) * np.finfo(np.float32).eps
        return 5 * roundings * (lengths + np.abs(last))

    def _looked_through(self, queries: Array, limits: Array, wanted: int) -> NDArray[np.int64]:
        """The nearest by their true distance, among all rows that may be within the limit."""
        places = np.full((len(queries), wanted), -1)
        values = np.full(places.shape, np.inf, np.float32)
        centred = queries - self.centre
        limits = limits - np.einsum("nd,nd->n", centred, centred)
        for first, end in blocks(len(self.rows), self.step):
            block = self.rows[first:end]
            for part, products, squares in _products(centred, block - self.centre):
                nearest_within(
                    products, squares, limits[part], queries[part], block, first,
                    places[part], values[part],
                )  # fmt: skip
        return places

    def nearest(self, queries: Array, k: int) -> tuple[Array, NDArray[np.int64]]:
        """Squared distances, from products, and rows, nearest first."""
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
    found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for part, products, squares in _products(queries, rows):
        found[0][part], found[1][part] = smallest(products, squares, k)
    found[0][:] += np.einsum("nd,nd->n", queries, queries)[:, None]
    return found


def _products(queries: Array, rows: Array) -> Iterator[tuple[slice, Array, Array]]:
    """Some queries at a time: −2 times their products with all rows, and the rows' squares."""
    squares = np.einsum("nd,nd->n", rows, rows)
    panel = max(256, min(2_048, len(rows) // 16))  # few calls, and some for every core
    at_once = max(1, min(len(queries), PRODUCT_BYTES // (4 * len(rows))))
    room = np.empty((at_once, len(rows)), np.float32)
    for lo, hi in blocks(len(queries), at_once):
        products = room[: hi - lo]
        with serial_blas():
            multiply_into(
                products, queries[lo:hi], rows, scale=-2, right_transposed=True, panel=panel
            )
        yield slice(lo, hi), products, squares
