"""Teams of threads that process one row together."""

import itertools

import numpy as np
import pytest

from nearkin.learning import trainer
from nearkin.learning.sampling import RULES
from nearkin.native import threads
from nearkin.native.barrier import TeamThread, barrier_state, barrier_wait, run_team, thread_range
from nearkin.native.threads import cores, limited
from nearkin.neighbors import nearest
from samples import blobs, slne


@pytest.fixture
def teams_for_small_rows(monkeypatch):
    monkeypatch.setattr(trainer, "NEIGHBORS_A_THREAD", 1)
    monkeypatch.setattr(trainer, "NUMBERS_A_THREAD", 1)


@pytest.mark.usefixtures("teams_for_small_rows")
@pytest.mark.parametrize(
    ("rule", "symmetric", "normalize", "rounded"),
    list(itertools.product(RULES, [False, True], [False, True], [False, True])),
)
def test_any_number_of_threads_gives_the_same_matrix(rule, symmetric, normalize, rounded):
    X, y = blobs(n=100, dims=257, spread=2)  # neither columns nor cache lines divide evenly
    lists = nearest(X, 20)[1]

    def learned(threads):
        model = slne(
            rule, max_epochs=2, tol=0, random_state=0, symmetric=symmetric, normalize=normalize,
            quantize=rounded,
        )  # fmt: skip
        with limited(threads):
            return model.fit(X, y, neighbors=lists).matrix_

    alone = learned(1)
    assert not np.array_equal(alone, np.eye(257))
    np.testing.assert_array_equal(learned(2), alone)
    np.testing.assert_array_equal(learned(cores() + 1), alone)


def test_thread_ranges_partition_the_range():
    for size, n in itertools.product([1, 2, 3], [0, 1, 2, 7]):
        ranges = [thread_range(TeamThread(t, size, barrier_state(size)), n) for t in range(size)]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == n
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))


def test_no_thread_passes_the_barrier_before_all_have_arrived():
    size = cores() + 1
    arrived = np.zeros((100, size), np.int64)
    missing = []

    def work(thread):
        for time in range(100):
            arrived[time, thread.id] = 1
            barrier_wait(thread)
            missing.append(size - arrived[time].sum())

    run_team(work, size)
    assert missing == [0] * (100 * size)


@pytest.mark.parametrize("failing", [0, 1])
def test_an_exception_in_one_thread_releases_the_others(failing):
    def work(thread):
        if thread.id == failing:
            raise MemoryError("out of memory")
        barrier_wait(thread)

    with pytest.raises(MemoryError, match="out of memory"):
        run_team(work, 2)
    assert run_team(lambda thread: thread.size, 2) == 2


def test_a_nested_team_has_one_thread():
    assert run_team(lambda _: run_team(lambda thread: thread.size, 2), 2) == 1


def test_a_team_works_where_affinities_are_forbidden(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(threads, "current_core", lambda: 0)
    monkeypatch.setattr(threads.os, "sched_setaffinity", forbidden, raising=False)
    assert run_team(lambda thread: thread.size, 2) == 2


def test_a_team_is_no_larger_than_the_pool_allows():
    assert run_team(lambda thread: thread.size, 1_000) == cores() + 1
