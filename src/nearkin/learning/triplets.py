"""Triplets as judgements: which rows are more like a row than others."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.metrics.inputs import as_array

MOST = 2**53  # whole numbers that float64 holds


def graded_triplets(triplets: ArrayLike) -> NDArray[np.float64]:
    """Judgements, for `fit_pairs` of one array given twice, of triplets of its rows.

    Grades order what a row was compared with: 0 for rows that none was less like, else one above
    the highest of those that were.

    Parameters
    ----------
    triplets : (m, 3) integer array-like
        A row, one more like it, one less like it.

    Returns
    -------
    relevant : (p, 3) array
        The row, a row that it was compared with, the grade of that.

    Examples
    --------
    >>> graded_triplets([[7, 1, 2], [7, 2, 5], [8, 1, 2]]).astype(int).tolist()
    [[7, 1, 2], [7, 2, 1], [7, 5, 0], [8, 1, 1], [8, 2, 0]]
    """
    row, better, worse = _rows(triplets)
    pairs = np.concatenate([np.stack([row, other], axis=1) for other in (better, worse)])
    compared, place = np.unique(pairs, axis=0, return_inverse=True)
    better, worse = np.split(place.reshape(-1), 2)
    longest = int(np.unique(compared[:, 0], return_counts=True)[1].max())  # chain of comparisons
    grade = np.zeros(len(compared))
    for _ in range(longest):
        above = grade.copy()
        np.maximum.at(above, better, grade[worse] + 1)
        if (above == grade).all():
            return np.column_stack([compared, grade])
        grade = above
    wrong = compared[grade.argmax(), 0]
    raise ValueError(f"triplets of row {wrong} go in a circle: a row is more like it than itself")


def _rows(triplets: ArrayLike) -> NDArray[np.int64]:
    """Rows, those more and those less like them."""
    given = as_array("triplets", triplets)
    if given.ndim != 2 or given.shape[1] != 3 or not len(given) or given.dtype.kind not in "iuf":
        raise ValueError(
            f"triplets has shape {given.shape} and type {given.dtype}; whole numbers of shape "
            "(m, 3), with m above 0, are expected: a row, one more like it, one less like it"
        )
    if (given < 0).any() or (given > MOST).any() or (given != np.floor(given)).any():
        raise ValueError("triplets must hold whole row numbers, 0 or above")
    rows = given.astype(np.int64).T
    same = (rows == rows[[1, 2, 0]]).any(axis=0)
    if same.any():
        raise ValueError(f"triplet {int(same.argmax())} names a row twice")
    return rows
