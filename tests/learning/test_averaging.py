"""The mean of the iterates, against the mean written out."""

import numpy as np
import pytest

import oracle
from agreement import schedule
from cutting import cut_often
from nearkin import SLNE, Constraint, Execution, RunFolder, Softmax
from nearkin.learning.averaging import IterateMean
from nearkin.native.threads import limited
from nearkin.neighbors import nearest
from samples import blobs, slne

EASY = {"n_neighbors": 10, "max_epochs": 3, "tol": 0, "random_state": 0}
STEPS = 192  # between two iterates, for some hundred rows


def weighted_mean(iterates):
    """Iterate i of t counts i (i + 1) (i + 2): polynomial-decay averaging with η = 3."""
    i = np.arange(1, len(iterates) + 1)
    return np.average(np.stack(iterates).astype(float), axis=0, weights=i * (i + 1) * (i + 2))


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_the_mean_is_the_weighted_mean(count):
    iterates = np.random.default_rng(0).normal(size=(count, 3, 4)).astype(np.float32)
    mean = IterateMean()
    for iterate in iterates:
        mean.add(iterate)
    assert mean.count == count
    np.testing.assert_allclose(mean.matrix, weighted_mean(iterates), atol=1e-6)


def test_an_iterate_that_changes_later_does_not_change_the_mean():
    iterate, mean = np.ones((2, 2), np.float32), IterateMean()
    mean.add(iterate)
    iterate[:] = 9
    np.testing.assert_array_equal(mean.matrix, 1)


@pytest.mark.parametrize("rule", ["hardest", "softmax"])
@pytest.mark.parametrize("n", [150, 192, 450])
def test_slne_learns_the_mean_of_the_iterates_of_algorithm_1(rule, n):
    X, y = blobs(n=n)
    lists = nearest(X, 10)[1]
    model = slne(rule, max_epochs=3, tol=0, average=True, random_state=0, quantize=False)
    model.fit(X, y, neighbors=lists)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    orders, draws = schedule(seed, 3, n)
    iterates = []
    last, losses = oracle.algorithm_1(
        X, y, lists, rule=rule, epochs=3, orders=orders, draws=draws, every=STEPS, iterates=iterates
    )
    assert len(iterates) == 3 * -(-(n - model.n_skipped_) // STEPS)
    expected = weighted_mean(iterates)
    assert np.linalg.norm(model.matrix_ - expected) <= 1e-4 * np.linalg.norm(expected)
    assert np.linalg.norm(expected - last) > 1e-2 * np.linalg.norm(expected)
    # The steps themselves start from the last iterate, not from the mean.
    np.testing.assert_allclose([h["loss"] for h in model.history_], losses, rtol=1e-3, atol=1e-6)


def test_a_callback_sees_the_mean():
    """One iterate an epoch, where there are few rows: the last of the fit that does not average."""
    X, y = blobs(n=100)
    last, mean = [], []
    for average, seen in ((False, last), (True, mean)):
        keep = Execution(callback=lambda _, model, seen=seen: seen.append(model.matrix_.copy()))
        SLNE(average=average, execution=keep, **EASY).fit(X, y)
    for epoch in range(3):
        np.testing.assert_allclose(mean[epoch], weighted_mean(last[: epoch + 1]), atol=1e-5)


@pytest.mark.parametrize("sampling", ["hardest", Softmax(0.05)])
def test_one_and_two_threads_learn_the_same_bits(sampling):
    X, y = blobs(n=700, dims=20)
    learned = []
    for threads in (1, 2):
        with limited(threads):
            learned.append(SLNE(sampling, **EASY | {"n_neighbors": 50}).fit(X, y).matrix_)
    np.testing.assert_array_equal(*learned)


@pytest.mark.parametrize("settings", [{}, {"validation_fraction": 0.1}, {"rank": 5}], ids=str)
def test_a_resumed_fit_learns_the_same_bits(tmp_path, monkeypatch, settings):
    X, y = blobs(n=700, dims=20, spread=1.5)  # four iterates an epoch
    settings = EASY | settings | {"average": True}
    whole = slne(**settings).fit(X, y)
    keep = RunFolder(tmp_path / "run", minutes=0)
    cut_often(monkeypatch, (3, 2, 3), lambda: slne(**settings).fit(X, y, folder=keep))
    again = slne(**settings).fit(X, y, folder=keep)
    np.testing.assert_array_equal(again.matrix_, whole.matrix_)
    assert again.n_epochs_ == whole.n_epochs_


def test_a_folder_of_a_fit_without_averaging_is_refused(tmp_path):
    X, y = blobs()
    SLNE(average=False, **EASY).fit(X, y, folder=tmp_path)
    with pytest.raises(ValueError, match="average is False there and True here"):
        SLNE(**EASY).fit(X, y, folder=tmp_path)


def test_the_mean_keeps_the_constraint():
    X, y = blobs(n=450)
    low = SLNE(constraint=Constraint(rank=3, psd=True), **EASY).fit(X, y).matrix_
    values = np.linalg.eigvalsh(low.astype(float))
    assert (np.abs(values[:-3]) < 1e-5 * values[-1]).all()
    assert values[-3:].min() > 0
    kept = SLNE(constraint=Constraint(normalize=True), **EASY).fit(X, y).matrix_
    assert np.linalg.norm(kept) == pytest.approx(np.sqrt(12), rel=1e-5)


def test_the_papers_settings_do_not_average():
    X, y = blobs(n=150)
    lists = nearest(X, 10)[1]
    paper = SLNE.paper(max_epochs=2, tol=0, random_state=0).fit(X, y, neighbors=lists)
    same = SLNE("hardest", n_neighbors=50, step_size=0.2, max_epochs=2, tol=0, average=False,
                prepare=None, random_state=0).fit(X, y, neighbors=lists)  # fmt: skip
    np.testing.assert_array_equal(paper.matrix_, same.matrix_)


@pytest.mark.parametrize(("rule", "step"), [("hardest", 0.2), ("softmax", 0.5), ("all", 2.0)])
def test_a_step_size_left_out_is_that_of_the_rule(rule, step):
    X, y = blobs(n=150)
    one, two = (SLNE(rule, step_size=s, **EASY).fit(X, y).matrix_ for s in (None, step))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("shape", "rule"), [((60, 12), "softmax"), ((60, 90), "all")])
def test_the_rule_left_out_depends_on_the_shape(shape, rule):
    X, y = blobs(*shape)
    one, two = (SLNE(r, **EASY).fit(X, y).matrix_ for r in ("auto", rule))
    np.testing.assert_array_equal(one, two)
