"""Checks of parameters, and groups of parameters that an estimator takes as one object."""

from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator


class ParameterGroup(BaseEstimator):
    """Parameters that belong together. A subclass is a dataclass.

    Nested names work as for estimators: ``SLNE(Softmax()).set_params(sampling__temperature=0.05)``.
    """


GroupT = TypeVar("GroupT", bound=ParameterGroup)


def as_group(name: str, value: Any, kind: type[GroupT]) -> GroupT:
    """A group of parameters, all of them defaults for None."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise ValueError(
            f"{name}={value!r} is a {type(value).__name__}; give {kind.__name__}(...) or None"
        )
    return value


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Refuse a parameter value that is not one of `choices`."""
    if value not in list(choices):  # what cannot be hashed can be compared
        raise ValueError(
            f"{name}={value!r} is not known; use one of {', '.join(map(repr, choices))}"
        )


def check_number(
    name: str, value: Any, low: float, *, open_low: bool = False, whole: bool = False
) -> None:
    """Refuse a parameter that is not a finite number of at least (or, if open, above) `low`.

    A `whole` one has an integer's type, too: it becomes the size of an array.
    """
    right = isinstance(value, int | np.integer if whole else int | float | np.number)
    if not right or not np.isfinite(value) or value < low or (open_low and value == low):
        kind = "a whole number" if whole else "a number"
        raise ValueError(f"{name}={value!r} must be {kind} {'>' if open_low else '>='} {low}")
