"""A team of threads with a spinning barrier, for work of microseconds between two barriers.

Threads of a team process one row together: each its part of the neighbours, then all wait for each
other. Rows follow each other within microseconds, too fast for locks of the operating system, so
threads spin on each other's arrival counters.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import atomic_load, atomic_store, yield_core
from nearkin.native.jit import compiled
from nearkin.native.threads import cores, submit_elsewhere

T = TypeVar("T")

_PADDING = 16  # int64 per counter: two cache lines, against false sharing
_SPINS = 4_000  # some microseconds; a thread that takes longer may be waiting for this core
_team_lock = Lock()

if hasattr(os, "register_at_fork"):  # a fork copies a held lock, which is never released
    os.register_at_fork(after_in_child=_team_lock._at_fork_reinit)  # type: ignore[attr-defined]


class TeamThread(NamedTuple):
    """One thread of a team: its id, the size of the team, and the barrier's state.

    ``arrivals[i, 0]`` counts the barriers that thread i has reached; the extra last row is the
    abort flag, which releases all waiting threads.
    """

    id: int
    size: int
    arrivals: NDArray[np.int64]


def run_team(work: Callable[[TeamThread], T], size: int) -> T:
    """Call ``work(thread)`` on all threads of a team at once; return the result of thread 0.

    While another team is running, the team has one thread: two teams could each wait for pool
    threads that the other holds.

    Examples
    --------
    >>> run_team(lambda thread: thread_range(thread, 10), 1)
    (0, 10)
    """
    size = min(size, cores() + 1)  # the pool's threads and the caller's
    if size == 1 or not _team_lock.acquire(blocking=False):
        return work(TeamThread(0, 1, barrier_state(1)))
    try:
        return _run_on_pool(work, size)
    finally:
        _team_lock.release()


def barrier_state(size: int) -> NDArray[np.int64]:
    """Arrival counters for a team of `size` threads, and the abort flag."""
    return np.zeros((size + 1, _PADDING), np.int64)


def abort_barrier(thread: TeamThread) -> None:
    """Release all threads that wait at the barrier, now and later."""
    thread.arrivals[thread.size] = 1


def _run_on_pool(work: Callable[[TeamThread], T], size: int) -> T:
    arrivals = barrier_state(size)
    first, *others = (TeamThread(number, size, arrivals) for number in range(size))

    def guarded(thread: TeamThread) -> T:
        try:
            return work(thread)
        except BaseException:
            abort_barrier(thread)
            raise

    running: list[Future[T]] = []
    try:
        running.extend(submit_elsewhere(guarded, thread) for thread in others)
        return guarded(first)
    finally:
        abort_barrier(first)  # thread 0 will not arrive any more
        for future in running:
            future.result()


@compiled(fastmath=False)
def thread_range(thread, n):  # type: ignore[no-untyped-def]
    """The thread's part of ``0:n``, as (first, last)."""
    return n * thread.id // thread.size, n * (thread.id + 1) // thread.size


@compiled(fastmath=False)
def barrier_wait(thread):  # type: ignore[no-untyped-def]
    """Wait until all threads of the team have arrived; their earlier writes are then visible."""
    if thread.size == 1:
        return
    arrived = thread.arrivals[thread.id, 0] + 1
    atomic_store(thread.arrivals, thread.id, arrived)
    for other in range(thread.size):
        spins = 0
        while (
            atomic_load(thread.arrivals, other) < arrived
            and atomic_load(thread.arrivals, thread.size) == 0
        ):
            spins += 1
            if spins > _SPINS:
                yield_core()
