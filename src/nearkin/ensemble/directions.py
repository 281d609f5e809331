"""Orthonormal directions of the rows, and how they are distributed over the members.

Blocks of distributed directions hold parts of the similarity that complement each other:
the start of the whole ensemble, Σ PᵀP, is the identity of the space that they span.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from nearkin.native.blas import multiply_into, project_rows, serial_blas
from nearkin.preprocessing import pca
from nearkin.preprocessing.class_sums import class_sums

Array = NDArray[np.float32]

SHRINKAGE = 0.1  # of the within-class covariance, as a share of its mean variance
_NOTHING = 1e-9  # of the largest variance: what is below is rounding


@dataclass(frozen=True)
class Directions:
    """Orthonormal rows, the variance along each, and that of the rows in all directions."""

    rows: Array
    variances: NDArray[np.float64]
    total: float

    def block(self, places: NDArray[np.int64]) -> tuple[Array, float]:
        """Some of the directions, and the share of the variance that they hold."""
        share = self.variances[places].sum() / max(self.total, 1e-30)
        return np.ascontiguousarray(self.rows[places], np.float32), float(share)


def principal(X: Any, wanted: int | None, rng: np.random.Generator) -> Directions:
    """The `wanted` directions of largest variance; all that hold any, if left out.

    Where rows are fewer than the directions wanted, the rest are zero: they hold nothing.
    """
    centre, available = pca.mean(X), min(wanted or X.shape[1], *X.shape)
    found, variances = pca.principal_directions(X, available, centre, rng)
    kept = available
    if wanted is None:
        kept = max(1, int((variances > _NOTHING * variances[0]).sum()))
    missing = 0 if wanted is None else wanted - available
    rows = np.concatenate([found[:kept], np.zeros((missing, X.shape[1]), np.float32)])
    spread = np.concatenate([variances[:kept], np.zeros(missing)])
    squares = (np.square(block - centre, dtype=np.float64) for _, block in pca.row_blocks(X))
    return Directions(rows, spread, sum(float(block.sum()) for block in squares) / X.shape[0])


def discriminant(
    X: Any, labels: NDArray[np.integer], wanted: int | None, rng: np.random.Generator
) -> Directions:
    """Directions along which class means differ most, beside the spread within classes.

    Those of linear discriminant analysis, made orthonormal in their order, then the principal
    directions of what they leave. They are looked for among the principal directions, so that
    rows may be fewer than columns. Rows labelled −1 take no part in what depends on labels.
    """
    most = None if wanted is None else min(max(wanted, pca.MAX_EIGH_SIZE), *X.shape)
    space = principal(X, most, rng)
    centre, known = pca.mean(X), labels >= 0
    with serial_blas():
        within, between = _scatters(X, labels, known, centre, space.rows)
        basis = _separating(within, between, len(np.unique(labels[known])) - 1)
        basis = _completed(basis, np.diag(space.variances), wanted or len(space.rows))
        rows = np.empty((len(basis), X.shape[1]), np.float32)
        multiply_into(rows, np.ascontiguousarray(basis, np.float32), space.rows)
    variances = np.einsum("md,d,md->m", basis, space.variances, basis)
    return Directions(rows, variances, space.total)


def _scatters(
    X: Any, labels: NDArray[np.integer], known: NDArray[np.bool_], centre: Array, space: Array
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariance within classes and of the class means, of rows in the coordinates of `space`."""
    m = len(space)
    total, part = np.zeros((m, m)), np.empty((m, m), np.float32)
    counts = np.bincount(labels[known]).astype(np.float64)
    sums = np.zeros((len(counts), m))
    for lo, block in pca.row_blocks(X):
        own = known[lo : lo + len(block)]
        rows = project_rows(np.ascontiguousarray(block[own] - centre), space)
        multiply_into(part, rows, rows, left_transposed=True)
        total += part
        sums += class_sums(rows, labels[lo : lo + len(block)][own], len(counts))
    means = sums / np.sqrt(np.maximum(counts, 1))[:, None]
    overall = sums.sum(axis=0) / np.sqrt(counts.sum())
    between = means.T @ means - np.outer(overall, overall)
    n = counts.sum()
    return (total - means.T @ means) / n, between / n


def _separating(
    within: NDArray[np.float64], between: NDArray[np.float64], most: int
) -> NDArray[np.float64]:
    """Orthonormal rows that span the leading solutions of ``S_b v = λ S_w v``."""
    m = len(within)
    most = min(most, m)
    floor = SHRINKAGE * np.trace(within) / m or 1.0  # every class a single point
    vectors = linalg.eigh(between, within + floor * np.eye(m), subset_by_index=(m - most, m - 1))[1]
    return _signed(np.linalg.qr(vectors[:, ::-1])[0].T)


def _completed(
    basis: NDArray[np.float64], covariance: NDArray[np.float64], wanted: int
) -> NDArray[np.float64]:
    """The rows of `basis`, and the principal directions of the space orthogonal to them."""
    if len(basis) >= wanted:
        return basis[:wanted]
    others = np.eye(basis.shape[1]) - basis.T @ basis
    m, more = len(others), wanted - len(basis)
    # Inside the complement first: directions of no variance must be orthogonal to `basis`, too.
    inside = linalg.eigh(others, subset_by_index=(len(basis), m - 1))[1]
    left = linalg.eigh(inside.T @ covariance @ inside)[1][:, ::-1]
    return np.concatenate([basis, _signed((inside @ left[:, :more]).T)])


def _signed(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest entry of each positive: the sign of an eigenvector is arbitrary."""
    largest = np.abs(directions).argmax(axis=1)
    return directions * np.where(np.take_along_axis(directions, largest[:, None], 1) < 0, -1, 1)


def consecutive(count: int, members: int, size: int | None = None) -> list[NDArray[np.int64]]:
    """Directions in blocks, the first to the first member; sizes differ by one at most.

    If there are too few for blocks of a given `size`, these overlap, evenly spaced.

    Examples
    --------
    >>> [block.tolist() for block in consecutive(7, 3)]
    [[0, 1, 2], [3, 4], [5, 6]]
    >>> [block.tolist() for block in consecutive(7, 3, 4)]
    [[0, 1, 2, 3], [2, 3, 4, 5], [3, 4, 5, 6]]
    """
    if size is None:
        return np.array_split(np.arange(count), members)
    starts = np.ceil(np.linspace(0, count - size, members)).astype(np.int64)
    return [np.arange(start, start + size) for start in starts]


def strided(count: int, members: int, size: int | None = None) -> list[NDArray[np.int64]]:
    """Directions distributed in turn, forth and back, so that members get about the same variance.

    If there are too few for a given `size`, they are distributed again, in other combinations.

    Examples
    --------
    >>> [block.tolist() for block in strided(7, 3)]
    [[0, 5, 6], [1, 4], [2, 3]]
    """
    places = np.arange(count)
    turn, seat = np.divmod(places, members)
    member = np.where(turn % 2 == 0, seat, members - 1 - seat)
    if size is None:
        return [places[member == n] for n in range(members)]
    # Each turn is passed on by its own number of seats, prime to that of the members: in as many
    # rounds as there are members everyone has had every direction once.
    strides = np.array([s for s in range(1, members + 1) if math.gcd(s, members) == 1])
    stride = strides[turn % len(strides)]
    rounds = [(member + number * stride) % members for number in range(members)]
    return [np.concatenate([places[one == n] for one in rounds])[:size] for n in range(members)]
