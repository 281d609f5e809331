"""M as a product of factors: ``M = AᵀB`` of any matrix, ``M = LᵀL`` of a semidefinite one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg


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
