"""k nearest rows, exactly or through any faiss index; always ``(indices, distances)``.

Every back end keeps one contract: ``indices`` is an (n, k) int32 array, nearest first, a row is
never its own neighbour, ``-1`` fills places that an approximate index left empty; ``distances``
are Euclidean and exact for the rows that were found, whatever the index computed with.
"""

from collections.abc import Iterator

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin._kernel import pair_squared_distances
from nearkin._pca import mean
from nearkin._progress import track
from nearkin._validation import as_rows

Neighbors = tuple[NDArray[np.int32], NDArray[np.float32]]

# Measured: up to here the blocked matrix products of the exact search are about as fast as
# building and searching an approximate index of recall .95.
EXACT_ROWS = 100_000
QUERY_BLOCK = 4_096
DATABASE_BYTES = 256 << 20


def nearest(
    X: ArrayLike,
    k: int,
    *,
    queries: ArrayLike | None = None,
    index: str = "auto",
    verbose: int = 0,
) -> Neighbors:
    """Find the `k` nearest rows of `X` for each query, or for each row of `X` itself.

    Parameters
    ----------
    X : array-like of shape (n, D)
        The database: an array or a memory map.
    k : int
        Neighbours per query.
    queries : array-like of shape (m, D), optional
        Left out, every row of `X` is a query and is kept out of its own list.
    index : str
        ``"exact"``; any faiss index-factory string such as ``"IVF1024,Flat"``, ``"HNSW32"`` or
        ``"LSH"``, with search parameters after a semicolon (``"IVF1024,Flat;nprobe=64"``);
        or ``"auto"``: exact up to 100,000 rows, then an inverted file.
    verbose : int
        Show a progress bar when positive.

    Returns
    -------
    indices : (m, k) int32 array, nearest first
    distances : (m, k) float32 array, Euclidean

    Examples
    --------
    >>> indices, distances = nearest([[0.0], [1.0], [3.0]], k=1)
    >>> indices.ravel().tolist(), distances.ravel().tolist()
    ([1, 0, 1], [1.0, 1.0, 2.0])
    """
    return NeighborIndex(X, index).nearest(k, queries, verbose=verbose)


class NeighborIndex:
    """Rows made ready to be searched, for more than one search. See `nearest`.

    Examples
    --------
    >>> index = NeighborIndex([[0.0], [1.0], [3.0]])
    >>> index.nearest(1, queries=[[2.5]])[0].tolist()
    [[2]]
    """

    def __init__(self, X: ArrayLike, index: str = "auto") -> None:
        self.rows = as_rows(X, "X")
        if not isinstance(index, str):
            raise ValueError(
                f"index={index!r} must be a string: 'auto', 'exact' or a faiss factory"
            )
        if index == "auto":
            cells = int(4 * np.sqrt(len(self.rows)))
            index = "exact" if len(self.rows) <= EXACT_ROWS else f"IVF{cells},Flat"
        self._back_end = _Exact(self.rows) if index == "exact" else _Factory(self.rows, index)

    def nearest(self, k: int, queries: ArrayLike | None = None, verbose: int = 0) -> Neighbors:
        """The `k` nearest rows of each query, or of each row but itself."""
        rows, alone = self.rows, queries is None
        asked = rows if queries is None else as_rows(queries, "queries", width=rows.shape[1])
        most = len(rows) - 1 if alone else len(rows)
        if not 1 <= k <= most:
            raise ValueError(
                f"k={k} neighbours were asked of {len(rows)} rows; "
                f"k must be between 1 and {most}: lower k or add rows"
            )
        found = np.empty((len(asked), k), np.int32)
        for lo, hi in track(list(_blocks(len(asked), QUERY_BLOCK)), "neighbours", show=verbose > 0):
            block = np.ascontiguousarray(asked[lo:hi], np.float32)
            # A row finds itself first; one more than asked for leaves k when it is taken out.
            near = self._back_end.search(block, k + alone)
            found[lo:hi] = _without_self(near, np.arange(lo, hi)) if alone else near
        return _sorted_by_distance(rows, asked, found)


