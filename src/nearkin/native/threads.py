"""Plain threads around compiled code that releases the GIL."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController, threadpool_limits

S = TypeVar("S")
T = TypeVar("T")

_libc: Any = ctypes.PyDLL(None) if sys.platform == "linux" else None
_limit: ContextVar[int | None] = ContextVar("limit", default=None)

_MIN_CHUNK = 16  # rows; submitting fewer to a thread costs more than it saves
_CHUNKS_PER_THREAD = 4  # so that rows of uneven cost balance out


def n_threads() -> int:
    """Threads that the caller may use: all cores, unless inside `limited`."""
    return _limit.get() or cores()


@cache  # joblib queries the operating system each time, which takes 0.2 ms
def cores() -> int:
    """Cores available to this process, or fewer if OMP_NUM_THREADS says so."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")  # joblib and dask set it in their workers
    most = int(allowed) if allowed.isdigit() else 0
    return int(min(cpu_count(), most or cpu_count()))


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP (faiss) and the package's own threads to `threads` inside the block."""
    token = _limit.set(threads)
    try:
        with limited_libraries(threads):
            yield
    finally:
        _limit.reset(token)


@contextmanager
def limited_libraries(threads: int) -> Iterator[None]:
    """Limit BLAS and OpenMP, not the package's own threads."""
    blas_limit.find_libraries()
    # OpenMP keeps its number by thread, so that its limits do not meet.
    with blas_limit.to(threads), threadpool_limits(limits=threads, user_api="openmp"):
        yield


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS and the package's own threads to one inside the block, at little cost.

    For work so small that threads would wait for each other longer than they work. OpenMP, which
    takes milliseconds to limit, is left as it is.
    """
    token = _limit.set(1)
    try:
        with blas_limit.to(1):
            yield
    finally:
        _limit.reset(token)


class BlasLimit:
    """Limits of the number of BLAS threads, which belongs to the process and not to a thread.

    While several threads have limits, the lowest holds; the last to leave restores what there was
    before the first. Each on its own would restore what it had found: the limit of another.
    """

    def __init__(self) -> None:
        self.lock, self.active = Lock(), list[int]()
        self.libraries: list[Any] | None = None
        self.before: list[tuple[Any, int]] = []

    def find_libraries(self) -> None:
        """Look for BLAS libraries that were loaded since the last time."""
        with self.lock:
            if not self.active:
                self.libraries = None

    @contextmanager
    def to(self, threads: int) -> Iterator[None]:
        """Limit BLAS inside the block."""
        with self.lock:
            if not self.active:
                self.before = [(blas, blas.get_num_threads()) for blas in self._libraries()]
            self.active.append(threads)
            self._apply()
        try:
            yield
        finally:
            with self.lock:
                self.active.remove(threads)
                self._apply()

    def after_fork(self) -> None:
        """A child has none of the other threads, one of which may have held the lock."""
        self.lock = Lock()

    def _libraries(self) -> list[Any]:
        if self.libraries is None:  # looking for them takes 5 ms
            self.libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return self.libraries

    def _apply(self) -> None:
        for blas, before in self.before:
            wanted = min(self.active, default=before)
            if blas.get_num_threads() != wanted:
                blas.set_num_threads(wanted)


blas_limit = BlasLimit()


@cache
def pool() -> ThreadPoolExecutor:
    """Thread pool of this process, one thread per core, kept between calls."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="nearkin")


# The threads of a pool do not survive a fork; the child creates its own.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)
    os.register_at_fork(after_in_child=blas_limit.after_fork)


class _OpenMP:
    """Whether OpenMP has threads, and whether a fork has left this process without them."""

    used = lost = False

    def forked(self) -> None:
        self.lost = self.used


_openmp = _OpenMP()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_openmp.forked)


def before_openmp(what: str) -> None:
    """Call before a library that uses OpenMP: after a fork it would wait for its threads forever.

    OpenMP cannot start anew in a child, and does not notice; on one thread it needs none.
    """
    if n_threads() == 1:
        return
    if _openmp.lost:
        raise RuntimeError(
            f"{what} uses threads that were lost when this process was forked from one that had "
            "used them; start processes with joblib's loky or multiprocessing's 'spawn', or call "
            "it first in the child"
        )
    _openmp.used = True


def submit_elsewhere(work: Callable[..., T], *arguments: object) -> "Future[T]":
    """Submit work to the pool, to be run on another core than the caller's.

    Linux often wakes a thread on the core of the thread that woke it and migrates it only after
    milliseconds, in which two threads that spin on a barrier would block each other.
    """
    core = current_core()

    def elsewhere() -> T:
        leave_core(core)
        return work(*arguments)

    return pool().submit(elsewhere)


def leave_core(core: int | None) -> None:
    """Migrate the calling thread if it runs on `core`; do nothing where that is not possible.

    The scheduler chooses among the other cores, not always an idle one; measured on two cores,
    where there is no choice.
    """
    with suppress(Exception):  # not every system has affinities, and a container may forbid them
        if core is not None and current_core() == core:
            allowed = os.sched_getaffinity(0)
            os.sched_setaffinity(0, (allowed - {core}) or allowed)
            os.sched_setaffinity(0, allowed)  # lift the restriction again


def current_core() -> int | None:
    """Core that the calling thread runs on; None where the system does not say."""
    return int(_libc.sched_getcpu()) if hasattr(_libc, "sched_getcpu") else None


def each_alone(work: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """Call ``work(item)`` for each item, side by side, each call limited to one thread.

    For independent tasks that would wait for each other inside if they shared the cores.

    Examples
    --------
    >>> each_alone(lambda item: (item, n_threads()), [7])[0][0]
    7
    """
    if n_threads() == 1 or len(items) == 1:
        return [work(item) for item in items]

    def alone(item: S) -> T:
        token = _limit.set(1)
        try:
            return work(item)
        finally:
            _limit.reset(token)

    futures = [pool().submit(alone, item) for item in items]
    try:
        return [future.result() for future in futures]
    finally:
        wait([future for future in futures if not future.cancel()])


def in_threads(work: Callable[[int, int], T], n: int) -> list[T]:
    """Call ``work(lo, hi)`` over ``0:n`` in chunks, in parallel; return the results in order.

    Examples
    --------
    >>> sum(in_threads(lambda lo, hi: hi - lo, 1_000))
    1000
    """
    chunks = max(1, min(_CHUNKS_PER_THREAD * n_threads(), n // _MIN_CHUNK))
    edges = [n * c // chunks for c in range(chunks + 1)]
    return in_parallel(work, list(pairwise(edges)))


def in_parallel(work: Callable[[int, int], T], ranges: list[tuple[int, int]]) -> list[T]:
    """Call ``work(lo, hi)`` for each range, on as many threads as are allowed."""
    if n_threads() == 1 or len(ranges) == 1:
        return [work(lo, hi) for lo, hi in ranges]
    futures = [pool().submit(work, lo, hi) for lo, hi in ranges]
    try:
        return [future.result() for future in futures]
    finally:  # after an interrupt, no thread may still be writing to the caller's arrays
        wait([future for future in futures if not future.cancel()])
