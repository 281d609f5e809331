"""The k nearest rows through any back end: ``(distances, indices)``, or indices alone.

``indices`` is an (n, k) int32 array, nearest first; a row is never its own neighbour; ``-1`` fills
places that an approximate index left empty. ``distances`` are Euclidean and exact for the rows
that were found, whatever the back end computes with.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from nearkin.io.progress_bar import track
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.neighbors.base import Array, Index, Metric, blocks
from nearkin.neighbors.lists import (
    QUERY_BLOCK,
    Neighbors,
    query_neighbors,
    row_lists,
    row_neighbors,
)
from nearkin.neighbors.registry import EXACT_ROWS, IndexDescription, build, known_index, resolve
from nearkin.neighbors.shards import SHARD_ROWS, nearest_in_shards
from nearkin.validation import expect
from nearkin.validation.arrays import as_rows
from nearkin.validation.caller import warn_caller
from nearkin.validation.parameters import checked, require

__all__ = ["EXACT_ROWS", "NeighborIndex", "nearest", "recall"]


Lists = NDArray[np.int32]


@overload
def nearest(
    X: ArrayLike,
    k: int,
    *,
    queries: ArrayLike | None = ...,
    index: IndexDescription = ...,
    return_distance: Literal[True] = ...,
    folder: str | os.PathLike[str] | RunFolder | None = ...,
    n_jobs: int | None = ...,
    verbose: int = ...,
) -> Neighbors: ...


@overload
def nearest(
    X: ArrayLike,
    k: int,
    *,
    queries: ArrayLike | None = ...,
    index: IndexDescription = ...,
    return_distance: Literal[False],
    folder: str | os.PathLike[str] | RunFolder | None = ...,
    n_jobs: int | None = ...,
    verbose: int = ...,
) -> Lists: ...


@checked(
    index=known_index,
    return_distance=expect.flag,
    n_jobs=expect.jobs,
    verbose=expect.verbosity,
)
def nearest(
    X: ArrayLike,
    k: int,
    *,
    queries: ArrayLike | None = None,
    index: IndexDescription = "auto",
    return_distance: bool = True,
    folder: str | os.PathLike[str] | RunFolder | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Neighbors | Lists:
    """Find the `k` nearest rows of `X` for each query, or for each row of `X` itself.

    Parameters
    ----------
    X : array-like of shape (n, D)
        The database: an array or a memory map.
    k : int
        Neighbours per query.
    queries : array-like of shape (m, D), optional
        If omitted, every row of `X` is a query and is excluded from its own list.
    index : str
        ``"exact"``; ``"cells"``, approximate and made for querying all rows at once, at a
        recall that it measures on a sample (0.95; ``"cells;recall=0.9"``); a faiss
        index-factory string such as ``"IVF1024,Flat"``, ``"HNSW32"`` or, for hashing, ``"LSH"``,
        with search parameters after a semicolon (``"IVF1024,Flat;nprobe=64"``); a name given to
        `register`; or ``"auto"``: exact up to 100,000 rows, then cells (``"auto;recall=0.9"``: at
        that recall).
    return_distance : bool
        False returns the indices alone, which learning needs. By cells, the lists of the rows
        themselves then take about a third less time: they hold the same rows, and those that
        are almost equally near may have changed places.
    folder : path or nearkin.RunFolder, optional
        For lists that do not fit into memory or take long: the search is split into
        shards, each written when it is done, and a second call resumes. The arrays returned are
        memory-mapped.
    n_jobs : int, optional
        With `folder`: workers that share the shards, through joblib.
    verbose : int
        Show a progress bar when positive.

    Returns
    -------
    distances : (m, k) float32 array, Euclidean; left out with ``return_distance=False``
    indices : (m, k) int32 array, nearest first

    Examples
    --------
    >>> distances, indices = nearest([[0.0], [1.0], [3.0]], k=1)
    >>> indices.ravel().tolist(), distances.ravel().tolist()
    ([1, 0, 1], [1.0, 1.0, 2.0])
    >>> nearest([[0.0], [1.0], [3.0]], k=1, return_distance=False).ravel().tolist()
    [1, 0, 1]
    """
    from nearkin.neighbors.memory import check_search  # imports the back ends

    place = as_run_folder(folder)
    if place.durable and queries is not None:
        raise ValueError("folder= keeps the lists of the rows of X themselves; leave out queries")
    rows = as_rows(X, "X")
    vectors = _queries(queries, rows)
    check_k(k, len(rows), exclude_self=vectors is None)
    if place.durable:
        jobs = min(effective_n_jobs(n_jobs), -(-len(rows) // SHARD_ROWS))
        check_search(
            rows.shape, k, index, min(len(rows), SHARD_ROWS), jobs, lists=not return_distance
        )
        return nearest_in_shards(rows, k, place, index, n_jobs, verbose, return_distance)
    if vectors is None and not return_distance:
        return own_lists(rows, k, index, verbose).indices
    check_search(rows.shape, k, index, None if vectors is None else len(vectors))
    found = _search(build(rows, index), rows, vectors, k, verbose)
    return found if return_distance else found[1]


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
        vectors = _queries(queries, self.rows)
        check_k(k, len(self.rows), exclude_self=vectors is None)
        return _search(self._back_end, self.rows, vectors, k, verbose)

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


def _queries(queries: ArrayLike | None, rows: Array) -> Array | None:
    return None if queries is None else as_rows(queries, "queries", width=rows.shape[1])


def _search(index: Index, rows: Array, vectors: Array | None, k: int, verbose: int) -> Neighbors:
    index.prepare(k)
    n, order = (len(rows), index.order) if vectors is None else (len(vectors), None)
    found = np.empty((n, k), np.float32), np.empty((n, k), np.int32)
    for at in _in_blocks(n, order, verbose):
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
    for at in _in_blocks(len(rows), index.order, verbose):
        lists[at] = row_lists(index, rows, at, k)
    getattr(index, "release_lists", lambda: None)()
    return lists


def _in_blocks(
    n: int, order: NDArray[np.int64] | None, verbose: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of `n` rows, in an order that may be better than their own."""
    for lo, hi in track(list(blocks(n, QUERY_BLOCK)), "neighbours", show=verbose > 0):
        yield np.arange(lo, hi) if order is None else order[lo:hi]


