"""Approximate neighbours of all rows at once: by cells, in few dimensions, re-ranked exactly.

k-means cuts the rows into cells. The rows of one cell ask together: their queries are compared
with the cells around theirs by one matrix product, where an inverted file would read the same rows
anew for each query. Both the comparison and k-means see only the leading principal directions; the
best few times k candidates are ranked again by the true distance (`_lists.by_distance`). How many
cells and candidates it takes for the recall that is asked for is measured on a sample of rows.
"""

from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.native.pairs import pair_squared_distances
from nearkin.neighbors.base import Array, blocks
from nearkin.neighbors.exact import Exact, by_products
from nearkin.neighbors.partition import Partition

SAMPLE = 256
FEW = 32  # queries a cell; with fewer, asking all rows in one product is quicker
FACTORS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16)


class Cells:
    """Rows in cells; see the module."""

    order: NDArray[np.int64]
    _CUT: ClassVar = ("centre", "directions", "centroids")
    _OWN: ClassVar = ("order", "starts", "reduced", "plan")

    def __init__(self, rows: Array, recall: float) -> None:
        self.rows, self.recall = rows, recall
        self._cut = cut = Partition(rows)
        n = len(rows)
        reduced, cell = np.empty((n, len(cut.directions)), np.float32), np.empty(n, np.int64)
        for lo, hi in blocks(n, 65_536):
            reduced[lo:hi] = cut.reduce(rows[lo:hi])
            cell[lo:hi] = cut.cell(reduced[lo:hi])
        self.order = np.argsort(cell, kind="stable")
        counts = np.bincount(cell, minlength=len(cut.centroids))
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        self.reduced = reduced[self.order]
        self.plan = np.zeros(3, np.int64)  # k, cells to look into, candidates to rank again

    def prepare(self, k: int) -> None:
        """Measure how many cells and candidates searches of `k` rows need, unless it is known."""
        if self.plan[0] != k:
            self._measure(k)

    def _around(self, cell: int) -> NDArray[np.int64]:
        """All cells, the nearest to `cell` first."""
        distances = np.square(self._cut.centroids - self._cut.centroids[cell]).sum(axis=1)
        return np.argsort(distances, kind="stable")

    def _measure(self, k: int) -> None:
        """Choose the cells and candidates that reach the wanted recall on a sample of rows."""
        n = len(self.rows)
        at = np.sort(np.random.default_rng(0).permutation(n)[:SAMPLE])
        true = Exact(self.rows).search(np.ascontiguousarray(self.rows[at]), min(k + 1, n))
        each = float(np.sqrt(self.recall))  # two sieves, one behind the other
        place = np.empty(n, np.int64)
        place[self.order] = np.arange(n)
        cell = np.searchsorted(self.starts, place, side="right") - 1
        rank = np.empty(len(self._cut.centroids), np.int64)
        depths = []
        for i, near in zip(at, true):
            rank[self._around(int(cell[i]))] = np.arange(len(rank))
            depths.append(rank[cell[near]])
        cells = int(np.quantile(np.concatenate(depths), each)) + 1
        candidates = int(self._factor(at, true, place, each) * k)
        self.plan = np.array([k, cells, candidates])

    def _factor(
        self, at: NDArray[np.int64], true: NDArray[np.int64], place: NDArray[np.int64], share: float
    ) -> float:
        """Times k candidates that hold `share` of the true neighbours in reduced dimensions."""
        k, n = true.shape[1], len(self.rows)
        queries = self.reduced[place[at]]
        kept = pair_squared_distances(queries, self.reduced, place[true].astype(np.int32))
        most = min(n, int(FACTORS[-1] * k))
        edges, _ = Exact(self.reduced).nearest(queries, most)
        for factor in FACTORS:
            last = edges[:, min(most, int(factor * k)) - 1]
            if (kept <= last[:, None] * (1 + 1e-5)).mean() >= share:
                return factor
        return FACTORS[-1]

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Candidates for the `k` nearest rows of each query, by distance in few dimensions."""
        reduced = self._cut.reduce(queries)
        cell = self._cut.cell(reduced)
        wanted = min(max(k, int(self.plan[2])), len(self.rows))
        asked = np.unique(cell)
        if len(queries) < FEW * len(asked):
            return self.order[by_products(reduced, self.reduced, wanted)[1]]
        found = np.empty((len(queries), wanted), np.int64)
        for c in asked:
            asking = np.flatnonzero(cell == c)
            parts = self._candidates(int(c), wanted)
            block = np.concatenate([self.reduced[part] for part in parts])
            near = np.concatenate([self.order[part] for part in parts])
            found[asking] = near[by_products(reduced[asking], block, wanted)[1]]
        return found

    def _candidates(self, cell: int, wanted: int) -> list[slice]:
        """Where the rows around `cell` are: as many cells as planned, more where they are small."""
        around = self._around(cell)
        so_far = np.cumsum(np.diff(self.starts)[around])
        enough = max(int(self.plan[1]), int(np.searchsorted(so_far, wanted)) + 1)
        return [slice(self.starts[c], self.starts[c + 1]) for c in around[:enough]]

    def save(self, path: Path) -> None:
        """Write the cells."""
        arrays = {name: getattr(self._cut, name) for name in self._CUT}
        safetensors.write(path, arrays | {name: getattr(self, name) for name in self._OWN}, {})

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """The same cells over the same rows."""
        index, cut = cls.__new__(cls), Partition.__new__(Partition)
        index.rows, index._cut = rows, cut
        for name, array in safetensors.read(path)[0].items():
            setattr(cut if name in cls._CUT else index, name, np.asarray(array))
        return index
