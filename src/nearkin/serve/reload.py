"""A new model in place of the old one: found by looking at its file, taken when it is ready.

Requests keep the engine that they began with; those that come after the change get the new one.
A file that cannot be read is reported, and the old model goes on.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nearkin.serve import garbage
from nearkin.serve.monitoring import Monitor

if TYPE_CHECKING:
    from nearkin.serve.engine import Engine

SECONDS = 2.0  # between two looks
log = logging.getLogger("nearkin.serve")

Stamp = tuple[int, int, int] | None


def stamp(path: Path) -> Stamp:
    """What changes when a file is replaced; None while there is none."""
    with suppress(OSError):
        status = os.stat(path)
        return status.st_ino, status.st_mtime_ns, status.st_size
    return None


class Holder:
    """The engine that answers, and the file that it comes from.

    Parameters
    ----------
    open_engine : callable
        Reads the model and makes it ready.
    path : path
        The file to look at; `nearkin` replaces it whole, so must others (write, then rename).
    """

    def __init__(self, open_engine: "Callable[[], Engine]", path: Path) -> None:
        self._open, self._path = open_engine, path
        self._seen = stamp(path)
        self.engine = open_engine()
        self.error = ""
        self._replaced = False

    async def watch(self, monitor: Monitor, seconds: float = SECONDS) -> None:
        """Look at the file for ever."""
        while True:
            await asyncio.sleep(seconds)
            await self.look(monitor)

    async def look(self, monitor: Monitor) -> None:
        """Take a new model, if there is one that stands still."""
        if self._replaced:  # requests that had begun with the old one have ended, but for a few
            self._replaced = False
            garbage.settle()
        found = stamp(self._path)
        if found is None or found == self._seen:
            return
        self._seen = found
        try:
            engine = await asyncio.to_thread(self._open)
        except Exception as error:
            self.error = " ".join(str(error).split())[:500] or type(error).__name__
            monitor.reloads["refused"] += 1
            log.warning("the new model is not taken: %s", self.error)
            return
        old, self.engine, self.error = self.engine, engine, ""
        monitor.reloads["taken"] += 1
        log.warning("a new model of %s rows has been put in place", f"{engine.n_rows:,}")
        await asyncio.to_thread(old.close)
        self._replaced = True
