"""Scores and distances of listed pairs of rows, without a matrix of all pairs."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import in_threads
from nearkin.native.vectors import dot, jit, read_only, squared_distance


def pair_scores(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Inner products of each row of `Q` with the rows of `Z` that `indices` lists for it.

    ``-1`` in `indices` gives ``-inf``. Needs no memory beside the result.
    """
    return _for_pairs(_pair_scores, Q, Z, indices)


def pair_squared_distances(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Squared distances of the same pairs as in `pair_scores`; ``-1`` gives infinity."""
    return _for_pairs(_pair_squared_distances, Q, Z, indices)


def pair_closeness(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32], scale: float
) -> NDArray[np.float32]:
    """``scale − |q − z|²/2`` of the same pairs: equal to q·z for rows of length √scale."""
    closeness = pair_squared_distances(Q, Z, indices)
    closeness *= np.float32(-0.5)
    closeness += np.float32(scale)
    return closeness


def _for_pairs(
    fill: Callable[..., None],
    Q: NDArray[np.float32],
    Z: NDArray[np.float32],
    indices: NDArray[np.int32],
) -> NDArray[np.float32]:
    if Q.shape[1:] != Z.shape[1:] or len(indices) != len(Q):
        raise ValueError(f"Q, Z and indices have shapes {Q.shape}, {Z.shape} and {indices.shape}")
    if indices.size and not -1 <= indices.min() <= indices.max() < len(Z):
        raise ValueError(f"indices holds {indices.min()} to {indices.max()} for {len(Z)} rows")
    out = np.empty(indices.shape, np.float32)
    in_threads(partial(fill, read_only(Q), read_only(Z), read_only(indices), out), len(indices))
    return out


@jit
def _pair_scores(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        q = Q[i]
        for n in range(indices.shape[1]):
            j = indices[i, n]
            out[i, n] = dot(q, Z[j]) if j >= 0 else -np.inf


@jit
def _pair_squared_distances(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        for n in range(indices.shape[1]):
            j = indices[i, n]
            out[i, n] = squared_distance(Q[i], Z[j]) if j >= 0 else np.inf
