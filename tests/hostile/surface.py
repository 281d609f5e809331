"""The public surface, found by introspection: what is new is attacked the day it is added."""

import importlib
import inspect
import pkgutil
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import nearkin
from hostile.material import HOME, SPECIAL, clean_arguments, images, queries, rows, small

# Names that need a network, another machine or hours, only hold a result, or get checked graphs.
LEFT_OUT = {"register", "Index", "SamplingRule", "Relevance", "split_by_shared_labels"}
ARRAYS = ("X", "Z", "queries", "pairs", "rows", "images")
# An error about one may speak of the other.
RELATED = {"y": ("X",), "X": ("y", "neighbors", "images", "image"), "neighbors": ("X",),
           "Z": ("X", "neighbors"), "folder": ("path",),
           "labels": ("path", "neighbors"), "queries": ("relevant", "documents"),
           "documents": ("relevant", "queries"), "ideal": ("totals",),
           "matrix": ("offset", "center")}  # fmt: skip
# Given in every call, where there is such an argument.
ALWAYS = {"n": 2, "random_state": 0}


@dataclass(frozen=True)
class Target:
    """A callable, clean arguments for it, and which arguments can be attacked."""

    name: str
    function: Callable[..., Any]
    clean: dict[str, Any]
    open_to_attack: tuple[str, ...]
    defaults: dict[str, Any] = field(default_factory=dict)

    def usual(self, argument: str) -> Any:
        """The clean value of an argument."""
        return self.clean.get(argument, self.defaults.get(argument))

    def call(self, **given: Any) -> Any:
        """Call with clean arguments but for those given; models become what they answer."""
        return answers(self.function(**self.clean | given))


@cache
def modules() -> list[ModuleType]:
    """The package, its sub-packages and modules that are not private."""
    names = [m.name for m in pkgutil.iter_modules(nearkin.__path__) if not m.name.startswith("_")]
    quiet = {"native", "cli", "app", "reproduction", "validation", "learning", "ensemble", "io"}
    return [nearkin, *(importlib.import_module(f"nearkin.{n}") for n in names if n not in quiet)]


@cache
def public() -> dict[str, Any]:
    """All public classes and functions, by name."""
    found = {}
    for module in modules():
        listed = getattr(module, "__all__", None)
        for name in listed or vars(module):
            thing = getattr(module, name)
            if not callable(thing) or name in LEFT_OUT or _is_error(thing):
                continue
            if listed:
                found[name] = thing
            elif _is_documented(thing, module) and thing not in found.values():
                found[f"{module.__name__.split('.')[-1]}.{name}"] = thing
    return found


def _is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def _is_documented(thing: Any, module: ModuleType) -> bool:
    """Whether a module without ``__all__`` means this function for users: it has an example."""
    ours = inspect.isfunction(thing) and thing.__module__ == module.__name__
    return ours and "Examples\n" in (thing.__doc__ or "")


def estimators() -> dict[str, type]:
    return {n: t for n, t in public().items() if isinstance(t, type) and hasattr(t, "fit")}


def groups() -> dict[str, type]:
    """Classes whose objects are parameters of estimators."""
    return {
        n: t for n, t in public().items()
        if isinstance(t, type) and n not in estimators() and (issubclass(t, BaseEstimator)
                                                              or n == "Vote")
    }  # fmt: skip


def methods(cls: type) -> list[str]:
    names = [n for n in dir(cls) if not n.startswith("_")]
    return [n for n in names if _is_ours(getattr(cls, n)) and hasattr(small(cls), n)]


def _is_ours(method: Any) -> bool:
    return callable(method) and getattr(method, "__module__", "").startswith("nearkin")


@cache
def targets() -> list[Target]:
    """Everything that can be called: functions, constructors, methods."""
    found = []
    for name, thing in public().items():
        if name in estimators():
            found += _of_estimator(name, thing)
        elif name in groups():
            found += _of_group(name, thing)
        else:
            found.append(_target(name, thing, _signature(thing)))
    return found


def _signature(thing: Any) -> dict[str, inspect.Parameter]:
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(thing).parameters.items()
    return {n: p for n, p in parameters if n != "self" and p.kind not in skipped}


def _target(name: str, function: Any, parameters: dict[str, inspect.Parameter]) -> Target:
    known = clean_arguments() | {n: _placed(v) for n, v in SPECIAL.get(name, {}).items()}
    if name == "save":
        known |= {"model": fitted(estimators()["SLNE"]), "path": "saved.safetensors"}
    required = [n for n, p in parameters.items() if p.default is p.empty]
    clean = {n: known[n] for n in required if n in known}
    clean |= {n: v for n, v in ALWAYS.items() if n in parameters}
    ignored = {n for n, p in parameters.items() if n == "y" and p.default is None}  # by convention
    defaults = {n: p.default for n, p in parameters.items() if p.default is not p.empty}
    defaults |= {n: known[n] for n in defaults if n in known and n != "k"}
    return Target(name, function, clean, tuple(n for n in parameters if n not in ignored), defaults)


