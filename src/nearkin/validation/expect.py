"""What a parameter may be: expectations, for the tables of `nearkin.validation.parameters`.

An expectation is a function of a value. It returns None if the value is right, else what is
expected instead, as it completes "must be …". Used as ``expect.whole(1)``.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Expectation: TypeAlias = Callable[[Any], str | None]

LARGEST_WHOLE = 2**31 - 1  # row numbers are int32
LARGEST_NUMBER = sys.float_info.max


def whole(low: int | None = None, high: int = LARGEST_WHOLE) -> Expectation:
    """An integer, which True is not, from `low` to `high`."""
    least = "a whole number" + ("" if low is None else f" >= {low}")

    def check(value: Any) -> str | None:
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            return least
        found = int(value)
        if low is not None and found < low:
            return least
        return f"a whole number <= {high}" if abs(found) > high else None

    return check


def number(
    low: float | None = None,
    high: float = LARGEST_NUMBER,
    *,
    above: float | None = None,
    below: float | None = None,
) -> Expectation:
    """A finite number from `low` to `high`, or strictly above and below bounds."""
    bounds = "" if low is None else f" >= {low}"
    bounds += "" if above is None else f" > {above}"
    upper = f" < {below}" if below is not None else f" <= {high}"
    bounds += "" if below is None and high == LARGEST_NUMBER else f" and{upper}"

    def check(value: Any) -> str | None:
        if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
            return f"a number{bounds}"
        found: Any = value.item() if isinstance(value, np.generic) else value
        if not abs(found) <= LARGEST_NUMBER:
            return f"a finite number{bounds}"
        right = (
            (low is None or found >= low)
            and (above is None or found > above)
            and (below is None or found < below)
            and found <= high
        )
        return None if right else f"a number{bounds}"

    return check


def choice(*values: str) -> Expectation:
    """One of some strings."""
    expected = f"one of {', '.join(map(repr, values))}" if len(values) > 1 else repr(values[0])

    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in values else expected

    return check


def flag(value: Any) -> str | None:
    """True or False."""
    return None if isinstance(value, bool | np.bool_) else "True or False"


def verbosity(value: Any) -> str | None:
    """How much to print: 0, 1, 2 …, or True or False."""
    return None if isinstance(value, bool | np.bool_) else whole(0)(value)


def text(value: Any) -> str | None:
    """A string that is not empty."""
    return None if isinstance(value, str) and value else "a string that is not empty"


def path(value: Any) -> str | None:
    """The path of a file or folder."""
    right = isinstance(value, str | os.PathLike) and os.fspath(value)
    return None if right and "\0" not in str(value) else "a path: a string or an os.PathLike object"


def function(value: Any) -> str | None:
    """Something that can be called, and is not a class."""
    return None if callable(value) and not isinstance(value, type) else "a function"


def seed(value: Any) -> str | None:
    """What ``check_random_state`` accepts."""
    if value is None or isinstance(value, np.random.RandomState) or value is np.random:
        return None
    problem = whole(0, 2**32 - 1)(value)
    return problem and f"{problem}, a numpy RandomState instance or None"


def jobs(value: Any) -> str | None:
    """A number of workers, as joblib counts them."""
    if value is None or (whole()(value) is None and value != 0):
        return None
    return "a number of workers such as 2, -1 for one per core, or None"


def group(kind: type[Any]) -> Expectation:
    """A parameter group, or None for its defaults."""
    expected = f"{kind.__name__}(...) or None"
    return lambda value: None if value is None or isinstance(value, kind) else expected


def part(method: str, example: str) -> Expectation:
    """An object, not a class, with a method."""

    def check(value: Any) -> str | None:
        if isinstance(value, type):
            return f"an object, not a class: give {value.__name__}()"
        right = callable(getattr(value, method, None))
        return None if right else f"{example}, or another object with a method {method!r}"

    return check


def each(of: Expectation, expected: str) -> Expectation:
    """A sequence, not empty, whose entries are all as expected."""

    def check(value: Any) -> str | None:
        if isinstance(value, np.ndarray):
            value = list(value) if value.ndim else value
        several = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        right = several and len(value) > 0 and all(of(entry) is None for entry in value)
        return None if right else expected

    return check


def either(*expectations: Expectation) -> Expectation:
    """What is right by one of some expectations."""

    def check(value: Any) -> str | None:
        expected = [one(value) for one in expectations]
        return None if None in expected else " or ".join(str(text) for text in expected)

    return check


def auto(expectation: Expectation) -> Expectation:
    """The string ``"auto"``, None, or what is right."""
    return either(choice("auto"), optional(expectation))


def optional(expectation: Expectation) -> Expectation:
    """None, or what is right."""

    def or_none(value: Any) -> str | None:
        expected = None if value is None else expectation(value)
        return expected and f"{expected} or None"

    return or_none
