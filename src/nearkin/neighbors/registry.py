"""The registry that finds a search back end by its name.

An index is described by a string: a name, and settings after a semicolon, such as
``"cells;recall=0.9"``. Back ends are imported on first use.
"""

from importlib import import_module
from typing import Any, Literal

from nearkin.neighbors.base import Array, Index, Metric
from nearkin.validation import expect
from nearkin.validation.parameters import checked, require

IndexDescription = Literal["auto", "exact", "cells", "itq"] | str

EXACT_ROWS = 100_000  # "auto" is exact up to this many rows

_METHODS = ("search", "save", "load", "prepare", "check")
_FAISS = "nearkin.neighbors.faiss:FaissIndex"  # for every name that is not registered
_BUILT_IN = {
    "auto": "nearkin.neighbors.cells:Cells",
    "exact": "nearkin.neighbors.exact:Exact",
    "cells": "nearkin.neighbors.cells:Cells",
    "itq": "nearkin.neighbors.itq:IterativeQuantization",
}
_registered: dict[str, str | type[Index]] = {}


@checked(name=expect.text)
def register(name: str, back_end: str | type[Index]) -> None:
    """Make a back end known under a name, for every ``index=``.

    Parameters
    ----------
    name : str
        A name registered before is replaced; those of the package are not.
    back_end : str or class
        ``"package.module:Class"``, imported on first use, or the class. Worker processes
        import it by its module.

    Examples
    --------
    >>> from nearkin.neighbors.exact import Exact
    >>> register("brute", Exact)
    >>> resolve("brute", 10).__name__
    'Exact'
    """
    if name in _BUILT_IN or ";" in name:
        raise ValueError(
            f"name={name!r} cannot be registered; give a name without a semicolon that is none of "
            f"{', '.join(map(repr, _BUILT_IN))}"
        )
    if isinstance(back_end, str):
        if not all(back_end.partition(":")):
            raise ValueError(f"back_end={back_end!r} must have the form 'package.module:Class'")
    else:
        _check_contract(back_end, name)
    _registered[name] = back_end


def resolve(description: str, n: int) -> type[Index]:
    """Return the back end that a description names, for `n` rows."""
    name = description.partition(";")[0]
    if name == "auto" and n <= EXACT_ROWS:
        name = "exact"
    found = _BUILT_IN.get(name) or _registered.get(name, _FAISS)
    return _imported(found, name) if isinstance(found, str) else found


def index_problem(description: Any) -> str | None:
    """What is wrong with the description of an index, or None: an `Expectation`."""
    if not isinstance(description, str):
        return f"a string: {choices()}"
    resolve(description, EXACT_ROWS + 1).check(description)  # "auto": its settings are of cells
    return None


def build(rows: Array, description: str, metric: Metric = "euclidean") -> Index:
    """Build the index that a description names."""
    back_end = check_metric(description, len(rows), metric)
    if metric == "euclidean":
        return back_end(rows, description)
    return back_end(rows, description, metric=metric)  # type: ignore[call-arg]


def check_metric(description: str, n: int, metric: Metric) -> type[Index]:
    """The back end for `n` rows, if it searches by the metric."""
    require("index", description, index_problem)
    back_end = resolve(description, n)
    # A back end need not derive from Index.
    if metric != "euclidean" and metric not in getattr(back_end, "metrics", ()):
        raise ValueError(
            f"index={description!r} does not search by metric={metric!r}; use 'exact', 'cells' or "
            "'itq'"
        )
    return back_end


def choices() -> str:
    """Say what an index can be, for error messages."""
    names = ", ".join(map(repr, (*_BUILT_IN, *_registered)))
    return f"use {names} or a faiss index string of IVF, HNSW, PQ, SQ or LSH, as 'IVF1024,Flat'"


def _imported(target: str, name: str) -> type[Index]:
    module, _, attribute = target.partition(":")
    try:
        back_end = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ImportError(
            f"index={name!r} is registered as {target!r}, which cannot be imported ({error}); "
            "install what it needs, or register the name anew"
        ) from error
    _check_contract(back_end, name)
    return back_end


def _check_contract(back_end: Any, name: str) -> None:
    missing = [method for method in _METHODS if not callable(getattr(back_end, method, None))]
    if missing or not isinstance(back_end, type) or not hasattr(back_end, "order"):
        lacks = f", which lacks {', '.join(missing)}" if missing else ""
        raise TypeError(
            f"back end {name!r} is {back_end!r}{lacks}; a class that keeps the contract of "
            "nearkin.neighbors.Index is expected: derive it from Index"
        )
