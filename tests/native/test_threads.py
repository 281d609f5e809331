"""The thread pool."""

import os

import pytest

from nearkin.native.threads import cores, current_core, in_threads, leave_core, submit_elsewhere


@pytest.mark.skipif(current_core() is None or cores() == 1, reason="there is no other core")
def test_a_thread_leaves_the_given_core_and_may_then_run_anywhere():
    def pin_and_leave(core):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, allowed)
        leave_core(core)
        return current_core(), allowed == os.sched_getaffinity(0)

    for core in os.sched_getaffinity(0):
        now, unrestricted = submit_elsewhere(pin_and_leave, core).result()
        assert now != core
        assert unrestricted


@pytest.mark.parametrize("n", [0, 1, 15, 16, 33, 1_000])
def test_chunks_cover_the_range_in_order(n):
    chunks = in_threads(lambda lo, hi: range(lo, hi), n)
    assert [i for chunk in chunks for i in chunk] == list(range(n))
