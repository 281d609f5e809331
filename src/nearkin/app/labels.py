"""Labels of test rows, converted to the type of a model's classes."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def match_labels(y: ArrayLike, classes: NDArray[Any]) -> NDArray[Any]:
    """Labels in the type of the model's classes; numbers that a file holds as text are parsed.

    Examples
    --------
    >>> match_labels(["3", "1"], np.array([1, 2, 3])).tolist()
    [3, 1]
    """
    truth = np.asarray(y)
    if truth.dtype.kind in "US" and classes.dtype.kind in "iuf":
        with suppress(ValueError):  # then no label is a class: an error below
            truth = truth.astype(classes.dtype)
    elif truth.dtype.kind in "iu" and classes.dtype.kind == "U":
        truth = truth.astype(str)
    if not np.isin(truth, classes).any():
        raise ValueError(
            f"none of the labels ({', '.join(map(str, np.unique(truth)[:5]))} …) is a class of the "
            f"model ({', '.join(map(str, classes[:5]))} …); give rows of these classes"
        )
    return truth
