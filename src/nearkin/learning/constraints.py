"""Projection of M to symmetric, low-rank or semidefinite matrices."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg


@dataclass(frozen=True)
class Projection:
    """The set that M is kept in. Positive semidefinite implies symmetric."""

    symmetric: bool = False
    rank: int | None = None
    psd: bool = False

    @property
    def spectral(self) -> bool:
        """Whether a decomposition is needed; symmetry alone is kept by the steps themselves."""
        return self.psd or self.rank is not None

    def due(self, steps: int, D: int) -> bool:
        """Whether to project after so many steps.

        A decomposition costs some 20 D³, a step 4 D²: every 20·D steps it at most doubles the
        work.
        """
        return self.spectral and steps >= 20 * D

    def apply(self, M: NDArray[np.float32]) -> None:
        """Replace `M` by the nearest matrix of the set."""
        if self.symmetric:
            M += M.T.copy()
            M /= 2
        if self.spectral:
            M[:] = self._truncated(M)

    def _truncated(self, M: NDArray[np.float32]) -> NDArray[np.float32]:
        keep = self.rank or len(M)
        if not self.symmetric:
            u, s, vt = linalg.svd(M, full_matrices=False)
            return (u[:, :keep] * s[:keep]) @ vt[:keep]
        values, vectors = linalg.eigh(M)
        if self.psd:
            values = np.maximum(values, 0)
        largest = np.argsort(-np.abs(values), kind="stable")[:keep]
        return (vectors[:, largest] * values[largest]) @ vectors[:, largest].T


def components(M: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows L with ``M = LᵀL`` for a positive semidefinite `M`, one for each positive eigenvalue."""
    values, vectors = linalg.eigh((M + M.T) / 2)
    order = np.argsort(-values)
    kept = order[values[order] > values.max() * len(M) * np.finfo(np.float32).eps]
    return np.ascontiguousarray((vectors[:, kept] * np.sqrt(values[kept])).T, np.float32)
