"""How functions are compiled, and when what was compiled is out of date.

numba keeps machine code between processes and makes it anew when the file of the function has
changed. The functions it calls, though, are part of that code: a change in their files must count,
too, or an upgrade would leave old code at work.
"""

import hashlib
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit

_HOLDS_COMPILED = re.compile(rb"^@(\w*jit|compiled|intrinsic)\b", re.MULTILINE)


def compiled(*, fastmath: bool | set[str], **options: Any) -> Callable[[Any], Any]:
    """A decorator: machine code that releases the GIL and is kept between processes.

    `fastmath` must be said: a function that does not takes that of whoever has it compiled, and its
    bits would depend on who was first.
    """

    def decorate(function: Any) -> Any:
        dispatcher = njit(nogil=True, fastmath=fastmath, **options)(function)
        try:
            dispatcher.enable_caching()
        except RuntimeError:
            _tell_that_nothing_is_kept()
            return dispatcher
        kept = dispatcher._cache._cache_file
        kept._source_stamp = kept._source_stamp, digest_of_callees()
        return dispatcher

    return decorate


@cache
def digest_of_callees() -> bytes:
    """Tells apart versions of the code that compiled functions call."""
    digest = hashlib.sha256()
    for path in callees():
        digest.update(path.read_bytes())
    return digest.digest()


def callees() -> list[Path]:
    """The files whose functions are compiled into those of others."""
    paths = sorted(Path(__file__).parents[1].rglob("*.py"))
    return [path for path in paths if _HOLDS_COMPILED.search(path.read_bytes())]


@cache
def _tell_that_nothing_is_kept() -> None:
    warnings.warn(
        "no folder can be written to keep compiled code in, so every process compiles anew, which "
        "takes up to a minute; set NUMBA_CACHE_DIR to a folder that can",
        stacklevel=4,
    )