@checked(sample=expect.whole(1), seed=expect.whole(0))
def recall(X: ArrayLike, indices: ArrayLike, *, sample: int = 1_000, seed: int = 0) -> float:
    """Return the share of the exact neighbours that `indices` holds, on a random sample of rows.

    `indices` are lists of each row's neighbours, as ``nearest(X, k)[1]`` returns.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> recall(X, nearest(X, 5)[1])
    1.0
    """
    rows = as_rows(X, "X")
    lists = _checked_lists(indices, len(rows))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(rows))[:sample])
    _, near = row_neighbors(build(rows, "exact"), rows, chosen, lists.shape[1])
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(near, lists[chosen]))
    return float(hits / near.size)


def _checked_lists(indices: ArrayLike, n: int) -> NDArray[np.integer]:
    """Return `indices` as an array, if it lists neighbours of each of `n` rows."""
    expected = f"an (n, k) array of row indices with n={n}, one list for each row of X, is expected"
    if isinstance(indices, tuple) and len(indices) == 2 and np.ndim(indices[0]) == 2:
        raise ValueError(
            "indices is a pair of distances and indices, as nearest returns; give its second part, "
            "as in recall(X, nearest(X, k)[1])"
        )
    try:
        lists = np.asanyarray(indices)
    except ValueError:
        raise ValueError(f"indices holds lists of different lengths; {expected}") from None
    if lists.ndim != 2 or len(lists) != n or lists.dtype.kind not in "iu":
        raise ValueError(f"indices has shape {lists.shape} and type {lists.dtype}; {expected}")
    if not 1 <= lists.shape[1] < n:
        raise ValueError(
            f"indices lists {lists.shape[1]} neighbours a row; each of {n} rows has between 1 and "
            f"{n - 1}"
        )
    if np.ma.isMaskedArray(lists):
        raise ValueError("indices is a masked array; give indices.filled(-1)")
    if lists.min() < -1 or lists.max() >= n:
        raise ValueError(
            f"indices holds rows {lists.min()} to {lists.max()}; with {n} rows they must lie "
            f"between 0 and {n - 1}, or be -1 for no neighbour"
        )
    return lists


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
