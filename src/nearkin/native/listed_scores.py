"""Scores and distances of queries and the rows listed for them, without a matrix of all pairs."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.listed_values import fill_fetched, fill_values
from nearkin.native.threads import in_threads
from nearkin.native.vectors import jit, prefetch_row, read_only

_QUERIES_AT_ONCE = 1_024  # that share rows; their own stay in the last cache
_ROWS_A_PAIR = 8  # with more, rows are not shared, and sorting by row does not pay


def pair_scores(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Inner products of each row of `Q` with the rows of `Z` that `indices` lists for it.

    ``-1`` in `indices` gives ``-inf``. Needs no memory beside the result.
    """
    return _for_pairs(True, Q, Z, indices)


def pair_squared_distances(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Squared distances of the same pairs as in `pair_scores`; ``-1`` gives infinity."""
    return _for_pairs(False, Q, Z, indices)


def pair_closeness(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32], scale: float
) -> NDArray[np.float32]:
    """``scale − |q − z|²/2`` of the same pairs: equal to q·z for rows of length √scale."""
    closeness = pair_squared_distances(Q, Z, indices)
    closeness *= np.float32(-0.5)
    closeness += np.float32(scale)
    return closeness


def _for_pairs(
    products: bool,
    Q: NDArray[np.float32],
    Z: NDArray[np.float32],
    indices: NDArray[np.int32],
) -> NDArray[np.float32]:
    if Q.shape[1:] != Z.shape[1:] or len(indices) != len(Q):
        raise ValueError(f"Q, Z and indices have shapes {Q.shape}, {Z.shape} and {indices.shape}")
    if indices.size and not -1 <= indices.min() <= indices.max() < len(Z):
        raise ValueError(f"indices holds {indices.min()} to {indices.max()} for {len(Z)} rows")
    out = np.empty(indices.shape, np.float32)
    Q, Z, indices = (  # rows one behind the other, as compiled code reads them
        np.ascontiguousarray(array, kind) for array, kind in ((Q, "f4"), (Z, "f4"), (indices, "i4"))
    )
    arrays = read_only(Q), read_only(Z), read_only(indices), out
    in_threads(partial(_pair_values, products, *arrays), len(indices))
    return out


@jit
def _pair_values(products, Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    """Fill the rows ``lo:hi``: in the order of the rows of Z where many queries share them.

    A row is then read from memory once for all queries of a block.
    """
    for first in range(lo, hi, _QUERIES_AT_ONCE):
        last = min(first + _QUERIES_AT_ONCE, hi)
        if _ROWS_A_PAIR * (last - first) * indices.shape[1] < len(Z):
            for i in range(first, last):
                fill_fetched(products, Z, np.maximum(indices[i], 0), Q[i], out[i])
                for n in range(indices.shape[1]):
                    if indices[i, n] < 0:
                        out[i, n] = -np.inf if products else np.inf
        else:
            _of_shared_rows(products, Q[first:last], Z, indices[first:last], out[first:last])


@jit
def _of_shared_rows(products, Q, Z, indices, out):  # type: ignore[no-untyped-def]
    """Values of all pairs, row by row; the next row is fetched while one is read.

    Rows come in the order in which the queries list them: those that one query lists are listed by
    the queries beside it, which are then still in the cache.
    """
    rows, queries, places, ends = _by_row(indices, len(Z))
    values = np.empty(len(Q) * indices.shape[1], np.float32)
    for m in range(ends[0]):
        out[queries[m], places[m]] = -np.inf if products else np.inf
    for r in range(len(rows)):
        begin, end = ends[r], ends[r + 1]
        if r + 1 < len(rows):
            prefetch_row(Z[rows[r + 1]])
        fill_values(products, Q, queries[begin:end], Z[rows[r]], values[: end - begin])
        for m in range(begin, end):
            out[queries[m], places[m]] = values[m - begin]


@jit
def _by_row(indices, n_rows):  # type: ignore[no-untyped-def]
    """The rows in the lists, as they come up; lists and places in them by row, and where rows end.

    Places without a row come first, up to the first end.
    """
    width, n = indices.shape[1], 0
    rank = np.full(n_rows + 1, -1, np.int32)  # the last, which is that of no row, stays as it is
    rows = np.empty(min(indices.size, n_rows), np.int32)
    ends = np.zeros(len(rows) + 2, np.int64)
    for i in range(len(indices)):
        for place in range(width):
            j = indices[i, place]
            if j >= 0 and rank[j] < 0:
                rank[j], rows[n] = n, j
                n += 1
            ends[rank[j] + 2] += 1
    for r in range(n + 1):
        ends[r + 1] += ends[r]
    queries, places = np.empty(indices.size, np.int32), np.empty(indices.size, np.int32)
    for i in range(len(indices)):
        for place in range(width):
            r = rank[indices[i, place]] + 1
            queries[ends[r]], places[ends[r]] = i, place
            ends[r] += 1
    return rows[:n], queries, places, ends[: n + 1]
