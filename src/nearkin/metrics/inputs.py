"""Input of measures: arrays of one length, flags."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_flags(name: str, values: NDArray[Any]) -> NDArray[np.bool_]:
    """True or False; of grades, whether they are above zero."""
    if values.dtype.kind == "O":  # as data frames hold them
        values = as_array(name, values.tolist())
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {values.dtype}; True or False, or 1 or 0, is expected")
    return values > 0


def as_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """An array without NaN and masked entries."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} holds lists of different lengths; an array is expected: lists of one length"
        ) from None
    if np.ma.is_masked(values) or (array.dtype.kind in "fc" and np.isnan(array).any()):
        raise ValueError(f"{name} contains NaN or masked entries; drop those rows or fill them in")
    return array


def judgement_columns(
    name: str, values: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Query rows, document rows and grades, 1 if left out, of an (m, 2) or (m, 3) array."""
    judged = as_array(name, values)
    if judged.ndim != 2 or judged.shape[1] not in (2, 3) or judged.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} has shape {judged.shape} and type {judged.dtype}; numbers of shape (m, 2) or "
            "(m, 3) are expected: query row, document row, grade"
        )
    rows = judged[:, :2].astype(np.int64)
    grade = judged[:, 2].astype(float) if judged.shape[1] == 3 else np.ones(len(judged))
    if (rows != judged[:, :2]).any() or not np.isfinite(grade).all():
        raise ValueError(f"{name} must hold whole row numbers and finite grades")
    return rows[:, 0], rows[:, 1], grade


def matching(
    name: str, values: ArrayLike, other_name: str, others: ArrayLike
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two arrays with one entry per row each, and at least one row; `others` is flat."""
    a, b = as_array(name, values), as_array(other_name, others)
    if b.ndim != 1 or a.ndim == 0 or len(a) != len(b) or len(b) == 0:
        raise ValueError(
            f"{name} has shape {a.shape} and {other_name} has shape {b.shape}; one entry of each "
            "per row, and at least one row, is expected"
        )
    return a, b
