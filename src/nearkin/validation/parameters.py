"""One check of parameters: a table for an estimator or parameter group, a decorator for a function.

A parameter is declared by a line in the table ``PARAMETERS`` of its class, which `check_parameters`
reads, or by an argument of ``@checked(...)`` above its function; both say what it may be with
the expectations of `nearkin.validation.expect`:

>>> from nearkin.validation import expect
>>> @checked(k=expect.whole(1), limit=expect.optional(expect.number(above=0)))
... def visit(k, limit=None):
...     return k
>>> visit(True)
Traceback (most recent call last):
ValueError: k=True must be a whole number >= 1
>>> visit(1, limit=0)
Traceback (most recent call last):
ValueError: limit=0 must be a number > 0 or None

Conditions on more than one parameter, or on parameters and data, stay with the estimator.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from reprlib import Repr
from typing import Any, ParamSpec, TypeAlias, TypeVar

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from nearkin.validation import expect
from nearkin.validation.expect import Expectation

Table: TypeAlias = Mapping[str, Expectation]


class ParameterGroup(BaseEstimator):
    """Parameters that belong together. A subclass is a dataclass with a table ``PARAMETERS``.

    Nested names work as for estimators: ``SLNE(Softmax()).set_params(sampling__temperature=0.05)``.
    """


GroupT = TypeVar("GroupT", bound=ParameterGroup)
P = ParamSpec("P")
T = TypeVar("T")


def check_parameters(model: Any, *, prefix: str = "", only: Iterable[str] | None = None) -> None:
    """Refuse parameters that are not as ``model.PARAMETERS`` expects, those of its parts too.

    After a fit, `only` are those that are still in use.
    """
    for name in model.PARAMETERS if only is None else only:
        expectation = model.PARAMETERS[name]
        value = getattr(model, name)
        require(prefix + name, value, expectation)
        if hasattr(value, "PARAMETERS"):
            check_parameters(value, prefix=f"{prefix}{name}.")


def checked(**expected: Expectation) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Check the arguments of a function before it is called."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        unknown = expected.keys() - signature.parameters.keys()
        if unknown:
            raise TypeError(f"{function.__qualname__} has no parameters {sorted(unknown)}")

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            given = signature.bind(*args, **kwargs).arguments
            for name, expectation in expected.items():
                if name in given:
                    require(name, given[name], expectation)
            return function(*args, **kwargs)

        return call

    return decorate


def require(name: str, value: Any, expectation: Expectation) -> None:
    """Refuse one value that is not as expected."""
    expected = expectation(value)
    if expected is not None:
        raise ValueError(f"{name}={shown(value)} must be {expected}")


def as_group(name: str, value: Any, kind: type[GroupT]) -> GroupT:
    """A group of parameters, all of them defaults for None."""
    require(name, value, expect.group(kind))
    return kind() if value is None else value


def shown(value: Any) -> str:
    """A value for an error message: one line of limited length."""
    limits = Repr()
    limits.maxstring = limits.maxother = limits.maxlong = 80
    try:
        return " ".join(limits.repr(value).split())
    except ValueError:  # an integer of too many digits
        return f"<{type(value).__name__}>"


def is_fitted(part: Any) -> bool:
    """Whether a part is to be used as it is: fitted, or not made to be fitted."""
    if not hasattr(part, "fit"):
        return True
    if not hasattr(part, "__sklearn_tags__"):
        return any(name.endswith("_") for name in vars(part))
    try:
        check_is_fitted(part)
    except NotFittedError:
        return False
    return True
