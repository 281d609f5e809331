"""Matrix products ahead of the steps: the same Algorithm 1."""

import os

import numpy as np
import pytest

from agreement import agree
from cutting import cut_often
from nearkin import SLNE
from nearkin.io.run_folder import RunFolder
from nearkin.learning import pipeline, trainer
from nearkin.learning.sampling import RULES
from nearkin.native.barrier import meet
from nearkin.native.quantize import rounded
from nearkin.native.threads import _core, _leave, cores, hand_over, limited
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from samples import blobs


@pytest.fixture
def early(monkeypatch):
    """Few dimensions are worth it, too, and stretches end within an epoch."""
    monkeypatch.setattr(trainer, "AHEAD_DIMS", 1)
    monkeypatch.setattr(trainer, "stretch_blocks", lambda dims: 4)
    taken = []
    monkeypatch.setattr(
        trainer, "take_ahead", lambda *given: taken.append(1) or pipeline.take_ahead(*given)
    )
    yield
    assert taken


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [40, 256, 513, 2_300])  # one block to several stretches
def test_every_rule(early, rule, n):
    X, y = blobs(n=n)
    agree(X, y, nearest(X, 6)[1], rule=rule)


def test_rounded_rows(early):
    X, y = blobs(n=2_300)
    rows = rounded(X)
    compared = rows.codes[:, : X.shape[1]] * rows.scales
    agree(X, y, nearest(X, 12)[1], rule="softmax", rounded=True, compared=compared)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("visitors", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_matrix(early, monkeypatch, visitors, rounded):
    monkeypatch.setattr(
        trainer.Learner, "visitors", lambda learner, threads: min(visitors, threads)
    )
    X, y = blobs(n=1_500, dims=157, spread=2)
    lists = nearest(X, 20)[1]

    def learned(threads):
        model = SLNE(rule="softmax", rounded=rounded, max_epochs=3, tol=0, random_state=0)
        with limited(threads):
            return model.fit(X, y, neighbors=lists).matrix_

    alone = learned(1)
    assert not np.array_equal(alone, np.eye(157))
    np.testing.assert_array_equal(learned(2), alone)
    np.testing.assert_array_equal(learned(cores() + 1), alone)


@pytest.mark.parametrize(("degree", "visitors"), [(50, [1, 1, 1]), (500, [1, 1, 4])])
def test_more_neighbours_more_visitors(degree, visitors):
    X, y = blobs(n=600, dims=1_000)
    model = SLNE(random_state=0, hub_limit=None)
    model.scale_ = 1.0
    lists = np.random.default_rng(0).integers(0, 600, (600, degree * 2 // 3))
    learner = model._learner(X, neighborhoods(lists, y), 0)
    learner.reading, learner.most_members = degree / 1_000, 100
    assert [learner.visitors(threads) for threads in (1, 2, 8)] == visitors


def test_a_visitor_that_fails_lets_the_others_go(early, monkeypatch):
    monkeypatch.setattr(trainer.Learner, "visitors", lambda learner, threads: threads + 1)

    def fails(room, given, visits, claims, member, visitor):
        if member.number == 1:
            raise MemoryError("no room")
        meet(visitor)
        meet(member)

    monkeypatch.setattr(pipeline, "_stretch", fails)
    X, y = blobs(n=300)
    with limited(2), pytest.raises(MemoryError, match="no room"):
        SLNE().fit(X, y)


def test_a_stretch_that_was_cut_off_goes_on_with_the_same_bits(early, tmp_path, monkeypatch):
    X, y = blobs(n=2_300)  # three stretches an epoch
    settings = {"max_epochs": 2, "tol": 0, "random_state": 0}
    whole = SLNE(**settings).fit(X, y)
    keep = RunFolder(tmp_path / "run", minutes=0)
    cut_often(monkeypatch, (2, 2, 3), lambda: SLNE(**settings).fit(X, y, folder=keep))
    again = SLNE(**settings).fit(X, y, folder=keep)
    np.testing.assert_array_equal(again.matrix_, whole.matrix_)


@pytest.mark.parametrize("setting", [{"normalize": True}, {"symmetric": True}, {"rank": 3}])
def test_matrices_that_are_projected_take_one_block_at_a_time(monkeypatch, setting):
    monkeypatch.setattr(trainer, "AHEAD_DIMS", 1)
    X, y = blobs()
    model = SLNE(random_state=0, **setting)
    model.scale_ = 1.0
    hoods = neighborhoods(nearest(X, 6)[1], y)
    assert not model._learner(X, hoods, 0).ahead


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
