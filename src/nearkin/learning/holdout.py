"""Rows held out from learning, on which all settings are selected.

Held-out rows take no step and are no row's target or impostor. They stay in the database, where
their neighbours vote on them: leave-one-out on rows that M was fitted to is far too optimistic.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.native.blas import multiply_into
from nearkin.native.listed_scores import pair_scores
from nearkin.neighborhoods import NeighborLists, as_graph, check_lists
from nearkin.validation.caller import warn_caller
from nearkin.voting.choice import Ballot, ChosenVote, choose
from nearkin.voting.lists import lists_of

Array = NDArray[np.float32]

MAX_HELD_OUT = 5_000
_BLOCK = 16_384


@dataclass(frozen=True)
class HoldOut:
    """Held-out rows and the neighbours that vote on them.

    Attributes
    ----------
    held : (n,) bool array
    voters : (m, k) int32 array
        Neighbours of the held-out rows, padded with −1.
    """

    held: NDArray[np.bool_]
    voters: NDArray[np.int32]

    def __bool__(self) -> bool:
        return bool(self.held.any())

    @classmethod
    def none(cls, n: int) -> Self:
        """No row is held out."""
        return cls(np.zeros(n, bool), np.empty((0, 1), np.int32))

    @classmethod
    def draw(
        cls,
        neighbors: NeighborLists,
        labels: NDArray[np.integer],
        fraction: float,
        rng: np.random.Generator,
    ) -> Self:
        """Hold out a stratified `fraction` of the rows that have neighbours."""
        return cls.of(held_out(labels, fraction, rng), neighbors)

    @classmethod
    def of(cls, marked: NDArray[np.bool_], neighbors: NeighborLists) -> Self:
        """Hold out those of the marked rows that have neighbours."""
        n = len(marked)
        check_lists(neighbors, n)
        held = marked.copy()
        voters = lists_of(neighbors, np.flatnonzero(held), n)
        known = voters.max(axis=1) >= 0
        held[held] = known
        return cls(held, voters[known])

    def accuracy(self, rows: Array, labels: NDArray[np.integer], matrix: Array) -> float:
        """Accuracy of the best soft vote on the held-out rows under a matrix."""
        queries = rows[self.held]
        products = np.empty_like(queries)
        multiply_into(products, queries, matrix)
        return self.choose_vote(pair_scores(products, rows, self.voters), labels).accuracy

    def choose_vote(self, scores: Array, labels: NDArray[np.integer]) -> ChosenVote:
        """The vote that is best for these scores of the voters."""
        n_classes = int(labels.max()) + 1
        return choose(Ballot(scores, labels[self.voters], labels[self.held], n_classes))

    def training_lists(self, neighbors: NeighborLists) -> NeighborLists:
        """The lists for learning: held-out rows have none and are in no other row's."""
        held = self.held
        check_lists(neighbors, len(held))
        if isinstance(neighbors, np.ndarray):
            lists = np.full(neighbors.shape, -1, np.int32)
            for lo in range(0, len(held), _BLOCK):
                part = neighbors[lo : lo + _BLOCK].astype(np.int32)
                gone = held[lo : lo + _BLOCK, None] | held[part]
                lists[lo : lo + _BLOCK] = np.where(gone, -1, part)
            return lists
        graph = as_graph(neighbors, len(held))
        row = np.repeat(np.arange(len(held), dtype=np.int32), np.diff(graph.indptr))
        keep = ~(held[row] | held[graph.indices])
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row[keep], minlength=len(held)))])
        return sparse.csr_array((graph.data[keep], graph.indices[keep], indptr), shape=graph.shape)


def validation_rows(
    neighbors: NeighborLists, labels: NDArray[np.integer], fraction: float, seed: int
) -> HoldOut:
    """The rows that early stopping judges on: a share of them, or none."""
    if not fraction:
        return HoldOut.none(len(labels))
    if labels.ndim == 2:
        raise ValueError(
            f"validation_fraction={fraction} judges by votes for one label per row, and y has "
            "several; give validation_fraction=0"
        )
    holdout = HoldOut.draw(neighbors, labels, fraction, np.random.default_rng(seed))
    if not holdout:
        warn_caller(
            f"validation_fraction={fraction} of classes this small holds no row out, so all "
            "epochs are run; raise it or give more rows per class"
        )
    return holdout


def held_out(
    labels: NDArray[np.integer], fraction: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Mark a stratified `fraction` of the rows, at most 5,000 in all.

    Each class keeps at least two rows, so that they still have a target.
    """
    n = len(labels)
    share = min(fraction, MAX_HELD_OUT / n)
    order = np.lexsort((rng.random(n), labels))  # by class, in random order within
    counts = np.bincount(labels)
    start = np.repeat(np.cumsum(counts) - counts, counts)
    place = np.arange(n) - start  # place of a row within its class
    size = counts[labels[order]]
    # A random offset per class rounds its share up or down, so that small classes are included.
    quota = np.floor(size * share + rng.random(len(counts))[labels[order]])
    mask = np.zeros(n, bool)
    mask[order] = place < np.minimum(quota, np.maximum(size - 2, 0))
    return mask


def sample(labels: NDArray[np.integer], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most `most` row numbers, in order; stratified by class, to within a row.

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
