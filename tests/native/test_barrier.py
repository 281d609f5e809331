"""Threads that work on one row together."""

import itertools

import numpy as np
import pytest

from nearkin.learning import trainer
from nearkin.learning.sampling import RULES
from nearkin.native import threads
from nearkin.native.barrier import Member, meet, share, together
from nearkin.native.threads import cores, limited
from nearkin.neighbors import nearest
from samples import blobs, slne


@pytest.fixture
def worth(monkeypatch):
    """Small rows are worth a team, too."""
    monkeypatch.setattr(trainer, "WORTH_A_MEMBER", (1, 1))


@pytest.mark.parametrize(
    ("rule", "symmetric", "normalize", "rounded"),
    list(itertools.product(RULES, [False, True], [False, True], [False, True])),
)
def test_any_number_of_threads_gives_the_same_matrix(worth, rule, symmetric, normalize, rounded):
    X, y = blobs(n=100, dims=257, spread=2)  # neither they nor their five lines can be divided
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


def test_shares_cover_everything_once():
    for size, n in itertools.product([1, 2, 3], [0, 1, 2, 7]):
        edges = [share(Member(m, size, np.zeros((4, 8), np.int64)), n) for m in range(size)]
        assert edges[0][0] == 0
        assert edges[-1][1] == n
        assert all(a[1] == b[0] for a, b in itertools.pairwise(edges))


def test_nobody_goes_on_before_all_have_come():
    size = cores() + 1
    told = np.zeros((100, size), np.int64)
    late = []

    def work(member):
        for time in range(100):
            told[time, member.number] = 1
            meet(member)
            late.append(size - told[time].sum())

    together(work, size)
    assert late == [0] * (100 * size)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_member_that_fails_lets_the_others_go(failing):
    def work(member):
        if member.number == failing:
            raise MemoryError("no room")
        meet(member)

    with pytest.raises(MemoryError, match="no room"):
        together(work, 2)
    assert together(lambda member: member.size, 2) == 2


def test_a_second_team_works_alone():
    assert together(lambda _: together(lambda member: member.size, 2), 2) == 1


def test_being_kept_on_a_core_is_no_failure(monkeypatch):
    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(threads, "_core", lambda: 0)
    monkeypatch.setattr(threads.os, "sched_setaffinity", forbidden, raising=False)
    assert together(lambda member: member.size, 2) == 2


def test_more_members_than_threads_are_not_asked_for():
    assert together(lambda member: member.size, 1_000) == cores() + 1
