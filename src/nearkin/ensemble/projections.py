"""Projections P_n of the ensemble: blocks of directions of the rows, random or given matrices.

Each is a d×D matrix. They are linear, without centring or renormalising, so that the ensemble
collapses to one matrix Σ PᵀMP. Blocks of directions, of the rows or at random, are left unscaled,
random matrices of independent rows keep lengths on average. Random ones are described by their seed
and made when they are needed: two hundred of them would not fit in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nearkin.ensemble.directions import consecutive, discriminant, principal, strided
from nearkin.ensemble.rotations import stacked_rows
from nearkin.validation import expect
from nearkin.validation.caller import warn_caller
from nearkin.validation.parameters import checked

Array = NDArray[np.float32]

ProjectionName = Literal[
    "pca", "strided", "discriminant", "random", "orthonormal", "sparse", "mixed"
]
KINDS: tuple[ProjectionName, ...] = get_args(ProjectionName)
# How those that share out orthonormal directions of the rows deal them to the members.
DEALT: dict[str, Callable[[int, int, int | None], list[NDArray[np.int64]]]] = {
    "pca": consecutive,
    "strided": strided,
    "discriminant": strided,
}
MOST_MEMBERS, FEWEST_COLUMNS = 10, 64


class Projection(Protocol):
    """An object with a d×D matrix."""

    @property
    def shape(self) -> tuple[int, int]:
        """Its shape, d and D."""

    def matrix(self) -> Array:
        """The d×D matrix."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """A stored matrix: a block of directions, or one that the user gave."""

    rows: Array
    places: NDArray[np.int64] | None = None  # of a block, among the directions that are dealt

    @property
    def shape(self) -> tuple[int, int]:
        """Its shape, d and D."""
        return self.rows.shape[0], self.rows.shape[1]

    def matrix(self) -> Array:
        """The d×D matrix."""
        return self.rows


@dataclass(frozen=True)
class Random:
    """A random matrix, remade from its seed.

    ``random``: Gaussian entries of variance 1/d; ``sparse``: ±√(3/d) with probability 1/6 each,
    else zero (Achlioptas); ``orthonormal``: rows of random rotations, from row `first` of an
    endless stack of them, unscaled. Members that share a seed and take its rows in turn miss no
    direction: over whole rotations Σ PᵀP is a multiple of the identity.
    """

    kind: str
    d: int
    D: int
    seed: int
    first: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """Its shape, d and D."""
        return self.d, self.D

    def matrix(self) -> Array:
        """The d×D matrix."""
        if self.kind == "orthonormal":
            return stacked_rows(self.D, self.seed, self.first, self.d)
        rng = np.random.default_rng(self.seed)
        if self.kind == "sparse":
            sides = rng.integers(6, size=(self.d, self.D))  # 0: minus, 1: plus, others: nothing
            signs = (sides == 1).astype(np.float32) - (sides == 0)
            return signs * np.float32(np.sqrt(3 / self.d))
        P = rng.standard_normal((self.d, self.D), dtype=np.float32)
        return P / np.float32(np.sqrt(self.d))


def _matrix(value: Any) -> str | None:
    return None if getattr(value, "ndim", np.ndim(value)) == 2 else "a matrix"


projection_problem = expect.either(
    expect.choice(*KINDS), expect.each(_matrix, "a list of (d, D) matrices")
)


def usual_members(columns: int) -> int:
    """Members of an ensemble if their number is left out: ten, or fewer that are wide enough.

    Examples
    --------
    >>> [usual_members(columns) for columns in (16, 100, 1_000)]
    [1, 1, 10]
    """
    return max(1, min(MOST_MEMBERS, columns // FEWEST_COLUMNS))


@checked(
    projection=projection_problem,
    n_members=expect.whole(1),
    n_components=expect.optional(expect.whole(1)),
)
def make_projections(
    projection: str | Sequence[Any],
    X: Any,
    n_members: int,
    n_components: int | None,
    rng: np.random.Generator,
    labels: NDArray[np.integer] | None = None,
) -> tuple[list[Projection], list[float]]:
    """The projections of an ensemble, and the share of the variance that each block holds.

    Parameters
    ----------
    projection : {"pca", "strided", "discriminant", "random", …} or list of (d, D) matrices
        ``pca``: principal directions in consecutive blocks; ``strided``: the same, distributed in
        turn; ``discriminant``: directions that separate classes, then principal ones, distributed
        in turn; ``mixed``: consecutive blocks for half of the members, Gaussian matrices for the
        others.
    n_components : int, optional
        d; if left out, the directions are shared out evenly among the members. Where directions
        are fewer than the members need, blocks overlap.
    labels : (n,) integer array, optional
        Needed by ``discriminant``; −1 for rows that it must not learn from.

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
    if projection in DEALT:
        return _by_directions(projection, X, n_members, n_components, rng, labels)
    blocks = min(n_members // 2, D // d) if projection == "mixed" else 0
    made, energies = _by_directions("pca", X, blocks, d, rng) if blocks else ([], [])
    random_kind = "random" if projection == "mixed" else projection
    return [*made, *_random(random_kind, n_members - blocks, d, D, rng)], energies


def _random(kind: str, members: int, d: int, D: int, rng: np.random.Generator) -> list[Random]:
    """Random matrices that have nothing in common, or blocks of the same rotations."""
    seeds = [int(seed) for seed in rng.integers(2**63, size=members)]
    if kind == "orthonormal":
        return [Random(kind, d, D, seeds[0], n * d) for n in range(members)]
    return [Random(kind, d, D, seed) for seed in seeds]


def _sizes(kind: str, D: int, n_members: int, n_components: int | None) -> tuple[int, int]:
    d = max(1, D // n_members) if n_components is None else n_components
    if d > D:
        raise ValueError(f"n_components={d} must lie between 1 and the {D} columns of X")
    if kind not in DEALT:
        return d, n_members
    made = min(n_members, D)  # a block has at least one column
    if made < n_members and n_components is None:
        warn_caller(
            f"n_members={n_members} PCA blocks but X has {D} columns; {made} members are used"
        )
    return d, made if n_components is None else n_members


def _given(P: Any, D: int) -> Fixed:
    P = np.ascontiguousarray(P, np.float32)
    if P.ndim != 2 or P.shape[1] != D or not len(P) >= 1:
        raise ValueError(f"projection holds a matrix of shape {P.shape}; (d, {D}) is expected")
    return Fixed(P)


def _by_directions(
    kind: str,
    X: Any,
    n_members: int,
    d: int | None,
    rng: np.random.Generator,
    labels: NDArray[np.integer] | None = None,
) -> tuple[list[Projection], list[float]]:
    """Blocks of `d` directions; all that hold variance, evenly shared, if left out."""
    overlapping = d is not None and n_members * d > X.shape[1]
    wanted = None if d is None or overlapping else n_members * d
    if kind == "discriminant":
        if labels is None:
            raise ValueError("projection='discriminant' needs labels")
        found = discriminant(X, labels, wanted, rng)
    else:
        found = principal(X, wanted, rng)
    count = len(found.rows)
    if d is not None and d > count:
        raise ValueError(
            f"n_components={d}, but the rows of X vary in {count} directions only; lower it"
        )
    members = n_members if overlapping else min(n_members, count)
    dealt = DEALT[kind](count, members, d if overlapping else None)
    blocks = [(*found.block(places), places) for places in dealt]
    return [Fixed(rows, places) for rows, _, places in blocks], [share for _, share, _ in blocks]
