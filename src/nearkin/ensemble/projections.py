"""Projections P_n of the ensemble: blocks of principal directions, random or given matrices.

Each is a d×D matrix. They are linear, without centring or renormalising, so that the ensemble
collapses to one matrix Σ PᵀMP. Blocks of principal directions are left unscaled, random matrices
keep lengths on average. Random ones are described by their seed and made when they are needed:
two hundred of them would not fit in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nearkin.native.blas import serial_blas
from nearkin.preprocessing import pca
from nearkin.validation import expect
from nearkin.validation.caller import warn_caller
from nearkin.validation.parameters import checked

Array = NDArray[np.float32]

ProjectionName = Literal["pca", "random", "orthonormal", "sparse", "mixed"]
KINDS: tuple[ProjectionName, ...] = get_args(ProjectionName)


class Projection(Protocol):
    """An object with a d×D matrix."""

    def matrix(self) -> Array:
        """The d×D matrix."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """A stored matrix: a block of principal directions, or one that the user gave."""

    rows: Array

    def matrix(self) -> Array:
        """The d×D matrix."""
        return self.rows


@dataclass(frozen=True)
class Random:
    """A random matrix, remade from its seed.

    ``random``: Gaussian entries of variance 1/d; ``orthonormal``: orthonormal rows times √(D/d);
    ``sparse``: ±√(3/d) with probability 1/6 each, else zero (Achlioptas).
    """

    kind: str
    d: int
    D: int
    seed: int

    def matrix(self) -> Array:
        """The d×D matrix."""
        rng = np.random.default_rng(self.seed)
        if self.kind == "sparse":
            sides = rng.integers(6, size=(self.d, self.D))  # 0: minus, 1: plus, others: nothing
            signs = (sides == 1).astype(np.float32) - (sides == 0)
            return signs * np.float32(np.sqrt(3 / self.d))
        P = rng.standard_normal((self.d, self.D), dtype=np.float32)
        if self.kind == "orthonormal":
            with serial_blas():  # the same bits on any number of threads
                columns = np.linalg.qr(P.T)[0]
            return np.ascontiguousarray(columns.T) * np.float32(np.sqrt(self.D / self.d))
        return P / np.float32(np.sqrt(self.d))


def _matrix(value: Any) -> str | None:
    return None if getattr(value, "ndim", np.ndim(value)) == 2 else "a matrix"


known_projection = expect.either(
    expect.choice(*KINDS), expect.each(_matrix, "a list of (d, D) matrices")
)


@checked(
    projection=known_projection,
    n_members=expect.whole(1),
    n_components=expect.optional(expect.whole(1)),
)
def make_projections(
    projection: str | Sequence[Any],
    X: Any,
    n_members: int,
    n_components: int | None,
    rng: np.random.Generator,
) -> tuple[list[Projection], list[float]]:
    """The projections of an ensemble, and the share of the variance that each PCA block holds.

    Parameters
    ----------
    projection : {"pca", "random", "orthonormal", "sparse", "mixed"} or list of (d, D) matrices
        ``mixed`` takes PCA blocks for half of the members and Gaussian matrices for the others.
    n_components : int, optional
        d; an even partition of the D columns among the members if left out.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 6))
    >>> blocks, energies = make_projections("pca", X, 3, 2, np.random.default_rng(0))
    >>> [P.matrix().shape for P in blocks], round(sum(energies), 3)
    ([(2, 6), (2, 6), (2, 6)], 1.0)
    """
    D = X.shape[1]
    if not isinstance(projection, str):
        return [_given(P, D) for P in projection], []
    d, n_members = _sizes(projection, D, n_members, n_components)
    blocks = {"pca": n_members, "mixed": min(n_members // 2, D // d)}.get(projection, 0)
    made, energies = _pca_blocks(X, blocks, d, rng) if blocks else ([], [])
    random_kind = "random" if projection == "mixed" else projection
    seeds = rng.integers(2**63, size=n_members - blocks)
    return [*made, *(Random(random_kind, d, D, int(seed)) for seed in seeds)], energies


def _sizes(kind: str, D: int, n_members: int, n_components: int | None) -> tuple[int, int]:
    d = max(1, D // n_members) if n_components is None else n_components
    if d > D:
        raise ValueError(f"n_components={d} must lie between 1 and the {D} columns of X")
    if kind != "pca":
        return d, n_members
    made = min(n_members, D)  # a block has at least one column
    if made * d > D:
        raise ValueError(
            f"n_members={n_members} blocks of n_components={d} need {n_members * d} principal "
            f"directions, but X has n_features={D}; lower one of them or use projection='random'"
        )
    if made < n_members:
        warn_caller(
            f"n_members={n_members} PCA blocks but X has {D} columns; {made} members are used"
        )
    return d, made


def _given(P: Any, D: int) -> Fixed:
    P = np.ascontiguousarray(P, np.float32)
    if P.ndim != 2 or P.shape[1] != D or not len(P) >= 1:
        raise ValueError(f"projection holds a matrix of shape {P.shape}; (d, {D}) is expected")
    return Fixed(P)


def _pca_blocks(
    X: Any, blocks: int, d: int, rng: np.random.Generator
) -> tuple[list[Projection], list[float]]:
    """Consecutive blocks of principal directions, in the order of their variance."""
    wanted = blocks * d
    available = min(wanted, X.shape[0])
    centre = pca.mean(X)
    directions, variances = pca.principal_directions(X, available, centre, rng)
    if available < wanted:  # fewer rows than directions: the rest holds no variance
        directions = np.concatenate([directions, np.zeros((wanted - available, X.shape[1]))])
        variances = np.concatenate([variances, np.zeros(wanted - available)])
    squares = (np.square(block - centre, dtype=np.float64) for _, block in pca.row_blocks(X))
    total = sum(float(block.sum()) for block in squares) / X.shape[0]
    parts = [slice(b * d, (b + 1) * d) for b in range(blocks)]
    made = [Fixed(np.ascontiguousarray(directions[part], np.float32)) for part in parts]
    return list(made), [float(variances[part].sum() / max(total, 1e-30)) for part in parts]
