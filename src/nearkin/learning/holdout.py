"""Rows held out from learning, to choose by."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.native.blas import multiply_into
from nearkin.native.pairs import pair_scores
from nearkin.neighborhoods import NeighborLists, as_graph, check_lists
from nearkin.voting import votes
from nearkin.voting.lists import filled

MOST_ROWS = 5_000
_ROWS = 16_384


def hold_out(
    neighbors: NeighborLists,
    labels: NDArray[np.integer],
    fraction: float,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], NDArray[np.int32]]:
    """Choose rows to hold out; give their mark and their neighbours.

    Rows without neighbours, because somebody else holds them out, are passed over.
    """
    check_lists(neighbors, len(labels))
    held = held_out(labels, fraction, rng)
    lists = lists_of(neighbors, np.flatnonzero(held), len(labels))
    known = lists.max(axis=1) >= 0
    held[held] = known
    return held, lists[known]


def held_out(
    labels: NDArray[np.integer], fraction: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark a stratified `fraction` of the rows, at most 5,000 in all.

    A class gives up rows only while it keeps two, so that its others still have a target.
    """
    n = len(labels)
    share = min(fraction, MOST_ROWS / n)
    order = np.lexsort((rng.random(n), labels))  # by class, in random order within
    counts = np.bincount(labels)
    start = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.arange(n) - start  # place of a row within its class
    size = counts[labels[order]]
    # A random offset per class rounds its share up or down, so that small classes take part.
    quota = np.floor(size * share + rng.random(len(counts))[labels[order]])
    mask = np.zeros(n, bool)
    mask[order] = place < np.minimum(quota, np.maximum(size - 2, 0))
    return mask


def sample(labels: NDArray[np.integer], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most `most` row numbers, in order; each class gives its share, to within a row.

    Examples
    --------
    >>> labels = np.repeat([0, 1], [80, 20])
    >>> np.bincount(labels[sample(labels, 10, np.random.default_rng(0))]).tolist()
    [8, 2]
    """
    n = len(labels)
    if n <= most:
        return np.arange(n)
    order = np.lexsort((rng.random(n), labels))  # by class, in random order within
    places = (np.arange(most) + rng.random()) * n / most
    return np.sort(order[places.astype(np.int64)])


def without(neighbors: NeighborLists, held: NDArray[np.bool_]) -> NeighborLists:
    """Take the held-out rows out: no lists of theirs, and in nobody's list."""
    check_lists(neighbors, len(held))
    if isinstance(neighbors, np.ndarray):
        lists = np.full(neighbors.shape, -1, np.int32)
        for lo in range(0, len(held), _ROWS):
            part = neighbors[lo : lo + _ROWS].astype(np.int32)
            gone = held[lo : lo + _ROWS, None] | held[part]
            lists[lo : lo + _ROWS] = np.where(gone, -1, part)
        return lists
    graph = as_graph(neighbors, len(held))
    row = np.repeat(np.arange(len(held), dtype=np.int32), np.diff(graph.indptr))
    keep = ~(held[row] | held[graph.indices])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=len(held)))])
    return sparse.csr_array((graph.data[keep], graph.indices[keep], indptr), shape=graph.shape)


def lists_of(neighbors: NeighborLists, rows: NDArray[np.integer], n: int) -> NDArray[np.int32]:
    """The neighbours of `rows` but themselves as an array, filled up with −1."""
    ready = isinstance(neighbors, np.ndarray)
    lists = filled((neighbors if ready else as_graph(neighbors, n))[rows])
    lists[lists == rows[:, None]] = -1  # who is held out to judge by must not vote for itself
    return lists


def check_calibration(calibration: Any) -> None:
    """Refuse what is no pair of rows and labels to choose a vote on."""
    if not isinstance(calibration, tuple | list) or len(calibration) != 2:
        many = f" of {len(calibration)}" if isinstance(calibration, tuple | list) else ""
        raise ValueError(
            f"calibration is a {type(calibration).__name__}{many}; a pair is expected: "
            "fit(..., calibration=(rows, labels))"
        )
    rows, labels = (np.shape(part) for part in calibration)  # of sparse rows, too
    if len(rows) != 2 or labels != rows[:1]:
        raise ValueError(
            f"calibration holds rows of shape {rows} and labels of shape {labels}; a "
            "two-dimensional array of rows and one label for each are expected"
        )


class Judge:
    """Accuracy of soft votes on the held-out rows, whose voters are `lists`.

    The vote is the best of the usual ones.
    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        labels: NDArray[np.integer],
        held: NDArray[np.bool_],
        lists: NDArray[np.int32],
    ) -> None:
        self.rows, self.lists, self.n_classes = rows, lists, int(labels.max()) + 1
        self.queries, self.truth = rows[held], labels[held]
        self.labels = labels[self.lists]

    def __call__(self, matrix: NDArray[np.float32]) -> float:
        """Accuracy under a matrix."""
        products = np.empty_like(self.queries)
        multiply_into(products, self.queries, matrix)
        scores = pair_scores(products, self.rows, self.lists)
        return votes.choose(scores, self.labels, self.truth, self.n_classes)[1]
