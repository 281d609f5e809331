"""How functions are compiled, and when cached machine code is out of date.

numba caches machine code on disk and recompiles a function when its own file changes. Its callees
are compiled into it, so a change in their files must invalidate the cache as well: otherwise an
upgrade would keep running old code.
"""

import hashlib
import logging
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

from numba import njit
from numba.core import event
from numba.core.registry import cpu_target

_DEFINES_COMPILED = re.compile(rb"^@(\w*jit|compiled|intrinsic)\b", re.MULTILINE)


def compiled(*, fastmath: bool | set[str], **options: Any) -> Callable[[Any], Any]:
    """Decorator for functions compiled without the GIL and cached between processes.

    `fastmath` has no default: a function without it inherits the flags of the caller that is
    compiled first, and its bits would depend on which one that is.
    """

    def decorate(function: Any) -> Any:
        dispatcher = njit(nogil=True, fastmath=fastmath, **options)(function)
        try:
            dispatcher.enable_caching()
        except RuntimeError:
            _warn_no_cache()
            return dispatcher
        add_to_cache_key(dispatcher, sources_digest())
        return dispatcher

    return decorate


@cache
def sources_digest() -> bytes:
    """SHA-256 of all source files that define compiled code; 7 ms, once per process."""
    digest = hashlib.sha256()
    for source in compiled_sources().values():
        digest.update(source)
    return digest.digest()


def compiled_sources() -> dict[Path, bytes]:
    """Files of the package whose functions may be compiled into others, with their content."""
    paths = sorted(Path(__file__).parents[1].rglob("*.py"))
    contents = {path: path.read_bytes() for path in paths}
    return {path: text for path, text in contents.items() if _DEFINES_COMPILED.search(text)}


@cache
def _warn_no_cache() -> None:
    warnings.warn(
        "numba finds no writable folder for compiled code, so every process compiles again, which "
        "takes up to a minute; set NUMBA_CACHE_DIR to a writable folder",
        stacklevel=4,
    )


class CompileNotice(event.Listener):
    """Says once per process that kernels are being compiled, after `delay` seconds of it.

    Loading from the cache triggers no event. numba compiles under a global lock, so events of
    several threads never interleave.
    """

    MESSAGE = "nearkin: compiling kernels for this machine, about half a minute, once per version"

    def __init__(self, delay: float = 1.0) -> None:
        self.delay, self.depth, self.seconds, self.began = delay, 0, 0.0, 0.0
        self.said = False

    def on_start(self, event: Any) -> None:
        """Count a compilation, which may be nested: a callee is compiled on demand."""
        if self.depth == 0:
            self.began = perf_counter()
        self.depth += 1
        self._say(event)

    def on_end(self, event: Any) -> None:
        """Add the time of an outermost compilation."""
        self._say(event)
        self.depth -= 1
        if self.depth == 0:
            self.seconds += perf_counter() - self.began

    def _say(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith("nearkin.")
        late = self.seconds + perf_counter() - self.began >= self.delay
        if self.said or not ours or not late:
            return
        self.said = True
        if sys.stderr is not None and sys.stderr.isatty():
            print(self.MESSAGE, file=sys.stderr, flush=True)
        else:
            logging.getLogger("nearkin").info(self.MESSAGE)


# Interfaces that numba does not promise to keep: all of them are used here and nowhere else.
# pyproject.toml bounds numba's version; tests/native/test_jit.py names the one that has changed.


def add_to_cache_key(dispatcher: Any, extra: bytes) -> None:
    """Recompile the function whenever `extra` changes, not only when its own file does.

    numba unpickles the whole index before it compares keys, which fails if a class in an old
    signature has been renamed: such an index is out of date, too.
    """
    index = dispatcher._cache._cache_file
    index._source_stamp = index._source_stamp, extra
    load = index._load_index

    def load_if_current() -> dict[Any, str]:
        try:
            return load()
        except (AttributeError, ImportError):
            return {}

    index._load_index = load_if_current


def target_features() -> frozenset[str]:
    """CPU features that numba compiles for, such as ``avx512f``; part of its cache key, too."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return frozenset(name[1:] for name in features.split(",") if name.startswith("+"))


NOTICE = CompileNotice()
event.register("numba:compile", NOTICE)
