"""An index of rows and its searches in memory, block by block, through any back end."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.io.progress_bar import track
from nearkin.neighbors.base import Array, Index, Metric, blocks
from nearkin.neighbors.lists import (
    Neighbors,
    query_block,
    query_neighbors,
    row_lists,
    row_neighbors,
)
from nearkin.neighbors.registry import IndexDescription, build, resolve
from nearkin.validation import expect
from nearkin.validation.arrays import as_rows
from nearkin.validation.caller import warn_caller
from nearkin.validation.parameters import checked, require

Lists = NDArray[np.int32]


class NeighborIndex:
    """An index of rows, for more than one search. See `nearest`.

    Parameters
    ----------
    X : array-like of shape (n, D)
    index : str
    metric : "euclidean" or "dot"
        With "dot", the nearest rows are those with the largest dot products, which take the
        place of the distances: largest first, and ``-inf`` in empty places.

    Examples
    --------
    >>> index = NeighborIndex([[0.0], [1.0], [3.0]])
    >>> index.nearest(1, queries=[[2.5]])[1].tolist()
    [[2]]
    >>> NeighborIndex([[0.0], [1.0], [3.0]], metric="dot").nearest(2, queries=[[0.5]])[0].tolist()
    [[1.5, 0.5]]
    """

    @checked(metric=expect.choice("euclidean", "dot"))
    def __init__(
        self, X: ArrayLike, index: IndexDescription = "auto", *, metric: Metric = "euclidean"
    ) -> None:
        self.rows = as_rows(X, "X")
        self._back_end = build(self.rows, index, metric)

    def arrays(self, k: int) -> dict[str, NDArray[Any]] | None:
        """What a file keeps of the index, ready for searches of `k` rows; None: it is built anew.

        Only cells are worth keeping: other back ends are made in no time, or by faiss.
        """
        kept = getattr(self._back_end, "arrays", None)
        if kept is None:
            return None
        self._back_end.prepare(k)
        return kept()

    @classmethod
    def restored(cls, rows: Array, index: str, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the index of the same rows that `arrays`, perhaps of a file, has described."""
        restored = cls.__new__(cls)
        restored.rows, back_end = rows, resolve(index, len(rows))
        try:
            restored._back_end = back_end.restored(rows, index, arrays)  # type: ignore[attr-defined]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"search_index_ does not belong to {rows.shape[0]} rows of {rows.shape[1]} "
                f"columns ({error}); fit again, or load another file"
            ) from None
        return restored

    @checked(verbose=expect.verbosity)
    def nearest(self, k: int, queries: ArrayLike | None = None, verbose: int = 0) -> Neighbors:
        """The `k` nearest rows of each query, or of each row but itself."""
        vectors = queries_like(self.rows, queries)
        check_k(k, len(self.rows), exclude_self=vectors is None)
        return search_in_blocks(self._back_end, self.rows, vectors, k, verbose)

    @checked(verbose=expect.verbosity)
    def lists(self, k: int, verbose: int = 0) -> Lists:
        """The `k` nearest rows of each row but itself, without distances: see `nearest`."""
        check_k(k, len(self.rows), exclude_self=True)
        return _lists(self._back_end, self.rows, k, verbose)


def index_of(
    rows: Array, index: IndexDescription, kept: Mapping[str, NDArray[Any]] | None
) -> NeighborIndex:
    """The index of rows, from what a file has kept of it if there is such a thing."""
    if kept is not None and hasattr(resolve(index, len(rows)), "restored"):
        return NeighborIndex.restored(rows, index, kept)
    return NeighborIndex(rows, index)


class OwnLists(NamedTuple):
    """Neighbour lists of all rows, and the rows' cells if the index has some."""

    indices: Lists
    cells: Lists | None


def own_lists(X: ArrayLike, k: int, index: str, verbose: int = 0) -> OwnLists:
    """The `k` nearest rows of each row but itself, without distances: for learning."""
    from nearkin.neighbors.memory import check_search  # imports the back ends

    rows = as_rows(X, "X")
    check_k(k, len(rows), exclude_self=True)
    check_search(rows.shape, k, index, lists=True)
    found = build(rows, index)
    return OwnLists(_lists(found, rows, k, verbose), getattr(found, "row_cells", None))


def queries_like(rows: Array, queries: ArrayLike | None) -> Array | None:
    """Queries, checked, of the width of the rows; None stands for the rows themselves."""
    return None if queries is None else as_rows(queries, "queries", width=rows.shape[1])


def search_in_blocks(
    index: Index, rows: Array, vectors: Array | None, k: int, verbose: int
) -> Neighbors:
    """The nearest rows of each vector, or of each row but itself, with distances."""
    index.prepare(k)
    n, order = (len(rows), index.order) if vectors is None else (len(vectors), None)
    found = np.empty((n, k), np.float32), np.empty((n, k), np.int32)
    for at in _in_blocks(n, k, order, verbose):
        if vectors is None:
            found[0][at], found[1][at] = row_neighbors(index, rows, at, k)
        else:
            asked = vectors[at[0] : at[-1] + 1]
            found[0][at], found[1][at] = query_neighbors(index, rows, asked, k)
    return found


def _lists(index: Index, rows: Array, k: int, verbose: int) -> Lists:
    """Lists of all rows, without distances."""
    index.prepare(k)
    lists = np.empty((len(rows), k), np.int32)
    for at in _in_blocks(len(rows), k, index.order, verbose):
        lists[at] = row_lists(index, rows, at, k)
    getattr(index, "release_lists", lambda: None)()
    return lists


def _in_blocks(
    n: int, k: int, order: NDArray[np.int64] | None, verbose: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of `n` rows, in an order that may be better than their own."""
    for lo, hi in track(list(blocks(n, query_block(k))), "neighbours", show=verbose > 0):
        yield np.arange(lo, hi) if order is None else order[lo:hi]


def clip_n_neighbors(n_neighbors: int, n: int, name: str = "n_neighbors") -> int:
    """Return `n_neighbors`, at most ``n - 1``, with a warning if it is lowered."""
    k = min(n_neighbors, n - 1)
    if k < n_neighbors:
        warn_caller(f"{name}={n_neighbors} but X has {n} rows; {k} are used")
    return k


def check_k(k: int, n: int, exclude_self: bool) -> None:
    """Refuse to search for more neighbours than there are rows."""
    if exclude_self and n == 1:
        raise ValueError("X has one row, which has no neighbours; at least two rows are needed")
    require("k", k, expect.whole(1))
    most = n - 1 if exclude_self else n
    if k > most:
        raise ValueError(
            f"k={k} neighbours were requested of {n} rows; "
            f"k must be between 1 and {most}: lower k or add rows"
        )
