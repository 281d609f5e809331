"""Scores and distances of queries and the rows listed for them, without a matrix of all pairs."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import in_threads
from nearkin.native.vectors import dot, jit, read_only, squared_distance

_QUERIES_AT_ONCE = 256  # that share rows; their own stay in the cache
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
    arrays = read_only(Q), read_only(Z), read_only(indices), out
    in_threads(partial(_pair_values, products, *arrays), len(indices))
    return out


@jit
def _pair_values(products, Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    """Fill the rows ``lo:hi``: in the order of the rows of Z where many queries share them.

    A row is then read from memory once for all queries of a block.
    """
    width = indices.shape[1]
    for first in range(lo, hi, _QUERIES_AT_ONCE):
        last = min(first + _QUERIES_AT_ONCE, hi)
        if _ROWS_A_PAIR * (last - first) * width < len(Z):
            for i in range(first, last):
                for n in range(width):
                    out[i, n] = _pair_value(products, Q[i], Z, indices[i, n])
        else:
            queries, places = _by_row(indices[first:last], len(Z))
            for m in range(len(places)):
                i, n = first + queries[m], places[m]
                out[i, n] = _pair_value(products, Q[i], Z, indices[i, n])


@jit
def _pair_value(products, q, Z, j):  # type: ignore[no-untyped-def]
    if products:
        return dot(q, Z[j]) if j >= 0 else np.float32(-np.inf)
    return squared_distance(q, Z[j]) if j >= 0 else np.float32(np.inf)


@jit
def _by_row(indices, n_rows):  # type: ignore[no-untyped-def]
    """Lists and places in them, in the order of the rows that they hold."""
    width = indices.shape[1]
    ends = np.zeros(n_rows + 2, np.int64)
    for i in range(len(indices)):
        for n in range(width):
            ends[indices[i, n] + 2] += 1  # -1 comes first
    for j in range(n_rows + 1):
        ends[j + 1] += ends[j]
    queries, places = np.empty(indices.size, np.int32), np.empty(indices.size, np.int32)
    for i in range(len(indices)):
        for n in range(width):
            j = indices[i, n] + 1
            queries[ends[j]], places[ends[j]] = i, n
            ends[j] += 1
    return queries, places