def recall(X: ArrayLike, indices: ArrayLike, *, sample: int = 1_000, seed: int = 0) -> float:
    """Share of the exact neighbours that `indices` holds, on a random sample of rows.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> recall(X, nearest(X, 5)[0])
    1.0
    """
    rows, lists = as_rows(X, "X"), np.asarray(indices)
    k = lists.shape[1]
    chosen = np.random.default_rng(seed).permutation(len(rows))[:sample]
    near = _Exact(rows).search(np.ascontiguousarray(rows[chosen]), k + 1)
    exact = _without_self(near, chosen)
    hits = sum(len(np.intersect1d(a, b)) for a, b in zip(exact, lists[chosen]))
    return float(hits / exact.size)


def _blocks(n: int, size: int) -> Iterator[tuple[int, int]]:
    for lo in range(0, n, size):
        yield lo, min(lo + size, n)


class _Exact:
    """Brute force in blocks of the database, so that a memory map is read in order."""

    def __init__(self, rows: NDArray[np.float32]) -> None:
        self.rows = rows
        self.step = max(1, DATABASE_BYTES // (4 * rows.shape[1]))
        # faiss expands |x-z|² into products; far from the origin they would drown the difference.
        self.centre = mean(rows)

    def search(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        queries = queries - self.centre
        best_d = np.full((len(queries), k), np.inf, np.float32)
        best_i = np.full((len(queries), k), -1, np.int64)
        for lo, hi in _blocks(len(self.rows), self.step):
            block = self.rows[lo:hi] - self.centre
            d, i = faiss.knn(queries, block, min(k, hi - lo))
            d = np.concatenate([best_d, d], axis=1)
            i = np.concatenate([best_i, i + lo], axis=1)
            order = np.argsort(d, axis=1, kind="stable")[:, :k]
            best_d = np.take_along_axis(d, order, axis=1)
            best_i = np.take_along_axis(i, order, axis=1)
        return best_i


class _Factory:
    """Any index that faiss can name."""

    TRAIN_ROWS = 200_000

    def __init__(self, rows: NDArray[np.float32], description: str) -> None:
        factory, _, settings = description.partition(";")
        try:
            self.index = faiss.index_factory(rows.shape[1], factory)
        except RuntimeError as error:
            raise ValueError(
                f"index={description!r} is not understood by faiss ({_reason(error)}); use 'auto', "
                "'exact' or a faiss index-factory string such as 'IVF1024,Flat' or 'HNSW32'"
            ) from None
        step = max(1, len(rows) // self.TRAIN_ROWS)
        try:
            self.index.train(np.ascontiguousarray(rows[::step], np.float32))
        except RuntimeError as error:
            raise ValueError(
                f"index={description!r} cannot be trained on {len(rows)} rows "
                f"({_reason(error)}); use fewer cells or index='exact'"
            ) from None
        for lo, hi in _blocks(len(rows), 65_536):
            self.index.add(np.ascontiguousarray(rows[lo:hi], np.float32))
        self._configure(settings)

    def _configure(self, settings: str) -> None:
        space = faiss.ParameterSpace()
        plain = faiss.downcast_index(self.index)
        if isinstance(plain, faiss.IndexIVF):  # faiss looks into a single cell by default
            space.set_index_parameter(self.index, "nprobe", max(1, int(2 * plain.nlist**0.5)))
        if settings:
            space.set_index_parameters(self.index, settings)  # type: ignore[arg-type]

    def search(self, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        plain = faiss.downcast_index(self.index)
        if isinstance(plain, faiss.IndexHNSW):
            plain.hnsw.efSearch = max(plain.hnsw.efSearch, 2 * k)
        return self.index.search(queries, k)[1]


def _reason(error: Exception) -> str:
    text = str(error).rsplit("Error: ", 1)[-1].strip().splitlines()[0]
    return text.rsplit(": ", 1)[-1] if text.startswith("Error in ") else text


def _without_self(near: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Drop each row's own index; where it was not found (duplicates), drop the last."""
    mine = near == own[:, None]
    mine[~mine.any(axis=1), -1] = True
    return near[~mine].reshape(len(near), -1)


def _sorted_by_distance(
    rows: NDArray[np.float32], asked: NDArray[np.float32], found: NDArray[np.int32]
) -> Neighbors:
    squared = pair_squared_distances(asked, rows, found)
    order = np.argsort(squared, axis=1, kind="stable")
    indices = np.take_along_axis(found, order, axis=1)
    return indices, np.sqrt(np.take_along_axis(squared, order, axis=1))
