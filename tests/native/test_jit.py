"""Compilation: options, the cache and its key, the notice."""

import importlib
import inspect
import logging
import os
import pkgutil
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import event
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

import nearkin
from nearkin.native import jit
from nearkin.native.threads import submit_elsewhere

DOT = """
import numpy as np
from nearkin.native.listed_scores import pair_scores
rows = np.ones((1, 4), np.float32)
print(pair_scores(rows, rows, np.zeros((1, 1), np.int32)).item())
"""
RANGE = """
from nearkin.native import barrier
thread = barrier.{name}(0, 1, barrier.barrier_state(1))
print(barrier.thread_range(thread, 4)[1])
"""


def compiled_functions():
    for module in pkgutil.walk_packages(nearkin.__path__, "nearkin."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__module__ == module.name:
                yield value


def test_every_function_sets_fastmath():
    """A function without it inherits the flags of its first caller: bits would depend on that."""
    missing = [
        f"{function.py_func.__module__}.{function.__name__}"
        for function in compiled_functions()
        if "fastmath" not in function.targetoptions
    ]
    assert missing == []


def callees(function):
    """Files of the compiled functions and intrinsics that a compiled function uses."""
    names = function.py_func.__globals__
    for value in (names.get(name) for name in function.py_func.__code__.co_names):
        if isinstance(value, Dispatcher):
            yield Path(inspect.getfile(value.py_func))
        elif isinstance(value, _Intrinsic):
            yield Path(inspect.getfile(value._defn))


def test_the_cache_key_covers_all_callees():
    hashed, elsewhere = jit.compiled_sources(), 0
    for function in compiled_functions():
        assert function._cache._cache_file._source_stamp[1] == jit.sources_digest()
        own = Path(inspect.getfile(function.py_func))
        for file in callees(function):
            assert file == own or file in hashed
            elsewhere += file != own
    assert elsewhere > 20


@pytest.fixture
def copied(tmp_path):
    """A copy of the package with an empty cache, to run code with."""
    package = shutil.copytree(
        nearkin.__path__[0], tmp_path / "nearkin", ignore=shutil.ignore_patterns("__pycache__")
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run(code):
        return float(subprocess.check_output([sys.executable, "-c", code], env=env, cwd=tmp_path))

    return package / "native", run


def replace_in(path, old, new):
    source = path.read_text()
    assert old in source
    path.write_text(source.replace(old, new))


@pytest.mark.slow
def test_a_changed_callee_is_recompiled(copied):
    """numba alone would keep using the code compiled before a product was changed."""
    folder, run = copied
    assert run(DOT) == 4
    twice = "(own, builder.fadd(other, other)) if products"
    replace_in(folder / "listed_values.py", "(own, other) if products", twice)
    assert run(DOT) == 8


def test_a_cache_of_renamed_classes_is_replaced(copied):
    """numba alone would fail to unpickle its index, which names the class in a signature."""
    folder, run = copied
    assert run(RANGE.format(name="TeamThread")) == 4
    replace_in(folder / "barrier.py", "TeamThread", "TeamMember")
    assert run(RANGE.format(name="TeamMember")) == 4


def test_without_a_writable_cache_functions_still_work(monkeypatch):
    def refuse(self):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    jit._warn_no_cache.cache_clear()
    with pytest.warns(UserWarning, match="set NUMBA_CACHE_DIR"):
        double = jit.compiled(fastmath=False)(lambda x: 2 * x)
    assert double(4) == 8


def test_private_numba_interfaces():
    """What to look at in `nearkin.native.jit` when numba's version bound is raised."""
    function = next(compiled_functions())
    index = getattr(getattr(function, "_cache", None), "_cache_file", None)
    for name in ("_source_stamp", "_load_index"):
        assert getattr(index, name, None), (
            f"numba: Dispatcher._cache._cache_file.{name} has changed"
        )
    magic = jit.cpu_target.target_context.codegen().magic_tuple()
    assert len(magic) == 3, "numba: codegen().magic_tuple() is no longer (triple, CPU, features)"
    host = {"x86_64": "sse2", "AMD64": "sse2"}.get(os.uname().machine)
    assert host is None or host in jit.target_features(), "numba: features are spelt differently"


def double_of(module):
    """A function to be compiled as if it were the module's."""

    def double(x):
        return 2 * x

    double.__module__ = module
    return jit.njit(double)


@pytest.fixture
def notice(monkeypatch):
    monkeypatch.setattr(jit.NOTICE, "said", True)
    listener = jit.CompileNotice(delay=0)
    with event.install_listener("numba:compile", listener):
        yield listener


def test_compiling_is_logged_once_from_any_thread(notice, caplog):
    caplog.set_level(logging.INFO, "nearkin")
    for _ in range(2):
        submit_elsewhere(double_of("nearkin.somewhere"), 1).result()
    assert [record.message for record in caplog.records] == [jit.CompileNotice.MESSAGE]
    assert notice.seconds > 0, "numba: event 'numba:compile' is no longer sent"


def test_nothing_is_logged_for_functions_of_others_and_short_compilations(notice, caplog):
    caplog.set_level(logging.INFO, "nearkin")
    double_of("elsewhere")(1)
    notice.delay = 1_000
    double_of("nearkin.somewhere")(1)
    assert caplog.records == []


@pytest.mark.slow
def test_loading_from_the_cache_is_not_announced(tmp_path):
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from numba.core import event; from nearkin.native import jit\n"
        "event.register('numba:compile', jit.CompileNotice(delay=0))\n" + DOT
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    logs = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
        for _ in range(2)
    ]
    assert [jit.CompileNotice.MESSAGE.encode() in log.stderr for log in logs] == [True, False]


def test_a_terminal_shows_the_notice(notice, monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        double_of("nearkin.somewhere")(1)
        assert jit.CompileNotice.MESSAGE in os.read(ours, 1_000).decode()
    os.close(ours)
