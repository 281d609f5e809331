"""A first sieve for exact search: products of bytes, and a bound on their error.

Rows r and a query t, relative to a common centre, are coded as r̂ and t̂ (``native.scan``). By the
triangle inequality and Cauchy–Schwarz,

    |t·r − t̂·r̂| ≤ |t| |r − r̂| + |t − t̂| |r̂|.

Rows whose value exceeds the k-th smallest by more than twice the bound are not among the k nearest.
Where that leaves a doubt, the best rows by bytes are compared by their true values: rows whose
value by bytes exceeds the k-th smallest true one by more than the bound are not among the k
nearest, either. Products of bytes take a quarter of the time of float32.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from nearkin.native.byte_products import PANEL_ROWS
from nearkin.native.listed_scores import pair_scores, pair_squared_distances
from nearkin.native.scan import EIGHT_BITS, CodedCells, best_slots, code_cells
from nearkin.native.topk import smallest_pairs
from nearkin.neighbors.base import Array, Metric, blocks
from nearkin.neighbors.sizes import CELL_ROWS, CODED_AT_ONCE, sieved_rows

_LARGER = np.float32(1.001)  # than a length that is rounded
_EPS = np.finfo(np.float32).eps


class ByteSieve:
    """Rows as bytes, in cells of `CELL_ROWS` that follow each other.

    Parameters
    ----------
    rows : (n, D) array
    centre : (D,) array
    centred : function
        Returns an iterator of the rows' blocks, relative to the centre, each with the number of
        its first row.
    metric : str
        Values are squared distances, or dot products with the sign changed.
    """

    def __init__(
        self,
        rows: Array,
        centre: Array,
        centred: Callable[[], Iterator[tuple[int, Array]]],
        metric: Metric,
    ) -> None:
        self.rows, self.centre, self.by_products = rows, centre, metric == "dot"
        largest = max(max(block.max(), -block.min()) for _, block in centred())
        self.scale = np.float32(2.0 ** -math.frexp(largest)[1])  # no square overflows
        self.error = self.longest = np.float32(0)
        self.coded, self.row_of = _joined(list(self._code(centred())))

    def _code(self, centred: Iterator[tuple[int, Array]]) -> Iterator[tuple[CodedCells, int]]:
        """Yield some cells and the number of their rows, and note the longest error and row."""
        for _, block in centred:
            for lo, hi in blocks(len(block), CODED_AT_ONCE):
                scaled, cell = block[lo:hi] * self.scale, np.arange(hi - lo) // CELL_ROWS
                coded, _, (error, longest) = code_cells(
                    scaled, cell, self.by_products, zero=EIGHT_BITS, at_means=False
                )
                self.error = max(self.error, _LARGER * np.float32(error))
                self.longest = max(self.longest, _LARGER * np.float32(longest))
                yield coded, hi - lo

    def search(
        self, queries: Array, centred: Array, k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return candidates of each query, -1 in empty places, and whether they suffice.

        Where they do, the `k` nearest rows are among them.
        """
        near, values, bound = self._scan(centred, sieved_rows(k))
        limits = np.partition(values, k - 1, axis=1)[:, k - 1] + 2 * bound
        last = values.max(axis=1)
        sure = last > limits  # not where values overflow
        near[values > limits[:, None]] = -1
        at = np.flatnonzero(~sure)
        if len(at):
            nearest, sure[at] = self._compare(queries[at], near[at], last[at] - bound[at], k)
            near[at], near[at, :k] = -1, nearest
        return near, sure

    def nearest(
        self, queries: Array, centred: Array, k: int, wanted: int
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the `k` nearest of the `wanted` best rows, and whether they are those of all."""
        near, values, bound = self._scan(centred, wanted)
        return self._compare(queries, near, values.max(axis=1) - bound, k)

    def _scan(self, centred: Array, wanted: int) -> tuple[NDArray[np.int32], Array, Array]:
        """The best rows by bytes, their values, and a bound on the error of a query's values."""
        scaled = centred * self.scale
        cells = np.arange(len(self.coded.steps), dtype=np.int32)
        visits = np.broadcast_to(cells, (len(scaled), len(cells)))
        values, slots = best_slots(
            self.coded, scaled, visits, wanted, self.by_products, zero=EIGHT_BITS
        )
        return self.row_of[slots], values, self.error_bound(scaled)

    def _compare(
        self, queries: Array, near: NDArray[np.int32], least: Array, k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """The `k` nearest of some rows, and whether all others are farther: at `least` so far."""
        if self.by_products:
            true = (queries @ self.centre)[:, None] - pair_scores(queries, self.rows, near)
        else:
            true = pair_squared_distances(queries, self.rows, near)
        best, nearest = smallest_pairs(true, near, k)
        return nearest, least > best[:, -1] * self.scale * self.scale

    def error_bound(self, scaled: Array) -> Array:
        """Bound the error of a query's values, in the units of scaled rows."""
        dims, lengths = scaled.shape[1], _lengths(scaled)
        steps = np.abs(scaled).max(axis=1, keepdims=True) / np.float32(127)
        errors = np.rint(scaled / np.maximum(steps, np.finfo(np.float32).tiny))
        errors *= steps
        errors -= scaled
        longest = self.longest + self.error  # of the rows that the codes stand for
        coding: Array = lengths * self.error + _LARGER * _lengths(errors) * longest
        roundings = np.float32(5 * (4 + math.sqrt(dims)) * _EPS)
        if self.by_products:  # true values are of rows that are not centred
            whole = self.longest + self.scale * np.linalg.norm(self.centre)
            return coding + roundings * lengths * whole
        return 2 * coding + roundings * (np.square(lengths) + np.square(self.longest))


def _joined(parts: list[tuple[CodedCells, int]]) -> tuple[CodedCells, NDArray[np.int32]]:
    """All cells, and the row of each slot, with another -1 at the end."""
    cells = [coded for coded, _ in parts]
    starts = np.cumsum([0] + [len(coded.panels) for coded in cells])
    row_of, first = np.full(PANEL_ROWS * starts[-1] + 1, -1, np.int32), 0
    for (_, n), start in zip(parts, PANEL_ROWS * starts):
        row_of[start : start + n] = np.arange(first, first + n)
        first += n
    whole = {name: [getattr(coded, name) for coded in cells] for name in CodedCells._fields}
    firsts = [coded.first[:-1] + start for coded, start in zip(cells, starts)]
    whole["first"] = [*firsts, starts[-1:]]
    return CodedCells(*(np.concatenate(whole[name]) for name in CodedCells._fields)), row_of


def _lengths(rows: Array) -> Array:
    return np.sqrt(np.einsum("nd,nd->n", rows, rows))
