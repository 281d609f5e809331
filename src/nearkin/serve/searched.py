"""What the service asks of a similarity over stored rows: shortlists of queries."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import single_threaded

Array = NDArray[np.float32]
Places = NDArray[np.int32]

RAW, LEARNED = "raw", "learned"  # the sides of a model: raw cosine, the learned similarity
SMALL = 300_000_000  # products that one core computes in some milliseconds
CLASS_BLOCK = 65_536  # rows of a class that are searched at a time


class Shortlist(NamedTuple):
    """Prepared queries, and the rows that are nearest to them; ``-1`` and −inf for no row."""

    queries: Array
    scores: Array
    indices: Places


class SearchedSide(ABC):
    """Stored rows, and what finds those near to queries.

    Attributes
    ----------
    model : what the rows belong to
    n_rows, width : of the stored rows
    shortlist : rows that are found at most
    """

    model: Any
    n_rows: int
    width: int
    shortlist: int

    @abstractmethod
    def near_vectors(self, vectors: Array) -> Shortlist:
        """The rows nearest to vectors as they were given, of one request or more."""

    @abstractmethod
    def near_stored(self, rows: NDArray[np.integer]) -> Shortlist:
        """The rows nearest to stored rows, most of which find themselves."""

    @abstractmethod
    def near_in_class(
        self, vectors: Array | None, own: NDArray[np.integer] | None, members: NDArray[np.integer]
    ) -> Shortlist:
        """The shortlist among the rows of one class, for vectors or for stored rows, `own`."""

    @abstractmethod
    def compared(self, rows: NDArray[np.integer]) -> Array:
        """Rows whose dot products are, as far as that is possible, the similarity."""

    def without_own(self, near: Shortlist, own: NDArray[np.integer] | None) -> Shortlist:
        """What was found near, as long as the shortlist: without `own`, or without the last."""
        queries, scores, indices = near
        if own is None and self.shortlist == indices.shape[1]:
            return near
        mine = np.zeros(indices.shape, bool) if own is None else indices == own[:, None]
        mine[~mine.any(axis=1), -1] = True
        return Shortlist(
            queries,
            np.where(mine, np.float32(-np.inf), scores),
            np.where(mine, np.int32(-1), indices),
        )


def class_blocks(members: NDArray[np.integer]) -> Iterator[NDArray[np.integer]]:
    """The rows of a class, so many that a search of them fits into memory."""
    for lo in range(0, len(members), CLASS_BLOCK):
        yield members[lo : lo + CLASS_BLOCK]


def threads_for(products: int) -> AbstractContextManager[None]:
    """One thread, where several would wait for each other longer than they work."""
    return single_threaded() if products <= SMALL else nullcontext()
