"""Brute-force search: distances from matrix products, verified where rounding could matter.

Many queries pass a sieve first: products of bytes, with a bound on their error, rule out nearly all
rows (``sieve``). Where it leaves the k nearest undecided, and for few queries, |x−z|² is expanded
into products in float32. Where rows lie far from the centre and close to each other, rounding can
swap two of them. Its error is bounded, too; where that bound leaves the k nearest undecided, all
rows within the bound are compared by their true distances.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.topk import nearest_within, smallest
from nearkin.neighbors.base import Array, Index, Metric, blocks
from nearkin.neighbors.sieve import ByteSieve
from nearkin.neighbors.sizes import DATABASE_BYTES, PRODUCT_BYTES, has_sieve

CENTRE_ROWS = 1_000
SIEVE_QUERIES = 512  # asked so far; coding takes as long as some hundred queries save
UNSURE_AT_ONCE, WIDER = 512, 4  # queries, and times as many rows of the sieve for each
NEAR_ORIGIN = 0.1  # share of the mean squared length up to which a centre is left where it is


class Exact(Index):
    """All rows, searched in blocks of `block_bytes`, so that a memory map is read in order.

    A search is for small values: squared distances, or dot products with the sign changed.
    """

    metrics: ClassVar = ("euclidean", "dot")

    def __init__(
        self,
        rows: Array,
        description: str = "exact",
        *,
        metric: Metric = "euclidean",
        block_bytes: int = DATABASE_BYTES,
    ) -> None:
        self.rows, self.metric = rows, metric
        self.block_rows = max(1, block_bytes // (4 * rows.shape[1]))
        # Products of rows far from the origin would lose small differences to rounding. The
        # median, since one distant row would shift the mean.
        sample = rows[np.linspace(0, len(rows) - 1, min(CENTRE_ROWS, len(rows))).astype(int)]
        self.centre = np.median(sample, axis=0).astype(np.float32)
        square = float(np.square(self.centre, dtype=np.float64).sum())
        if square <= NEAR_ORIGIN * _squares(sample).mean(dtype=np.float64):
            self.centre[:] = 0  # no copy of the rows for each search
        self._squares: dict[int, Array] = {}  # of the rows of each block, by its first
        self.longest = np.float32(0)  # squared length of a row, where the error depends on it
        if metric == "dot":
            self.longest = max(_squares(block).max() for _, block in self._blocks())
        self._asked = self._undecided = 0  # queries, and those that the sieve has not decided
        self._sieve: ByteSieve | None = None

    @classmethod
    def check(cls, description: str) -> None:
        """Refuse settings: there are none."""
        if ";" in description:
            raise ValueError(
                f"index={description!r}: 'exact' takes no settings; use 'exact', or "
                "'cells;recall=0.9' for an approximate search"
            )

    def search(self, queries: Array, k: int) -> NDArray[np.integer]:
        """Return rows near each query, the `k` nearest among them, -1 in empty places."""
        sieve = self._sieve_for(len(queries), k)
        if sieve is None:
            return self._by_products(queries, k)
        near, sure = sieve.search(queries, self._centred(queries), k)
        unsure = np.flatnonzero(~sure)
        for lo, hi in blocks(len(unsure), UNSURE_AT_ONCE):
            at = unsure[lo:hi]
            near[at] = self._decide(sieve, queries[at], k, near.shape[1])
        return near

    def _decide(self, sieve: ByteSieve, queries: Array, k: int, width: int) -> NDArray[np.int64]:
        """Rows near queries of which the sieve is not sure: by more of its rows, or by products."""
        near, sure = np.full((len(queries), width), -1), np.zeros(len(queries), bool)
        if 4 * WIDER * width <= len(self.rows):
            centred = self._centred(queries)
            near[:, :k], sure = sieve.nearest(queries, centred, k, WIDER * width)
        if not sure.all():
            found = self._by_products(queries[~sure], k)
            near[~sure] = -1
            near[~sure, : found.shape[1]] = found
            self._undecided += len(found)
        return near

    def _sieve_for(self, n_queries: int, k: int) -> ByteSieve | None:
        """The sieve, once there are queries enough to be worth coding the rows."""
        n, dims = self.rows.shape
        self._asked += n_queries
        if not has_sieve(n, dims, k) or 2 * self._undecided > max(self._asked, SIEVE_QUERIES):
            return None
        if self._sieve is None and self._asked >= SIEVE_QUERIES:
            self._sieve = ByteSieve(self.rows, self.centre, self._blocks, self.metric)
        return self._sieve

    def _by_products(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Return more than `k` rows near each query, nearest first, by products in float32."""
        wanted = min(len(self.rows), k + 8 + k // 16)
        values, near = self.topk(queries, wanted)
        if wanted == len(self.rows):
            return near
        kth, last = values[:, k - 1], values[:, -1]
        bound = self.error_bound(queries, last)
        # Where the last exceeds the k-th by more than both errors, so does every row left out.
        unsure = np.flatnonzero(~(last - kth > 2 * bound))
        if len(unsure):
            limits = kth[unsure] + 2 * bound[unsure]
            near[unsure] = self._verify(queries[unsure], limits, wanted)
        return near

    def error_bound(self, queries: Array, last: Array) -> Array:
        """Bound the rounding error of values of up to `last` from products.

        Sums of D products are off by √D roundings of the two rows' squared lengths. A row of more
        than twice the query's length is at least half its own length away, so that the query's
        length and `last` bound it. Dot products are off by the product of both lengths.
        """
        lengths = _squares(self._centred(queries))
        roundings = np.float32(4 + np.sqrt(self.rows.shape[1])) * np.finfo(np.float32).eps
        if self.metric == "dot":
            return 5 * roundings * np.sqrt(lengths) * np.sqrt(self.longest)
        return 5 * roundings * (lengths + np.abs(last))

    def _verify(self, queries: Array, limits: Array, wanted: int) -> NDArray[np.int64]:
        """Find the nearest by their true values among all rows that may lie within the limits."""
        places = np.full((len(queries), wanted), -1)
        values = np.full(places.shape, np.inf, np.float32)
        centred = self._centred(queries)
        if self.metric == "euclidean":
            limits = limits - _squares(centred)
        for first, block in self._blocks():
            rows, squares = self.rows[first : first + len(block)], self._squares_of(first, block)
            for part, products, offsets in products_of(centred, block, self.metric, squares):
                nearest_within(
                    products, offsets, limits[part], queries[part], rows, first,
                    places[part], values[part], self.metric == "dot",
                )  # fmt: skip
        return places

    def topk(self, queries: Array, k: int) -> tuple[Array, NDArray[np.int64]]:
        """Return values from products, not verified, and rows, nearest first.

        Dot products are those with the centred rows, which rank the rows as their own do.
        """
        queries = self._centred(queries)
        best_d, best_i = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), int)
        for lo, block in self._blocks():
            squares = self._squares_of(lo, block)
            d, i = topk_by_products(queries, block, min(k, len(block)), self.metric, squares)
            best_d = np.concatenate([best_d, d], axis=1)
            best_i = np.concatenate([best_i, i + lo], axis=1)
            if lo:
                order = np.argsort(best_d, axis=1, kind="stable")[:, :k]
                best_d = np.take_along_axis(best_d, order, axis=1)
                best_i = np.take_along_axis(best_i, order, axis=1)
        return best_d, best_i

    def _centred(self, queries: Array) -> Array:
        return queries - self.centre if self.metric == "euclidean" else queries

    def _blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield centred rows and the number of the first."""
        moved = self.centre.any()
        for lo, hi in blocks(len(self.rows), self.block_rows):
            yield lo, self.rows[lo:hi] - self.centre if moved else self.rows[lo:hi]

    def _squares_of(self, first: int, block: Array) -> Array | None:
        """Squared lengths of centred rows, kept from one search to the next."""
        if self.metric == "euclidean" and first not in self._squares:
            self._squares[first] = _squares(block)
        return self._squares.get(first)

    def save(self, path: Path) -> None:
        """Write an empty file: only the rows are needed."""
        path.touch()

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """Return an index of the same rows."""
        return cls(rows)


def topk_by_products(
    queries: Array,
    rows: Array,
    k: int,
    metric: Metric = "euclidean",
    squares: Array | None = None,
) -> tuple[Array, NDArray[np.int64]]:
    """Return values and numbers of the `k` nearest rows of each query, nearest first."""
    found = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
    for part, products, offsets in products_of(queries, rows, metric, squares):
        found[0][part], found[1][part] = smallest(products, offsets, k)
    if metric == "euclidean":
        found[0][:] += _squares(queries)[:, None]
    return found


def products_of(
    queries: Array, rows: Array, metric: Metric, squares: Array | None = None
) -> Iterator[tuple[slice, Array, Array]]:
    """Yield −2 times the products of some queries with all rows, and the rows' `squares`.

    For dot products, −1 times the products, and zeros.
    """
    dot = metric == "dot"
    offsets = np.zeros(len(rows), np.float32) if dot else squares
    offsets = _squares(rows) if offsets is None else offsets
    panel = max(256, min(2_048, len(rows) // 16))  # few calls, and some for every core
    at_once = max(1, min(len(queries), PRODUCT_BYTES // (4 * len(rows))))
    workspace = np.empty((at_once, len(rows)), np.float32)
    for lo, hi in blocks(len(queries), at_once):
        products = workspace[: hi - lo]
        with serial_blas():
            multiply_into(
                products,
                queries[lo:hi],
                rows,
                scale=-1 if dot else -2,
                right_transposed=True,
                panel=panel,
            )
        yield slice(lo, hi), products, offsets


def _squares(rows: Array) -> Array:
    return np.einsum("nd,nd->n", rows, rows)
