"""The objective of SL-NE (Eq. 6): the hinge loss summed over all triplets.

Its margin b is a parameter of the sampling rule (`learning.sampling`).
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.sampling import AllPairs, apply_rule
from nearkin.native.blas import multiply_into
from nearkin.native.threads import in_threads
from nearkin.native.vectors import dot, jit, read_only

Graph = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]

_ALL_PAIRS = AllPairs().function()
_BLOCK_ROWS = 4_096  # rows whose products with M are kept at a time


def edge_scores(
    X: NDArray[np.float32], graph: Graph, M: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Similarity ``x_iᵀ M x_j`` of every edge (i, j), in the order of the graph's `indices`."""
    out = np.empty(len(graph[1]), np.float32)
    X = read_only(X)
    for first in range(0, len(X), _BLOCK_ROWS):
        Q = np.empty_like(X[first : first + _BLOCK_ROWS])
        multiply_into(Q, X[first : first + _BLOCK_ROWS], M)
        in_threads(partial(_edge_scores, X, graph, Q, first, out), len(Q))
    return out


def objective(graph: Graph, scores: NDArray[np.float32], margin: float) -> float:
    """Eq. 6 from the scores of all edges (`edge_scores`)."""
    losses = np.zeros(len(graph[0]) - 1)  # a sum by threads would depend on their number
    in_threads(partial(_row_losses, graph, scores, margin, losses), len(losses))
    return float(losses.sum())


@jit
def _edge_scores(X, graph, Q, first, out, lo, hi):  # type: ignore[no-untyped-def]
    indptr, indices, _ = graph
    for b in range(lo, hi):
        for e in range(indptr[first + b], indptr[first + b + 1]):
            out[e] = dot(Q[b], X[indices[e]])


@jit
def _row_losses(graph, scores, margin, losses, lo, hi):  # type: ignore[no-untyped-def]
    indptr, _, n_targets = graph
    for i in range(lo, hi):
        row = scores[indptr[i] : indptr[i + 1]]
        n_impostors = len(row) - n_targets[i]
        if n_targets[i] > 0 and n_impostors > 0:
            c = np.empty(len(row), np.float32)
            mean = apply_rule(_ALL_PAIRS, row, n_targets[i], margin, 0.0, c)
            losses[i] = mean * n_targets[i] * n_impostors
