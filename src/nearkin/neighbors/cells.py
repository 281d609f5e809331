"""Approximate neighbours: k-means cells, products of bytes, exact re-ranking.

k-means partitions the rows into cells, in the leading principal directions. A query visits the
cells nearest to it (the probes) and keeps the best rows there, by bytes (``native.scan``). A cell
is compared with all its visitors at once, where an inverted file would read its rows anew for each
query. The candidates, not many more than k, are re-ranked by their true values (``lists``), or
where nobody wants distances by bytes of all dimensions (``native.byte_rows``). The numbers of
probes and candidates that reach the requested recall are measured on a sample of rows.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.native.bins import smallest_columns
from nearkin.native.byte_products import PANEL_ROWS
from nearkin.native.byte_rows import ByteRows, check_byte_rows, code_rows, nearest_of_candidates
from nearkin.native.scan import CodedCells, best_slots, check_coded, code_cells, decode_rows
from nearkin.neighbors.base import Array, Index, Metric, blocks
from nearkin.neighbors.exact import Exact, products_of
from nearkin.neighbors.kmeans import Partition, in_tour
from nearkin.neighbors.sizes import CODED_DIMS, SEARCHED_CELLS_A_ROOT
from nearkin.validation.arrays import check_fitted_array

RECALL = 0.95
SAMPLE_ROWS = 256
MAX_CANDIDATES = 16  # for each neighbour
PROBE_SHARES = (0.25, 0.5, 0.75)  # of the loss, in logarithms, that is left to the probes
SCAN_COST, RERANK_COST = 1, 8  # of a number, by bytes and in float32


class Cells(Index):
    """Rows coded by cell; see the module.

    Attributes
    ----------
    rows_of : row of each slot, -1 where there is none, and another -1 at the end
    tuned : (3,) array: the k it is tuned for, probes, candidates
    """

    order: NDArray[np.int64]
    _bytes: ByteRows | None = None  # rows of all slots, of an index for lists without distances
    metrics: ClassVar = ("euclidean", "dot")

    def __init__(
        self, rows: Array, description: str = "cells", *, metric: Metric = "euclidean"
    ) -> None:
        recall, n = _recall(description), len(rows)
        partition = Partition(rows, CODED_DIMS, SEARCHED_CELLS_A_ROOT)
        # Rows of cells that are queried one after the other share cells and neighbours.
        partition.centroids = in_tour(partition.centroids)
        reduced = np.empty((n, len(partition.directions)), np.float32)
        cell = np.empty(n, np.int64)
        for lo, hi in blocks(n, 65_536):
            reduced[lo:hi] = partition.reduce(rows[lo:hi])
            cell[lo:hi] = partition.assign(reduced[lo:hi])
        scale = np.float32(2.0 ** -math.frexp(float(np.abs(reduced).max()))[1])
        partition.directions *= scale  # no square overflows
        reduced *= scale
        coded, slots, _ = code_cells(reduced, cell, metric == "dot")
        self._set(rows, partition, coded, np.append(slots, np.int32(-1)), metric)
        self.recall, self.tuned = recall, np.zeros(3, np.int64)

    def _set(
        self,
        rows: Array,
        partition: Partition,
        coded: CodedCells,
        rows_of: NDArray[np.int32],
        metric: Metric,
    ) -> None:
        self.rows, self._partition, self._coded, self.metric = rows, partition, coded, metric
        self.rows_of, self.order = rows_of, rows_of[rows_of >= 0].astype(np.int64)
        filled = np.concatenate([[0], np.cumsum(rows_of >= 0)])
        self._sizes = np.diff(filled[PANEL_ROWS * coded.first])
        self._held = np.cumsum(np.sort(self._sizes))  # rows that so many cells hold at least

    @classmethod
    def check(cls, description: str) -> None:
        """Refuse settings other than a recall between 0 and 1."""
        _recall(description)

    def prepare(self, k: int) -> None:
        """Choose the probes and candidates for `k`, unless they are known."""
        if self.tuned[0] != k:
            self.tuned = np.array([k, *self._tune(k)])

    def _tune(self, k: int) -> tuple[int, int]:
        """Return the cheapest probes and candidates that reach the recall on a sample of rows."""
        n, dims = self.rows.shape
        at = np.sort(np.random.default_rng(0).permutation(n)[:SAMPLE_ROWS])
        queries = np.ascontiguousarray(self.rows[at])
        # Rounding may swap rows that are as near; to verify them took as long as the products.
        true = Exact(self.rows, metric=self.metric).topk(queries, min(k + 1, n))[1]
        reduced = self._reduced_rows(at)
        cells = self._nearest_cells(reduced, len(self._sizes))
        ranks, row_cells = np.argsort(cells, axis=1), self.row_cells  # of all cells, by query
        needed = np.take_along_axis(ranks, row_cells[true], axis=1)
        choices = [int(np.quantile(needed, self.recall**share)) + 1 for share in PROBE_SHARES]
        near = self._by_value(reduced, cells[:, : max(choices)], min(n, MAX_CANDIDATES * k))
        rank = np.where(near < 0, len(self._sizes), np.take_along_axis(ranks, row_cells[near], 1))
        visited = np.cumsum(self._sizes[cells].mean(axis=0)) * reduced.shape[1]
        plans = []
        for probes in choices:
            candidates = max(k, _needed(true, near, rank < probes, n, self.recall))
            cost = SCAN_COST * visited[probes - 1] + RERANK_COST * candidates * dims
            plans.append((cost, probes, candidates))
        return min(plans)[1:]

    def _by_value(
        self, reduced: Array, probes: NDArray[np.int32], wanted: int
    ) -> NDArray[np.int32]:
        """The best rows of the cells that each query visits, by bytes, best first."""
        values, slots = best_slots(self._coded, reduced, probes, wanted, self.metric == "dot")
        return np.take_along_axis(self.rows_of[slots], np.argsort(values, axis=1), axis=1)

    def search(self, queries: Array, k: int) -> NDArray[np.int32]:
        """Return candidates for the `k` nearest rows of each query."""
        return self.rows_of[self._slots(self._reduce(queries), k)]

    def search_rows(self, at: NDArray[np.int64], k: int) -> NDArray[np.int32]:
        """Return candidates for the `k` nearest rows of each of the rows `at`."""
        return self.rows_of[self._slots(self._reduced_rows(at), k)]

    def prepare_lists(self) -> None:
        """Get ready for `row_lists`: code all rows, in the order of the slots."""
        if self._bytes is None and self.metric == "euclidean":
            self._bytes = code_rows(self.rows, self.rows_of[:-1], self._partition.centre)

    def release_lists(self) -> None:
        """Forget what `prepare_lists` has made."""
        self._bytes = None

    def row_lists(self, at: NDArray[np.int64], k: int) -> NDArray[np.int32] | None:
        """The `k` nearest rows of each of the rows `at`, without distances; None by dot product."""
        self.prepare_lists()
        if self._bytes is None:
            return None
        queries = np.ascontiguousarray(self.rows[at])
        slots = self._slots(self._reduced_rows(at), k + 1)  # a row finds itself
        return nearest_of_candidates(self._bytes, self.rows, self.rows_of, queries, slots, at, k)

    @property
    def row_cells(self) -> NDArray[np.int32]:
        """The number of each row's cell."""
        cell = np.empty(len(self.rows), np.int32)
        cell[self.order] = np.repeat(np.arange(len(self._sizes)), self._sizes)
        return cell

    def _slots(self, reduced: Array, k: int) -> NDArray[np.int32]:
        """Slots of candidates for the `k` nearest rows of each reduced query."""
        fewest = int(np.searchsorted(self._held, k)) + 1
        probes = self._nearest_cells(reduced, max(int(self.tuned[1]), fewest))
        wanted = min(max(k, int(self.tuned[2])), len(self.rows))
        return best_slots(self._coded, reduced, probes, wanted, self.metric == "dot")[1]

    def _reduce(self, queries: Array) -> Array:
        if self.metric == "euclidean":
            return self._partition.reduce(queries)
        return self._partition.project(queries)

    def _reduced_rows(self, at: NDArray[np.int64]) -> Array:
        """The rows `at`, reduced: by distance their codes are near enough, and cost no product.

        Not by dot product: a code may be off by more than the length of a short row.
        """
        if self.metric == "dot":
            return self._reduce(np.ascontiguousarray(self.rows[at]))
        return decode_rows(self._coded, self._slot_of[at], len(self._partition.directions))

    @cached_property
    def _slot_of(self) -> NDArray[np.int32]:
        """The slot of each row."""
        slots = np.empty(len(self.rows), np.int32)
        slots[self.order] = np.flatnonzero(self.rows_of >= 0)
        return slots

    def _nearest_cells(self, reduced: Array, n: int) -> NDArray[np.int32]:
        """The `n` nearest cells of each query, nearest first."""
        centroids = self._coded.centroids[:, : reduced.shape[1]]
        near = np.empty((len(reduced), min(n, len(centroids))), np.int32)
        for part, products, offsets in products_of(reduced, centroids, self.metric):
            near[part] = smallest_columns(products, offsets, near.shape[1])
        return near

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `restored` needs besides the rows."""
        partition = {"centre": self._partition.centre, "directions": self._partition.directions}
        return self._coded._asdict() | partition | {"rows_of": self.rows_of, "tuned": self.tuned}

    @classmethod
    def restored(
        cls,
        rows: Array,
        description: str,
        arrays: Mapping[str, NDArray[Any]],
        metric: Metric = "euclidean",
    ) -> Self:
        """Return the cells of the same rows that `arrays`, perhaps of a file, describe."""
        coded = CodedCells(*(arrays[name] for name in CodedCells._fields))
        centre, directions = arrays["centre"], arrays["directions"]
        check_fitted_array("centre", centre, (rows.shape[1],))
        check_fitted_array("directions", directions, (None, rows.shape[1]))
        if not (np.isfinite(centre).all() and np.isfinite(directions).all()):
            raise ValueError("centre or directions hold NaN or infinity")
        check_coded(coded, len(directions))
        rows_of, tuned = arrays["rows_of"], arrays["tuned"]
        _check_slots(rows_of, coded, len(rows), tuned)
        index, partition = cls.__new__(cls), Partition.__new__(Partition)
        partition.centre, partition.directions = centre, directions
        index._set(rows, partition, coded, rows_of, metric)
        index.recall, index.tuned = _recall(description), tuned
        return index

    def save(self, path: Path) -> None:
        """Write the cells."""
        described = {"metric": self.metric, "recall": str(self.recall)}
        coded = {} if self._bytes is None else self._bytes._asdict()
        named = {f"bytes.{name}": array for name, array in coded.items()}
        safetensors.write(path, self.arrays() | named, described)

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """Return the same cells over the same rows."""
        arrays, described = safetensors.read(path)
        description = f"cells;recall={described['recall']}"
        index = cls.restored(rows, description, arrays, cast(Any, described["metric"]))
        if "bytes.codes" in arrays:
            coded = ByteRows(*(arrays[f"bytes.{name}"] for name in ByteRows._fields))
            check_byte_rows(coded, len(index.rows_of) - 1, rows.shape[1])
            index._bytes = coded
        return index


def _needed(
    true: NDArray[np.int64],
    near: NDArray[np.int32],
    visited: NDArray[np.bool_],
    n: int,
    recall: float,
) -> int:
    """How many of the rows `near` that are `visited`, of `n`, hold that share of the true ones."""
    place, ranks = np.empty(n, np.int64), np.empty(true.shape, np.int64)
    for i in range(len(true)):
        found = near[i, visited[i]]
        place[:] = near.shape[1]
        place[found] = np.arange(len(found))
        ranks[i] = place[true[i]]
    return min(near.shape[1], int(np.quantile(ranks, recall, method="higher")) + 1)


def _check_slots(
    rows_of: NDArray[np.int32], coded: CodedCells, n: int, tuned: NDArray[np.int64]
) -> None:
    """Refuse slots that do not hold every row once, and a plan that cannot be."""
    check_fitted_array("rows_of", rows_of, (len(coded.offsets) + 1,), "i")
    check_fitted_array("tuned", tuned, (3,), "i")
    held = rows_of[:-1] >= 0
    if rows_of.dtype != np.int32 or rows_of[-1] != -1 or rows_of.max() >= n:
        raise ValueError(f"rows_of is not of {n} rows")
    if held.sum() != n or (np.bincount(rows_of[:-1][held], minlength=n) != 1).any():
        raise ValueError(f"rows_of does not hold each of {n} rows once")
    if (held != (coded.offsets < np.inf)).any() or tuned.min() < 0:
        raise ValueError("offsets and rows_of differ in their empty slots")


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
