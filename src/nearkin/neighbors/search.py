"""The k nearest rows through any back end: ``(distances, indices)``, or indices alone.

``indices`` is an (n, k) int32 array, nearest first; a row is never its own neighbour; ``-1`` fills
places that an approximate index left empty. ``distances`` are Euclidean and exact for the rows
that were found, whatever the back end computes with.
"""

import os
from typing import Literal, overload

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray

from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.neighbors.index import Lists, check_k, own_lists, queries_like, search_in_blocks
from nearkin.neighbors.lists import Neighbors, row_neighbors
from nearkin.neighbors.registry import IndexDescription, build, index_problem
from nearkin.neighbors.shards import SHARD_ROWS, nearest_in_shards
from nearkin.validation import expect
from nearkin.validation.arrays import as_rows
from nearkin.validation.parameters import checked


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
    index=index_problem,
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
        False returns the indices alone, which learning needs. By cells, long lists of the rows
        themselves then take up to a fifth less time: they hold the same rows, and those that
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
    vectors = queries_like(rows, queries)
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
    found = search_in_blocks(build(rows, index), rows, vectors, k, verbose)
    return found if return_distance else found[1]


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
