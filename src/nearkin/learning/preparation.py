"""Rows as a similarity is learned on them: centred and mapped, and nothing else.

Such a preparation is linear, so it folds into the query: with ẑ = A(z − μ), the similarity x̂ᵀMẑ
is the dot product of AᵀMᵀx̂ with the row z as it was given, less a constant of the query. An index
of the given rows then ranks by the learned similarity. Unit length after the map, or a power before
it, would have to be applied to every stored row.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearkin.preprocessing.linear import LinearPreprocessing
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.preprocessing.within_class import WithinClassWhitening
from nearkin.validation.arrays import TINY

Preparation = Literal["auto"] | LinearPreprocessing | None

MAX_WITHIN_CLASS = 2_048  # columns: the map is a D×D matrix and costs D³


def preparation_problem(value: Any) -> str | None:
    """What is wrong with a preparation of `SLNE`, or None: an `Expectation`."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    if not isinstance(value, LinearPreprocessing):
        return "'auto', None, Preprocess(unit_length=False) or another linear preprocessing"
    if value.unit_length or value.power != 1:
        return (
            "a linear map: unit_length=False, power=1. For others give the rows already "
            "preprocessed, with prepare=None"
        )
    return None


def preparation_for(
    prepare: Preparation, shape: tuple[int, int], judged: bool
) -> LinearPreprocessing | None:
    """The preparation that ``"auto"`` stands for, and any other as it is.

    Whitening by the covariance within classes was best where it is well known; it has seen the
    labels, so rows that judge what is learned (`judged`) would be flattered by it.

    Examples
    --------
    >>> preparation_for("auto", (1_000, 64), judged=False)
    WithinClassWhitening(unit_length=False)
    """
    if not isinstance(prepare, str):
        return prepare
    n, columns = shape
    if judged or columns >= n or columns > MAX_WITHIN_CLASS:
        return Preprocess(unit_length=False)
    return WithinClassWhitening(unit_length=False)


def scale_of(rows: NDArray[np.float32]) -> float:
    """Mean squared row length, of rows whose squares float32 can hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.einsum("nd,nd->n", rows, rows)
    mean = float(lengths.mean(dtype=np.float64))
    if TINY < mean < np.inf:
        return mean
    largest = float(np.abs(rows).max())
    if largest == 0:
        raise ValueError("X holds only zero vectors; their similarity is zero whatever M is")
    raise ValueError(
        f"X: its largest number is {largest:.1e}, and the squares of such numbers are beyond "
        "float32; divide X by it"
    )
