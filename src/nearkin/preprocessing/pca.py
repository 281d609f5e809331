"""Principal directions of rows that need not fit in memory, dense or sparse.

All methods read `X` in blocks. The shape alone selects one: the Gram matrix for fewer rows than
columns, the covariance for few columns, randomised subspace iteration for many of both.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from nearkin.native.blas import PANEL, multiply_into, serial_blas

Array = NDArray[np.float32]

BLOCK_BYTES = 64 << 20
MAX_EIGH_SIZE = 5_000  # a symmetric eigenproblem of this size takes half a minute
POWER_ITERATIONS = 4
_NARROW = 64  # columns of a panel's panels


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
    """Return the `n` directions of largest variance, an (n, D) array, and their variances.

    They are the same bits on any number of threads: products run in panels, LAPACK on one thread.
    """
    rows, columns = X.shape
    with serial_blas():
        if rows < columns and rows <= 2 * max_eigh:
            directions, variances = _by_gram(X, n, centre)
        elif columns <= max_eigh:
            directions, variances = _by_covariance(X, n, centre)
        else:
            directions, variances = _by_subspace_iteration(X, n, centre, rng)
    return _fix_signs(directions), variances


def scatter(X: Any, centre: Array) -> NDArray[np.float64]:
    """Return the sum of the outer products of the centred rows, a D×D array."""
    D = X.shape[1]
    total, part = np.zeros((D, D)), np.empty((D, D), np.float32)
    for _, block in row_blocks(X):
        centred = _minus(block, centre)
        multiply_into(part, centred, centred, left_transposed=True)
        total += part
    return total


def _by_covariance(X: Any, n: int, centre: Array) -> tuple[Array, Array]:
    D = X.shape[1]
    covariance = scatter(X, centre) / X.shape[0]
    values, vectors = linalg.eigh(covariance, subset_by_index=(D - n, D - 1))
    return vectors[:, ::-1].T.astype(np.float32), _clip_negative(values[::-1])


def _by_gram(X: Any, n: int, centre: Array) -> tuple[Array, Array]:
    N, D = X.shape
    gram, part = np.zeros((N, N)), np.empty((N, N), np.float32)
    for _, _, block in _column_blocks(X, centre):
        multiply_into(part, block, block, right_transposed=True)
        gram += part
    if centre.any():
        # The rounding error of the mean would appear as a direction with variance.
        gram -= gram.mean(axis=0)
        gram -= gram.mean(axis=1, keepdims=True)
    values, vectors = linalg.eigh(gram, subset_by_index=(N - n, N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    inverse = np.where(values > values[0] * 1e-10, 1 / np.sqrt(np.maximum(values, 1e-300)), 0)
    weights = np.ascontiguousarray((vectors * inverse).T, np.float32)
    directions = np.empty((n, D), np.float32)
    for lo, hi, block in _column_blocks(X, centre):
        multiply_into(directions[:, lo:hi], weights, block)
    return directions, _clip_negative(values / N)


def _column_blocks(X: Any, centre: Array) -> Iterator[tuple[int, int, Array]]:
    step = max(1, BLOCK_BYTES // (4 * X.shape[0]))
    columns = X.tocsc() if sparse.issparse(X) else X
    for lo in range(0, X.shape[1], step):
        part = columns[:, lo : lo + step]
        dense = part.toarray() if sparse.issparse(part) else part
        block = _minus(np.asarray(dense, np.float32), centre[lo : lo + step])
        yield lo, lo + block.shape[1], block


def _minus(block: Array, centre: Array) -> Array:
    return np.subtract(block, centre, order="C")


def _by_subspace_iteration(
    X: Any, n: int, centre: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Block power iteration on the covariance, which is never formed (Halko et al. 2011)."""
    D = X.shape[1]
    width = min(D, n + max(10, n // 10))
    basis = _orthonormal(rng.standard_normal((D, width), dtype=np.float32))
    for _ in range(POWER_ITERATIONS):
        product = np.zeros((D, width), np.float32)
        for centred, projected in _projected(X, centre, basis):
            multiply_into(product, centred, projected, keep=1, left_transposed=True)
        basis = _orthonormal(product)
    small = np.zeros((width, width), np.float32)
    for _, projected in _projected(X, centre, basis):
        multiply_into(small, projected, projected, keep=1, left_transposed=True)
    values, vectors = linalg.eigh(small / X.shape[0], subset_by_index=(width - n, width - 1))
    directions = np.empty((n, D), np.float32)
    rotation = np.ascontiguousarray(vectors[:, ::-1].T, np.float32)
    multiply_into(directions, rotation, basis, right_transposed=True)
    return directions, _clip_negative(values[::-1])


def _projected(X: Any, centre: Array, basis: Array) -> Iterator[tuple[Array, Array]]:
    """Centred rows, a block at a time, and their products with the basis."""
    for _, block in row_blocks(X):
        centred = _minus(block, centre)
        projected = np.empty((len(block), basis.shape[1]), np.float32)
        multiply_into(projected, centred, basis)
        yield centred, projected


def _orthonormal(basis: Array) -> Array:
    """Orthonormal columns, in place: Gram-Schmidt by panels, for QR would run on one thread."""
    for lo in range(0, basis.shape[1], PANEL):
        done, panel = basis[:, :lo], basis[:, lo : lo + PANEL]
        for _ in range(2):  # once is not orthogonal enough
            overlap = np.empty((lo, panel.shape[1]), np.float32)
            multiply_into(overlap, done, panel, left_transposed=True, panel=_NARROW)
            multiply_into(panel, done, overlap, scale=-1, keep=1, panel=_NARROW)
            panel[:] = np.linalg.qr(panel)[0]
    return basis


def _clip_negative(values: NDArray[np.float64]) -> Array:
    return np.maximum(values, 0).astype(np.float32)


def _fix_signs(directions: Array) -> Array:
    """Make the largest entry of each direction positive: an eigenvector's sign is arbitrary."""
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    return directions * np.where(signs == 0, 1, signs)[:, None].astype(np.float32)
