"""Approximate neighbours of all rows at once: k-means cells, few dimensions, exact re-ranking.

k-means partitions the rows into cells. The queries of one cell are compared with the nearest cells
(the probes) by one matrix product, where an inverted file would read the same rows anew for each
query. Comparison and k-means use only the leading principal directions; the candidates, a few
times k, are re-ranked by true distance (``lists``). The numbers of probes and candidates that
reach the requested recall are measured on a sample of rows.
"""

import math
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.native.pairs import pair_squared_distances
from nearkin.neighbors.base import Array, Index, blocks
from nearkin.neighbors.exact import Exact, topk_by_products
from nearkin.neighbors.kmeans import Partition

RECALL = 0.95
SAMPLE_ROWS = 256
MIN_QUERIES_PER_CELL = 32  # with fewer, one product with all rows is faster
CANDIDATE_FACTORS = (1, 1.5, 2, 3, 4, 6, 8, 12, 16)


class Cells(Index):
    """Rows sorted by cell; see the module.

    Attributes
    ----------
    tuned : (3,) array: the k it is tuned for, probes, candidates
    """

    order: NDArray[np.int64]
    _OF_PARTITION: ClassVar = ("centre", "directions", "centroids")
    _OWN: ClassVar = ("order", "starts", "reduced", "tuned")

    def __init__(self, rows: Array, description: str = "cells") -> None:
        self.rows, self.recall = rows, _recall(description)
        self._partition = partition = Partition(rows)
        n = len(rows)
        reduced = np.empty((n, len(partition.directions)), np.float32)
        cell = np.empty(n, np.int64)
        for lo, hi in blocks(n, 65_536):
            reduced[lo:hi] = partition.reduce(rows[lo:hi])
            cell[lo:hi] = partition.assign(reduced[lo:hi])
        self.order = np.argsort(cell, kind="stable")
        counts = np.bincount(cell, minlength=len(partition.centroids))
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        self.reduced = reduced[self.order]
        self.tuned = np.zeros(3, np.int64)

    @classmethod
    def check(cls, description: str) -> None:
        """Refuse settings other than a recall between 0 and 1."""
        _recall(description)

    def prepare(self, k: int) -> None:
        """Choose the probes and candidates for `k`, unless they are known."""
        if self.tuned[0] != k:
            self._tune(k)

    def _nearest_cells(self, cell: int) -> NDArray[np.int64]:
        """All cells, the nearest to `cell` first."""
        centroids = self._partition.centroids
        distances = np.square(centroids - centroids[cell]).sum(axis=1)
        return np.argsort(distances, kind="stable")

    def _tune(self, k: int) -> None:
        """Choose the probes and candidates that reach the recall on a sample of rows."""
        n = len(self.rows)
        at = np.sort(np.random.default_rng(0).permutation(n)[:SAMPLE_ROWS])
        true = Exact(self.rows).search(np.ascontiguousarray(self.rows[at]), min(k + 1, n))
        each = float(np.sqrt(self.recall))  # probes and candidates each lose a part
        place = np.empty(n, np.int64)
        place[self.order] = np.arange(n)
        cell = np.searchsorted(self.starts, place, side="right") - 1
        rank = np.empty(len(self._partition.centroids), np.int64)
        ranks = []
        for i, near in zip(at, true):
            rank[self._nearest_cells(int(cell[i]))] = np.arange(len(rank))
            ranks.append(rank[cell[near]])
        probes = int(np.quantile(np.concatenate(ranks), each)) + 1
        candidates = int(self._candidate_factor(place[at], place[true], each) * k)
        self.tuned = np.array([k, probes, candidates])

    def _candidate_factor(
        self, at: NDArray[np.int64], true: NDArray[np.int64], share: float
    ) -> float:
        """Candidates, in units of k, that hold `share` of the true neighbours when reduced."""
        k, n = true.shape[1], len(self.rows)
        queries = self.reduced[at]
        kept = pair_squared_distances(queries, self.reduced, true.astype(np.int32))
        most = min(n, int(CANDIDATE_FACTORS[-1] * k))
        ranked, _ = Exact(self.reduced).topk(queries, most)
        for factor in CANDIDATE_FACTORS:
            last = ranked[:, min(most, int(factor * k)) - 1]
            if (kept <= last[:, None] * (1 + 1e-5)).mean() >= share:
                return factor
        return CANDIDATE_FACTORS[-1]

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Return candidates for the `k` nearest rows of each query, by reduced distance."""
        reduced = self._partition.reduce(queries)
        cell = self._partition.assign(reduced)
        wanted = min(max(k, int(self.tuned[2])), len(self.rows))
        cells = np.unique(cell)
        if len(queries) < MIN_QUERIES_PER_CELL * len(cells):
            return self.order[topk_by_products(reduced, self.reduced, wanted)[1]]
        found = np.empty((len(queries), wanted), np.int64)
        for c in cells:
            members = np.flatnonzero(cell == c)
            probed = self._probe(int(c), wanted)
            block = np.concatenate([self.reduced[part] for part in probed])
            near = np.concatenate([self.order[part] for part in probed])
            found[members] = near[topk_by_products(reduced[members], block, wanted)[1]]
        return found

    def _probe(self, cell: int, wanted: int) -> list[slice]:
        """Return where the rows of the probed cells are, more cells where they are small."""
        near = self._nearest_cells(cell)
        n_rows = np.cumsum(np.diff(self.starts)[near])
        probes = max(int(self.tuned[1]), int(np.searchsorted(n_rows, wanted)) + 1)
        return [slice(self.starts[c], self.starts[c + 1]) for c in near[:probes]]

    def save(self, path: Path) -> None:
        """Write the cells."""
        arrays = {name: getattr(self._partition, name) for name in self._OF_PARTITION}
        safetensors.write(path, arrays | {name: getattr(self, name) for name in self._OWN}, {})

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """Return the same cells over the same rows."""
        index, partition = cls.__new__(cls), Partition.__new__(Partition)
        index.rows, index._partition = rows, partition
        for name, array in safetensors.read(path)[0].items():
            setattr(partition if name in cls._OF_PARTITION else index, name, np.asarray(array))
        return index


def _recall(description: str) -> float:
    """Read the recall from a description."""
    kind, _, setting = description.partition(";")
    name, _, value = setting.partition("=")
    try:
        recall = float(value) if setting else RECALL
    except ValueError:
        recall = math.nan
    if (setting and name != "recall") or not 0 < recall < 1:
        raise ValueError(
            f"index={description!r}: {kind!r} takes one setting, a recall between 0 and 1, such as "
            f"'{kind};recall=0.9'"
        )
    return recall
