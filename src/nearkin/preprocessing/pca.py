"""Principal directions of rows that need not fit in memory, dense or sparse.

All methods read `X` in blocks. The shape alone selects one: the Gram matrix for fewer rows than
columns, the covariance for few columns, randomised subspace iteration for many of both.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

Array = NDArray[np.float32]

BLOCK_BYTES = 64 << 20
MAX_EIGH_SIZE = 5_000  # a symmetric eigenproblem of this size takes half a minute
POWER_ITERATIONS = 4


def row_blocks(X: Any) -> Iterator[tuple[int, Array]]:
    """Yield ``(first row, dense float32 block)``."""
    step = max(1, BLOCK_BYTES // (4 * X.shape[1]))
    for lo in range(0, X.shape[0], step):
        part = X[lo : lo + step]
        dense = part.toarray() if sparse.issparse(part) else part
        yield lo, np.asarray(dense, np.float32)


def mean(X: Any) -> Array:
    """Return column means, summed in double precision."""
    total = np.zeros(X.shape[1])
    for _, block in row_blocks(X):
        total += block.sum(axis=0, dtype=np.float64)
    return (total / X.shape[0]).astype(np.float32)


def principal_directions(
    X: Any, n: int, centre: Array, rng: np.random.Generator, max_eigh: int = MAX_EIGH_SIZE
) -> tuple[Array, Array]:
    """Return the `n` directions of largest variance, an (n, D) array, and their variances."""
    rows, columns = X.shape
    if rows < columns and rows <= 2 * max_eigh:
        directions, variances = _by_gram(X, n, centre)
    elif columns <= max_eigh:
        directions, variances = _by_covariance(X, n, centre)
    else:
        directions, variances = _by_subspace_iteration(X, n, centre, rng)
    return _fix_signs(directions), variances


def scatter(X: Any, centre: Array) -> NDArray[np.float64]:
    """Return the sum of the outer products of the centred rows, a D×D array."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for _, block in row_blocks(X):
        centred = block - centre
        total += centred.T @ centred
    return total


def _by_covariance(X: Any, n: int, centre: Array) -> tuple[Array, Array]:
    D = X.shape[1]
    covariance = scatter(X, centre) / X.shape[0]
    values, vectors = linalg.eigh(covariance, subset_by_index=(D - n, D - 1))
    return vectors[:, ::-1].T.astype(np.float32), _clip_negative(values[::-1])


def _by_gram(X: Any, n: int, centre: Array) -> tuple[Array, Array]:
    N, D = X.shape
    gram = np.zeros((N, N))
    for _, _, block in _column_blocks(X, centre):
        gram += block @ block.T
    if centre.any():
        # The rounding error of the mean would appear as a direction with variance.
        gram -= gram.mean(axis=0)
        gram -= gram.mean(axis=1, keepdims=True)
    values, vectors = linalg.eigh(gram, subset_by_index=(N - n, N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    inverse = np.where(values > values[0] * 1e-10, 1 / np.sqrt(np.maximum(values, 1e-300)), 0)
    weights = (vectors * inverse).T.astype(np.float32)
    directions = np.empty((n, D), np.float32)
    for lo, hi, block in _column_blocks(X, centre):
        directions[:, lo:hi] = weights @ block
    return directions, _clip_negative(values / N)


def _column_blocks(X: Any, centre: Array) -> Iterator[tuple[int, int, Array]]:
    step = max(1, BLOCK_BYTES // (4 * X.shape[0]))
    columns = X.tocsc() if sparse.issparse(X) else X
    for lo in range(0, X.shape[1], step):
        part = columns[:, lo : lo + step]
        dense = part.toarray() if sparse.issparse(part) else part
        block = np.asarray(dense, np.float32) - centre[lo : lo + step]
        yield lo, lo + block.shape[1], block


def _by_subspace_iteration(
    X: Any, n: int, centre: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Block power iteration on the covariance, which is never formed (Halko et al. 2011)."""
    D = X.shape[1]
    width = min(D, n + max(10, n // 10))
    basis = np.linalg.qr(rng.standard_normal((D, width), dtype=np.float32))[0]
    for _ in range(POWER_ITERATIONS):
        basis = np.linalg.qr(_accumulate(X, centre, basis, _scatter_times))[0]
    small = _accumulate(X, centre, basis, _gram_of) / X.shape[0]
    values, vectors = linalg.eigh(small, subset_by_index=(width - n, width - 1))
    return (basis @ vectors[:, ::-1]).T.astype(np.float32), _clip_negative(values[::-1])


def _scatter_times(centred: Array, basis: Array) -> Array:
    return centred.T @ (centred @ basis)


def _gram_of(centred: Array, basis: Array) -> Array:
    projected = centred @ basis
    return projected.T @ projected


def _accumulate(
    X: Any, centre: Array, basis: Array, term: Callable[[Array, Array], Array]
) -> NDArray[np.floating[Any]]:
    total: NDArray[np.floating[Any]] = np.zeros(())
    for _, block in row_blocks(X):
        total = total + term(block - centre, basis)
    return total


def _clip_negative(values: NDArray[np.float64]) -> Array:
    return np.maximum(values, 0).astype(np.float32)


def _fix_signs(directions: Array) -> Array:
    """Make the largest entry of each direction positive: an eigenvector's sign is arbitrary."""
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    return directions * np.where(signs == 0, 1, signs)[:, None].astype(np.float32)
