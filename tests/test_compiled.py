"""How the package has its functions compiled."""

import importlib
import pkgutil

from numba.core.dispatcher import Dispatcher

import nearkin


def compiled_functions():
    for module in pkgutil.walk_packages(nearkin.__path__, "nearkin."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.name:
                yield value


def test_every_one_says_how_exact_it_is():
    """One that does not takes the fastmath of whoever has it compiled: bits would depend on it."""
    silent = [
        f"{function.py_func.__module__}.{function.__name__}"
        for function in compiled_functions()
        if "fastmath" not in function.targetoptions
    ]
    assert silent == []
