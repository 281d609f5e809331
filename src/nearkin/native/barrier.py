"""Threads that visit a row together: each takes its share of the neighbours, then all meet.

Rows follow each other in microseconds, too fast for the operating system's ways of waiting: the
members of a team look at each other's counters until all have arrived.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import give_way, tell, told
from nearkin.native.jit import compiled
from nearkin.native.threads import cores, hand_over

T = TypeVar("T")

_LINE = 16  # numbers, two cache lines of most processors; each counter has them to itself
_PATIENCE = 4_000  # looks, some microseconds; a member who takes longer may be waiting for our core
_one_team = Lock()

if hasattr(os, "register_at_fork"):  # a fork copies a lock as it is, and nobody would open it
    os.register_at_fork(after_in_child=_one_team._at_fork_reinit)  # type: ignore[attr-defined]


class Member(NamedTuple):
    """One of the threads: its number, how many there are, and how often each came to meet.

    The last line is not a member's: once it is set, nobody waits any more.
    """

    number: int
    size: int
    met: NDArray[np.int64]


def together(work: Callable[[Member], T], size: int) -> T:
    """Call ``work(member)`` for all members at once; return what the first one's call gave.

    While another team is at work, the first is the only one: two teams could each wait for the
    threads of the other.

    Examples
    --------
    >>> together(lambda member: share(member, 10), 1)
    (0, 10)
    """
    size = min(size, cores() + 1)  # the pool's threads and our own
    if size == 1 or not _one_team.acquire(blocking=False):
        return work(Member(0, 1, meeting_place(1)))
    try:
        return _at_once(work, size)
    finally:
        _one_team.release()


def meeting_place(size: int) -> NDArray[np.int64]:
    """Counters for a team of so many, and the line that sends them all home."""
    return np.zeros((size + 1, _LINE), np.int64)


def _at_once(work: Callable[[Member], T], size: int) -> T:
    met = meeting_place(size)
    first, *others = (Member(number, size, met) for number in range(size))

    def watched(member: Member) -> T:
        try:
            return work(member)
        except BaseException:
            met[size] = 1
            raise

    running: list[Future[T]] = []
    try:
        running.extend(hand_over(watched, member) for member in others)
        return watched(first)
    finally:
        met[size] = 1  # those who are still waiting wait for nobody; the first is through
        for member_at_work in running:
            member_at_work.result()


@compiled(fastmath=False)
def share(member, n):  # type: ignore[no-untyped-def]
    """The member's part of ``0:n``."""
    return n * member.number // member.size, n * (member.number + 1) // member.size


@compiled(fastmath=False)
def meet(member):  # type: ignore[no-untyped-def]
    """Wait until every member has come here as often; what they wrote can then be read."""
    if member.size == 1:
        return
    times = member.met[member.number, 0] + 1
    tell(member.met, member.number, times)
    for other in range(member.size):
        looks = 0
        while told(member.met, other) < times and told(member.met, member.size) == 0:
            looks += 1
            if looks > _PATIENCE:
                give_way()