def _placed(value: Any) -> Any:
    if not isinstance(value, str) or ("." not in value and value != "images"):
        return value.removeprefix("cwd:") if isinstance(value, str) else value
    return str(HOME.folder / value)


def _of_estimator(name: str, cls: type) -> list[Target]:
    """Parameters before and after a fit, and all methods."""
    own = _signature(cls)
    defaults = {n: getattr(small(cls), n) for n in own}
    fit = dict(_fit_arguments(cls))

    def constructed(**given: Any) -> Any:
        arrays = {n: given.pop(n) for n in list(given) if n in ARRAYS}
        return small(cls, **given).fit(**fit | arrays)

    def changed(**given: Any) -> Any:
        arrays = {n: given.pop(n) for n in list(given) if n in ARRAYS}
        return small(cls).fit(**fit | arrays).set_params(**given)

    arrays = {n: v for n, v in fit.items() if n in ARRAYS}
    found = [
        Target(f"{name}(…)", constructed, arrays, tuple(own), defaults),
        Target(f"{name}.set_params", changed, arrays, tuple(own), defaults),
    ]
    for method in methods(cls):
        parameters = _signature(getattr(cls, method))
        function = _method(cls, method)
        found.append(_target(f"{name}.{method}", function, parameters))
    return found


def _method(cls: type, method: str) -> Callable[..., Any]:
    def call(**given: Any) -> Any:
        model = small(cls) if method in ("fit", "fit_transform") else fitted(cls)
        return getattr(model, method)(**given)

    return call


def _fit_arguments(cls: type) -> dict[str, Any]:
    known = clean_arguments() | SPECIAL.get(f"{cls.__name__}.fit", {})
    required = [n for n, p in _signature(cls.fit).items() if p.default is p.empty]
    return {n: known[n] for n in required}


def fitted(cls: type) -> Any:
    return small(cls).fit(**_fit_arguments(cls))


def _of_group(name: str, cls: type) -> list[Target]:
    """Parameters of a group, through every estimator that takes it."""
    found = []
    own = _signature(cls)
    hints = typing.get_type_hints(cls.__init__)
    required = {n: typing.get_args(hints.get(n))[0] for n, p in own.items() if p.default is p.empty}
    defaults = {n: p.default for n, p in own.items() if n not in required}
    for owner, estimator in estimators().items():
        for parameter, hint in typing.get_type_hints(estimator.__init__).items():
            if not any(isinstance(t, type) and issubclass(cls, t) for t in _members(hint)):
                continue

            def made(estimator=estimator, parameter=parameter, **given: Any) -> Any:
                arrays = {n: given.pop(n) for n in list(given) if n in ARRAYS}
                model = small(estimator, **{parameter: cls(**given)})
                return model.fit(**_fit_arguments(estimator) | arrays)

            arrays = {"X": rows()[0]} | required
            found.append(Target(f"{owner}({parameter}={name})", made, arrays, tuple(own), defaults))
    return found


def _members(hint: Any) -> list[Any]:
    inner = [m for arg in typing.get_args(hint) for m in _members(arg)]
    return [hint, *inner] if hint is not Any and hint is not object else inner


def answers(result: Any) -> Any:
    """A result to compare; of a fitted model, what it answers to clean questions."""
    if type(result).__name__ in ("NeighborIndex",):
        return result.nearest(3)
    if type(result).__name__ == "Retrieval":
        return result.lists(3)
    if type(result).__name__ == "Adapter":
        return result.transform(queries()[0])
    if type(result).__name__ == "ImageFolder":
        return [Path(p).name for p in result.paths]
    if not hasattr(result, "fit") or not hasattr(result, "get_params"):
        return result
    width = getattr(result, "n_features_in_", 6)
    Q = np.resize(queries()[0].T, (width, 15)).T.copy()  # for models of fewer or more columns, too
    if hasattr(result, "predict_proba"):
        shares = result.predict_proba(Q)
        if not np.allclose(shares.sum(axis=1), 1, atol=1e-3):
            raise AssertionError(f"probabilities add up to {shares.sum(axis=1)[:3]}")
        return shares, result.kneighbors(Q, 1)[0]
    if hasattr(result, "similarity"):
        if getattr(result, "preparation_", None) is None:  # documents may have other columns
            return result.transform_query(Q)
        return result.similarity(Q, Q)
    if "sift" in type(result).__module__:
        return result.transform([np.linspace(0, 1, 1600).reshape(40, 40) ** 2])
    return result.transform(images() if "images." in type(result).__module__
                            and not hasattr(result, "n_features_in_") else Q)  # fmt: skip
