"""Plain threads around compiled code that releases the GIL."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from joblib import cpu_count
from threadpoolctl import threadpool_limits

T = TypeVar("T")

_system: Any = ctypes.PyDLL(None) if sys.platform == "linux" else None
_limit: ContextVar[int | None] = ContextVar("limit", default=None)

# Below this, handing work to a thread costs more than it saves.
_SMALLEST_SHARE = 16


def n_threads() -> int:
    """Threads that the caller may use: all cores, unless `limited` says otherwise."""
    return _limit.get() or cores()


@cache  # joblib asks the operating system anew each time, which takes 0.2 ms
def cores() -> int:
    """Cores that this process may use: no more than its fellow workers leave it."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")  # joblib and dask set it in their workers
    most = int(allowed) if allowed.isdigit() else 0
    return int(min(cpu_count(), most or cpu_count()))


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Keep BLAS, OpenMP (faiss) and our own threads at `threads` inside the block."""
    token = _limit.set(threads)
    try:
        with threadpool_limits(limits=threads):
            yield
    finally:
        _limit.reset(token)


@cache
def pool() -> ThreadPoolExecutor:
    """The threads of this process: as many as there are cores, kept for the next call."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="nearkin")


# The threads of a pool do not survive a fork; the child makes its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)


def hand_over(work: Callable[..., T], *arguments: object) -> "Future[T]":
    """Have another thread do the work while this one goes on.

    Linux often starts a thread on the core of the one that woke it, and moves it only after
    milliseconds, in which the two would wait for each other: it is sent to another core at once.
    """
    ours = _core()

    def elsewhere() -> T:
        _leave(ours)
        return work(*arguments)

    return pool().submit(elsewhere)


def _leave(core: int | None) -> None:
    """Go on on another core, if this is the one; if that is not to be had, stay.

    Which of the others it will be is the system's choice, and not always the idle one: measured on
    two cores, where there is no choice.
    """
    with suppress(Exception):  # a system may not have it, a container may forbid it
        if core is not None and _core() == core:
            allowed = os.sched_getaffinity(0)
            os.sched_setaffinity(0, (allowed - {core}) or allowed)
            os.sched_setaffinity(0, allowed)  # from now on wherever the system will


def _core() -> int | None:
    """The core that this thread is on, where the system tells."""
    return int(_system.sched_getcpu()) if hasattr(_system, "sched_getcpu") else None


def in_threads(work: Callable[[int, int], T], n: int) -> list[T]:
    """Call ``work(lo, hi)`` over the range ``0:n`` cut into shares; return what the calls gave.

    Shares are finer than the threads, so that rows of uneven cost even out.

    Examples
    --------
    >>> sum(in_threads(lambda lo, hi: hi - lo, 1_000))
    1000
    """
    shares = max(1, min(4 * n_threads(), n // _SMALLEST_SHARE))
    edges = [n * s // shares for s in range(shares + 1)]
    return in_parallel(work, list(pairwise(edges)))


def in_parallel(work: Callable[[int, int], T], ranges: list[tuple[int, int]]) -> list[T]:
    """Call ``work(lo, hi)`` for each range, on as many threads as are allowed."""
    if n_threads() == 1 or len(ranges) == 1:
        return [work(lo, hi) for lo, hi in ranges]
    futures = [pool().submit(work, lo, hi) for lo, hi in ranges]
    try:
        return [future.result() for future in futures]
    finally:  # nobody goes on behind the back of a caller who was interrupted
        wait([future for future in futures if not future.cancel()])
