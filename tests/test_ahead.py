"""Matrix products ahead of the steps: the same Algorithm 1."""

import os
import threading
import time

import numpy as np
import pytest

from nearkin import SLNE, _ahead, _learning, _team
from nearkin._checkpoint import Checkpoint
from nearkin._rounded import rounded
from nearkin._rules import RULES
from nearkin._threads import _core, _leave, cores, hand_over, limited, meanwhile
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from samples import blobs
from test_checkpoint import cut_often
from test_exactness import agree


@pytest.fixture
def early(monkeypatch):
    """Few dimensions are worth it, too; several panels, and stretches that end within an epoch."""
    monkeypatch.setattr(_learning, "AHEAD_DIMS", 1)
    monkeypatch.setattr(_learning, "AHEAD_BYTES", 1_000)
    monkeypatch.setattr(_learning, "STRETCH", 4)
    monkeypatch.setattr(_ahead, "PANEL", 5)
    taken = []
    monkeypatch.setattr(
        _learning, "take_ahead", lambda *given: taken.append(1) or _ahead.take_ahead(*given)
    )
    yield
    assert taken


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [40, 256, 513, 2_300])  # one block to several stretches
def test_every_rule(early, rule, n):
    X, y = blobs(n=n)
    agree(X, y, nearest(X, 6)[0], rule=rule)


def test_rounded_rows(early):
    X, y = blobs(n=2_300)
    rows = rounded(X)
    compared = rows.codes[:, : X.shape[1]] * rows.scales
    agree(X, y, nearest(X, 12)[0], rule="softmax", rounded=True, compared=compared)


def done_first(work, tasks):
    """All helpers are through before the first visit."""
    for task in tasks:
        task()
    return work(lambda: 2)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("beside", [meanwhile, done_first])
def test_any_number_of_threads_gives_the_same_matrix(early, monkeypatch, beside, rounded):
    monkeypatch.setattr(_learning, "WORTH_A_MEMBER", (1, 1))
    monkeypatch.setattr(_ahead, "meanwhile", beside)
    sizes = set()
    monkeypatch.setattr(
        _learning, "together", lambda work, size: sizes.add(size) or _team.together(work, size)
    )
    X, y = blobs(n=1_500, dims=157, spread=2)
    lists = nearest(X, 20)[0]

    def learned(threads):
        model = SLNE(rule="softmax", rounded=rounded, max_epochs=3, tol=0, random_state=0)
        with limited(threads):
            return model.fit(X, y, neighbors=lists).matrix_

    with monkeypatch.context() as only_one:
        only_one.setattr(_ahead, "meanwhile", meanwhile)
        alone = learned(1)
    assert sizes == {1}
    assert not np.array_equal(alone, np.eye(157))
    np.testing.assert_array_equal(learned(2), alone)
    np.testing.assert_array_equal(learned(cores() + 1), alone)
    assert 2 in sizes or beside is meanwhile


def test_a_stretch_that_was_cut_off_goes_on_with_the_same_bits(early, tmp_path, monkeypatch):
    X, y = blobs(n=2_300)  # three stretches an epoch
    settings = {"max_epochs": 2, "tol": 0, "random_state": 0}
    whole = SLNE(**settings).fit(X, y)
    keep = Checkpoint(tmp_path / "run", minutes=0)
    cut_often(monkeypatch, (2, 2, 3), lambda: SLNE(**settings).fit(X, y, checkpoint=keep))
    again = SLNE(**settings).fit(X, y, checkpoint=keep)
    np.testing.assert_array_equal(again.matrix_, whole.matrix_)


@pytest.mark.parametrize("setting", [{"normalize": True}, {"symmetric": True}, {"rank": 3}])
def test_matrices_that_are_projected_take_one_block_at_a_time(monkeypatch, setting):
    monkeypatch.setattr(_learning, "AHEAD_DIMS", 1)
    monkeypatch.setattr(_learning, "AHEAD_BYTES", 1_000)
    X, y = blobs()
    model = SLNE(random_state=0, **setting)
    model.scale_ = 1.0
    hoods = neighborhoods(nearest(X, 6)[0], y)
    assert not model._learner(X, hoods, 0).ahead


def test_meanwhile():
    done = []
    tasks = [lambda n=n: done.append(n) for n in range(50)]
    assert meanwhile(lambda threads: "worked", tasks) == "worked"
    assert sorted(done) == list(range(50))


@pytest.mark.skipif(cores() == 1, reason="nobody else is there")
def test_work_is_told_of_those_who_are_free():
    go_on = threading.Event()

    def work(threads):
        first, deadline = threads(), time.monotonic() + 30
        go_on.set()
        while threads() == first and time.monotonic() < deadline:
            time.sleep(0.001)
        return first, threads()

    assert meanwhile(work, [go_on.wait]) == (1, 2)


@pytest.mark.skipif(_core() is None or cores() == 1, reason="there is no other core to go to")
def test_a_thread_that_is_on_our_core_leaves_it():
    def put_on(core):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, allowed)
        _leave(core)
        return _core(), allowed == os.sched_getaffinity(0)

    for core in os.sched_getaffinity(0):
        now, may_go_anywhere = hand_over(put_on, core).result()
        assert now != core
        assert may_go_anywhere


def test_failures_of_work_and_of_tasks_are_told():
    def fail(*_):
        raise ZeroDivisionError

    started, seconds = [], 0.05
    with pytest.raises(ZeroDivisionError):
        meanwhile(fail, [lambda: started.append(time.sleep(seconds))] * 50)
    before = len(started)
    time.sleep(4 * seconds)
    assert len(started) == before < 50  # nobody goes on behind our back
    with pytest.raises(ZeroDivisionError):
        meanwhile(lambda threads: None, [fail])
