"""Constraints on M: symmetric, semidefinite, low rank, constant norm (Algorithm 1, line 9)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from nearkin.validation import expect
from nearkin.validation.parameters import ParameterGroup, Table


@dataclass(repr=False)
class Constraint(ParameterGroup):
    """The set of matrices that M is projected to.

    Symmetry and norm hold after every step, rank and semidefiniteness at least once an epoch.

    Parameters
    ----------
    symmetric : bool
    psd : bool
        Positive semidefinite, and so symmetric: the similarity is an inner product.
    rank : int, optional
        The largest rank.
    normalize : bool
        Keep the Frobenius norm that M starts with.
    """

    symmetric: bool = False
    psd: bool = False
    rank: int | None = None
    normalize: bool = False

    PARAMETERS: ClassVar[Table] = {
        "symmetric": expect.flag,
        "psd": expect.flag,
        "rank": expect.optional(expect.whole(1)),
        "normalize": expect.flag,
    }

    @property
    def is_symmetric(self) -> bool:
        """Whether M stays symmetric, asked for or implied."""
        return self.symmetric or self.psd

    @property
    def spectral(self) -> bool:
        """Whether a decomposition is needed; symmetry alone is kept by the steps themselves."""
        return self.psd or self.rank is not None

    @property
    def per_step(self) -> bool:
        """Whether anything but the plain step of Algorithm 1 is taken."""
        return self.normalize or self.is_symmetric or self.spectral

    def due(self, steps: int, D: int) -> bool:
        """Whether to project after so many steps.

        A decomposition costs some 20 D³, a step 4 D²: every 20·D steps it at most doubles the
        work.
        """
        return self.spectral and steps >= 20 * D

    def project(self, M: NDArray[np.float32]) -> None:
        """Replace `M` by the nearest matrix of the set; the norm is the trainer's business."""
        if self.is_symmetric:
            M += M.T.copy()
            M /= 2
        if self.spectral:
            M[:] = self._truncated(M)

    def _truncated(self, M: NDArray[np.float32]) -> NDArray[np.float32]:
        keep = self.rank or len(M)
        if not self.is_symmetric:
            u, s, vt = linalg.svd(M, full_matrices=False)
            return (u[:, :keep] * s[:keep]) @ vt[:keep]
        values, vectors = linalg.eigh(M)
        if self.psd:
            values = np.maximum(values, 0)
        largest = np.argsort(-np.abs(values), kind="stable")[:keep]
        return (vectors[:, largest] * values[largest]) @ vectors[:, largest].T


def factors(M: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A and B of ``M = AᵀB``, for queries and for rows: xᵀMz is the dot product of Ax and Bz.

    Both halves of the singular value decomposition get the roots of the singular values, so that
    a length of one means as much as of the other.

    Examples
    --------
    >>> M = np.array([[0, 4], [-1, 0]], np.float32)
    >>> A, B = factors(M)
    >>> bool(np.allclose(A.T @ B, M, atol=1e-6))
    True
    """
    u, values, vt = linalg.svd(M)
    roots = np.sqrt(values)
    return (u * roots).T.astype(np.float32), (roots[:, None] * vt).astype(np.float32)


def components(M: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows L with ``M = LᵀL`` for a positive semidefinite `M`, one for each positive eigenvalue."""
    values, vectors = linalg.eigh((M + M.T) / 2)
    order = np.argsort(-values)
    kept = order[values[order] > values.max() * len(M) * np.finfo(np.float32).eps]
    return np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept])).T, np.float32)


def matrix_of(learner: Any) -> NDArray[np.float32]:
    """M of any metric learner: its ``matrix_``, or LᵀL of its ``components_``."""
    if hasattr(learner, "matrix_"):
        return np.asarray(learner.matrix_, np.float32)
    if hasattr(learner, "components_"):
        L = np.asarray(learner.components_, np.float32)
        return L.T @ L
    raise TypeError(
        f"learner={type(learner).__name__} has neither matrix_ nor components_ after fit; a "
        "learner of the ensemble must yield one of them"
    )
