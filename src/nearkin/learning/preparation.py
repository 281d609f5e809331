"""Rows as a similarity is learned on them: centred and mapped, and nothing else.

Such a preparation is linear, so it folds into the query: with ẑ = A(z − μ), the similarity x̂ᵀMẑ
is the dot product of AᵀMᵀx̂ with the row z as it was given, less a constant of the query. An index
of the given rows then ranks by the learned similarity. Unit length after the map, or a power before
it, would have to be applied to every stored row.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nearkin.io.run_folder import RunFolder
from nearkin.learning.trainer import TINY
from nearkin.preprocessing import Preprocess, WithinClassWhitening
from nearkin.preprocessing.linear import LinearPreprocessing
from nearkin.voting.parts import learns_from_labels
from nearkin.voting.preparation import check_unlabelled, prepared

Preparation = Literal["auto"] | LinearPreprocessing | None

MAX_WITHIN_CLASS = 2_048  # columns: the map is a D×D matrix and costs D³


def known_preparation(value: Any) -> str | None:
    """What `SLNE` can prepare rows with: an `Expectation`."""
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


def prepare_rows(
    model: Any, rows: NDArray[np.float32], y: NDArray[Any], rng: Any, folder: RunFolder
) -> NDArray[np.float32]:
    """Rows as the model, which keeps its preparation and their scale, learns on them."""
    judged, several = model.validation_fraction > 0, y.ndim == 2
    if judged or several:
        why = "y has several labels a row" if several else "validation_fraction holds rows out"
        check_unlabelled(model._execution.index, why)
    if not (model.warm_start and hasattr(model, "matrix_")):
        unfitted = preparation_for(model.prepare, rows.shape, judged or several)
        if learns_from_labels(unfitted) and (judged or several):
            raise ValueError(_labels_needed(model, several))
        model.preparation_ = unfitted
    model.preparation_, rows = prepared(model.preparation_, rows, y, rng, folder)
    model.scale_ = scale_of(rows)
    return rows


def _labels_needed(model: Any, several: bool) -> str:
    name = type(model.prepare).__name__
    if several:
        return f"prepare={name} needs one label a row, and y has several; give prepare='auto'"
    return (
        f"validation_fraction={model.validation_fraction} judges on rows whose labels "
        f"prepare={name} has seen; give prepare='auto'"
    )


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
