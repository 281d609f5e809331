"""How much memory a piece of work takes."""

import ctypes
import gc
import threading
from contextlib import suppress
from typing import Self

SAMPLE_SECONDS = 0.01


class Watch:
    """Growth of this process's anonymous memory inside the block: pages of files do not count."""

    def __enter__(self) -> Self:
        self.before = self.most = anonymous()
        self.done = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.watcher.join()
        self._look()

    def _watch(self) -> None:
        while not self.done.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        if self.most is not None:
            self.most = max(self.most, anonymous() or 0)

    @property
    def growth(self) -> int | None:
        """Bytes, or None where the system does not tell."""
        return None if self.before is None or self.most is None else self.most - self.before


def anonymous() -> int | None:
    """Bytes of memory that are this process's own."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return None


def give_back() -> None:
    """Return freed memory to the system, so that a method cannot grow into what another left."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
