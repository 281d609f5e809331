"""Superblocks, with matrix products ahead of the steps, equal Algorithm 1."""

import numpy as np
import pytest

from agreement import agree
from cutting import cut_often
from nearkin import SLNE
from nearkin.io.run_folder import RunFolder
from nearkin.learning import superblocks as superblocks_module
from nearkin.learning import trainer
from nearkin.learning.sampling import RULES
from nearkin.native.barrier import barrier_wait
from nearkin.native.quantize import quantize_rows
from nearkin.native.threads import cores, limited
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from samples import blobs, slne


@pytest.fixture
def superblocks(monkeypatch):
    """Several superblocks per epoch."""
    monkeypatch.setattr(trainer, "superblock_blocks", lambda dims: 4)
    runs = []
    monkeypatch.setattr(
        trainer,
        "run_superblock",
        lambda *args: runs.append(1) or superblocks_module.run_superblock(*args),
    )
    yield
    assert runs


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n", [40, 256, 513, 2_300])  # one block to several superblocks
def test_every_rule_equals_algorithm_1(superblocks, rule, n):
    X, y = blobs(n=n)
    agree(X, y, nearest(X, 6)[1], rule=rule)


def test_quantised_rows_equal_algorithm_1_on_them(superblocks):
    X, y = blobs(n=2_300)
    rows = quantize_rows(X)
    compared = rows.codes[:, : X.shape[1]] * rows.scales
    agree(X, y, nearest(X, 12)[1], rule="softmax", quantize=True, compared=compared)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("visitors", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_matrix(superblocks, monkeypatch, visitors, rounded):
    monkeypatch.setattr(
        trainer.Trainer, "visitors", lambda learner, threads: min(visitors, threads)
    )
    X, y = blobs(n=1_100, dims=157, spread=2)  # two superblocks, the second shorter
    lists = nearest(X, 20)[1]

    def learned(threads):
        model = slne("softmax", quantize=rounded, max_epochs=2, tol=0, random_state=0)
        with limited(threads):
            return model.fit(X, y, neighbors=lists).matrix_

    alone = learned(1)
    assert not np.array_equal(alone, np.eye(157))
    np.testing.assert_array_equal(learned(2), alone)
    np.testing.assert_array_equal(learned(cores() + 1), alone)


@pytest.mark.parametrize(("degree", "visitors"), [(50, [1, 1, 1]), (500, [1, 1, 4])])
def test_more_neighbors_get_more_visiting_threads(degree, visitors):
    X, y = blobs(n=600, dims=1_000)
    model = slne(random_state=0, hub_limit=None)
    model.scale_ = 1.0
    lists = np.random.default_rng(0).integers(0, 600, (600, degree * 2 // 3))
    learner = model._trainer(X, neighborhoods(lists, y), 0)
    learner.reading, learner.max_threads = degree / 1_000, 100
    assert [learner.visitors(threads) for threads in (1, 2, 8)] == visitors


def test_an_exception_in_a_visiting_thread_releases_the_others(superblocks, monkeypatch):
    monkeypatch.setattr(trainer.Trainer, "visitors", lambda learner, threads: threads + 1)

    def fails(space, data, visits, tasks, thread, visitor):
        if thread.id == 1:
            raise MemoryError("out of memory")
        barrier_wait(visitor)
        barrier_wait(thread)

    monkeypatch.setattr(superblocks_module, "_run_stages", fails)
    X, y = blobs(n=300)
    with limited(2), pytest.raises(MemoryError, match="out of memory"):
        SLNE.paper().fit(X, y)


def test_a_killed_fit_resumes_between_superblocks_with_the_same_bits(
    superblocks, tmp_path, monkeypatch
):
    X, y = blobs(n=2_300)  # several superblocks per epoch
    settings = {"max_epochs": 2, "tol": 0, "random_state": 0}
    whole = slne(**settings).fit(X, y)
    keep = RunFolder(tmp_path / "run", minutes=0)
    cut_often(monkeypatch, (2, 2, 3), lambda: slne(**settings).fit(X, y, folder=keep))
    again = slne(**settings).fit(X, y, folder=keep)
    np.testing.assert_array_equal(again.matrix_, whole.matrix_)


@pytest.mark.parametrize("setting", [{"normalize": True}, {"symmetric": True}, {"rank": 3}])
def test_constraints_on_the_matrix_disable_superblocks(monkeypatch, setting):
    X, y = blobs()
    model = slne(random_state=0, **setting)
    model.scale_ = 1.0
    hoods = neighborhoods(nearest(X, 6)[1], y)
    assert not model._trainer(X, hoods, 0).pipelined
