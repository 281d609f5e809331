"""Peak memory of a block of code. Standard library only: benchmarks load this file on its own."""

import ctypes
import gc
import threading
from contextlib import suppress
from typing import Self

SAMPLE_SECONDS = 0.01


class MemoryWatch:
    """Samples the growth of the process's anonymous memory; pages of mapped files do not count."""

    def __enter__(self) -> Self:
        self.before = self.peak = anonymous_bytes()
        self.done = threading.Event()
        self.sampler = threading.Thread(target=self._run, daemon=True)
        self.sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.sampler.join()
        self._sample()

    def _run(self) -> None:
        while not self.done.wait(SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        if self.peak is not None:
            self.peak = max(self.peak, anonymous_bytes() or 0)

    @property
    def growth(self) -> int | None:
        """Peak minus initial bytes; None where the system does not report them."""
        return None if self.before is None or self.peak is None else self.peak - self.before


def anonymous_bytes() -> int | None:
    """Resident anonymous memory of this process; None without /proc."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
    except (OSError, StopIteration):
        return None


def release_memory() -> None:
    """Return freed memory to the system, so that the next measurement starts from a low level."""
    gc.collect()
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
