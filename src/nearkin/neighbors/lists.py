"""From what an index found to neighbour lists: without the row itself, by true distance."""

import numpy as np
from numpy.typing import NDArray

from nearkin.native.pairs import pair_squared_distances
from nearkin.native.threads import in_threads
from nearkin.neighbors.base import Index

Neighbors = tuple[NDArray[np.float32], NDArray[np.int32]]  # distances, indices

QUERY_BLOCK = 4_096  # rows that ask at once


def near_rows(index: Index, rows: NDArray[np.float32], at: NDArray[np.int64], k: int) -> Neighbors:
    """Lists of the rows `at`, themselves left out."""
    asked = np.ascontiguousarray(rows[at])
    # A row finds itself first; one more than asked for leaves k when it is taken out.
    near = _without_self(index.search(asked, k + 1), at)
    return by_distance(rows, asked, near, k)


def by_distance(
    rows: NDArray[np.float32], asked: NDArray[np.float32], near: NDArray[np.int64], k: int
) -> Neighbors:
    """The `k` nearest of what was found for each row of `asked`, nearest first."""
    found = near.astype(np.int32)
    squared = pair_squared_distances(asked, rows, found)
    indices = np.empty((len(asked), k), np.int32)
    distances = np.empty((len(asked), k), np.float32)

    def sort(lo: int, hi: int) -> None:
        order = np.argsort(squared[lo:hi], axis=1, kind="stable")[:, :k]
        indices[lo:hi] = np.take_along_axis(found[lo:hi], order, axis=1)
        distances[lo:hi] = np.sqrt(np.take_along_axis(squared[lo:hi], order, axis=1))

    in_threads(sort, len(asked))
    return distances, indices


def _without_self(near: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop each row's own index; where it was not found (duplicates), drop the last."""
    mine = near == own[:, None]
    mine[~mine.any(axis=1), -1] = True
    return near[~mine].reshape(len(near), -1)
