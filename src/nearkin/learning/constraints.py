"""Constraints on M: symmetric, semidefinite, low rank, constant norm (Algorithm 1, line 9).

Here whole matrices are projected. Between projections the steps themselves keep M symmetric and at
its norm: the running norm of a step is `alpha` and `norm2` in `nearkin.learning.step`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from nearkin.validation import expect
from nearkin.validation.parameters import ParameterGroup, Table


@dataclass(repr=False)
class Constraint(ParameterGroup):
    """The set of matrices that M is projected to.

    Symmetry and norm hold after every step, rank and semidefiniteness at least once per epoch.

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
        """Replace `M` by its nearest symmetric, semidefinite or low-rank matrix, at any norm."""
        if self.is_symmetric:
            M += M.T.copy()
            M /= 2
        if self.spectral:
            M[:] = self._truncated(M)

    def restore(self, M: NDArray[np.float32], norm: float) -> None:
        """Project `M` and, with `normalize`, scale it to `norm`; left alone if it is not finite."""
        if np.isfinite(M).all():
            self.project(M)
            if self.normalize:
                rescale(M, norm)

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


def rescale(M: NDArray[np.float32], norm: float) -> None:
    """Scale `M` to a Frobenius norm, unless it is zero."""
    present = np.linalg.norm(M)
    if present > 0:
        M *= np.float32(norm / present)
