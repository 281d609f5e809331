"""How the package has its functions compiled."""

import importlib
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import nearkin
from nearkin.native import jit

DOTS = """
import numpy as np
from nearkin.native.pairs import pair_scores
rows = np.ones((1, 4), np.float32)
print(pair_scores(rows, rows, np.zeros((1, 1), np.int32)).item())
"""


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


def called(function):
    """Compiled functions and intrinsics that a function of another module is made of."""
    names = function.py_func.__globals__
    for value in (names.get(name) for name in function.py_func.__code__.co_names):
        if isinstance(value, Dispatcher):
            yield Path(inspect.getfile(value.py_func)), value
        elif isinstance(value, _Intrinsic):
            yield Path(inspect.getfile(value._defn)), value


def test_whatever_is_called_is_watched():
    watched, others = set(jit.callees()), 0
    for function in compiled_functions():
        assert function._cache._cache_file._source_stamp[1] == jit.digest_of_callees()
        own = Path(inspect.getfile(function.py_func))
        for file, _ in called(function):
            assert file == own or file in watched
            others += file != own
    assert others > 20


def test_a_change_in_what_is_called_is_noticed(tmp_path):
    """numba itself would go on with what it had compiled before `dot` was changed."""
    copied = shutil.copytree(
        nearkin.__path__[0], tmp_path / "nearkin", ignore=shutil.ignore_patterns("__pycache__")
    )
    alone = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}

    def dots():
        return float(subprocess.check_output([sys.executable, "-c", DOTS], env=alone, cwd=tmp_path))

    assert dots() == 4
    source = copied / "native" / "vectors.py"
    source.write_text(
        source.read_text().replace("total += a[d] * b[d]", "total += a[d] - 3 * b[d]")
    )
    assert dots() == -8


def test_nowhere_to_keep_what_is_compiled(monkeypatch):
    def refuse(self):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    jit._tell_that_nothing_is_kept.cache_clear()
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR"):
        double = jit.compiled(fastmath=False)(lambda x: 2 * x)
    assert double(4) == 8
