"""Scores and distances of listed pairs, scores of edges, Eq. 6: compiled code, threads around it.

Arrays and scalars in, arrays out. Everything here releases the GIL; threads are laid around it,
each with rows of its own.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.sampling import AllPairs, apply_rule
from nearkin.native.blas import multiply_into
from nearkin.native.threads import in_threads
from nearkin.native.vectors import dot, jit, read_only

Graph = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
ALL = AllPairs().function()
SCORE_ROWS = 4_096


@jit
def _pair_scores(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        q = Q[i]
        for n in range(indices.shape[1]):
            j = indices[i, n]
            out[i, n] = dot(q, Z[j]) if j >= 0 else -np.inf


@jit
def squared_distance(q, z):  # type: ignore[no-untyped-def]
    """``|q − z|²``, from the differences: as exact where rows are far from the origin."""
    total = np.float32(0)
    for d in range(len(q)):
        total += (q[d] - z[d]) * (q[d] - z[d])
    return total


@jit
def _pair_squared_distances(Q, Z, indices, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        for n in range(indices.shape[1]):
            j = indices[i, n]
            out[i, n] = squared_distance(Q[i], Z[j]) if j >= 0 else np.inf


@jit
def _edge_scores(X, graph, Q, first, out, lo, hi):  # type: ignore[no-untyped-def]
    indptr, indices, _ = graph
    for b in range(lo, hi):
        for e in range(indptr[first + b], indptr[first + b + 1]):
            out[e] = dot(Q[b], X[indices[e]])


@jit
def _objective(graph, scores, margin, lo, hi):  # type: ignore[no-untyped-def]
    indptr, _, n_targets = graph
    total = 0.0
    for i in range(lo, hi):
        row = scores[indptr[i] : indptr[i + 1]]
        n_impostors = len(row) - n_targets[i]
        if n_targets[i] > 0 and n_impostors > 0:
            c = np.empty(len(row), np.float32)
            mean = apply_rule(ALL, row, n_targets[i], margin, 0.0, c)
            total += mean * n_targets[i] * n_impostors
    return total


def edge_scores(
    X: NDArray[np.float32], graph: Graph, M: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Similarity of the two ends of every edge, in the order of the graph's `indices`."""
    out = np.empty(len(graph[1]), np.float32)
    X = read_only(X)
    for first in range(0, len(X), SCORE_ROWS):
        Q = np.empty_like(X[first : first + SCORE_ROWS])
        multiply_into(Q, X[first : first + SCORE_ROWS], M)
        score = partial(_edge_scores, X, graph, Q, first, out)
        in_threads(score, len(Q))
    return out


def objective(graph: Graph, scores: NDArray[np.float32], margin: float) -> float:
    """Eq. 6: the hinge loss of all triplets, from the scores of all edges."""
    parts = in_threads(partial(_objective, graph, scores, margin), len(graph[0]) - 1)
    return float(sum(parts))


def pair_scores(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Inner products of each row of `Q` with the rows of `Z` that `indices` lists for it.

    ``-1`` in `indices` gives ``-inf``. Memory: the result alone.
    """
    return _of_pairs(_pair_scores, Q, Z, indices)


def pair_squared_distances(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Squared distances, in the manner of `pair_scores`; ``-1`` gives infinity."""
    return _of_pairs(_pair_squared_distances, Q, Z, indices)


def pair_closeness(
    Q: NDArray[np.float32], Z: NDArray[np.float32], indices: NDArray[np.int32], scale: float
) -> NDArray[np.float32]:
    """``scale − |q − z|²/2``, in the manner of `pair_scores`: for rows of length √scale, q·z."""
    closeness = pair_squared_distances(Q, Z, indices)
    closeness *= np.float32(-0.5)
    closeness += np.float32(scale)
    return closeness


def _of_pairs(
    fill: Callable[..., None],
    Q: NDArray[np.float32],
    Z: NDArray[np.float32],
    indices: NDArray[np.int32],
) -> NDArray[np.float32]:
    out = np.empty(indices.shape, np.float32)
    in_threads(partial(fill, read_only(Q), read_only(Z), read_only(indices), out), len(indices))
    return out
