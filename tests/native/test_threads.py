"""The thread pool."""

import os
from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_info

from nearkin.native.blas import serial_blas
from nearkin.native.threads import (
    cores,
    current_core,
    in_threads,
    leave_core,
    limited,
    submit_elsewhere,
)


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


def blas_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


@pytest.mark.parametrize("inner", [serial_blas, lambda: limited(1)])
@pytest.mark.parametrize("outer", [serial_blas, lambda: limited(1)])
def test_limits_of_blas_that_overlap_are_lifted(outer, inner):
    """The first to enter is the first to leave, as threads do."""
    before = blas_threads()
    with ExitStack() as second:
        with ExitStack() as first:
            first.enter_context(outer())
            second.enter_context(inner())
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_the_lowest_limit_holds():
    before = blas_threads()
    with limited(2):
        assert max(blas_threads()) <= 2
        with serial_blas():
            assert set(blas_threads()) == {1}
        assert blas_threads() == [min(2, threads) for threads in before]
    assert blas_threads() == before
