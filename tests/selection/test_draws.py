"""Which rows are held out, and which scores they give."""

import numpy as np
import pytest

from nearkin.selection import draws
from nearkin.selection.draws import draw_sample, draw_splits
from nearkin.selection.scoring import average_precision, precision
from nearkin.voting.choice import Ballot


def test_a_fifth_of_every_class_is_held_out():
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    splits = draw_splits(labels, None, seed=0, rows=2_000)
    assert len(splits) == draws.MAX_SPLITS
    for held in splits:
        np.testing.assert_allclose(np.bincount(labels[held]), [20, 10, 2], atol=1)
    np.testing.assert_array_equal(np.sum(splits, axis=0), 1)  # each row once
    for one, two in zip(splits, draw_splits(labels, None, seed=1, rows=2_000)):
        np.testing.assert_array_equal(one, two)


def test_of_many_rows_few_are_held_out_once():
    (held,) = draw_splits(np.arange(50_000) % 7, None, seed=0, rows=2_000)
    assert held.sum() == pytest.approx(2_000, abs=10)


@pytest.mark.parametrize("counts", [(3, 3, 2), (3, 1, 1), (4, 3)])
def test_something_is_held_out_of_small_classes(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    for seed in range(20):
        labels = np.random.default_rng(seed).permutation(labels)
        for held in draw_splits(labels, None, seed=0, rows=2_000):
            assert held.any()
            assert (np.bincount(labels[~held], minlength=len(counts)) > 0).all()


@pytest.mark.parametrize("groups", [2, 5, 40])
def test_groups_are_whole(groups):
    rng = np.random.default_rng(0)
    codes = np.unique(rng.integers(0, groups, 200), return_inverse=True)[1]
    for seed in range(5):
        codes = np.random.default_rng(seed).permutation(codes)
        splits = draw_splits(np.zeros(200, int), codes, seed, rows=2_000)
        assert np.sum(splits, axis=0).max() == 1
        for held in splits:
            assert held.any()
            assert not held.all()
            assert not set(codes[held]) & set(codes[~held])
        chosen = draw_sample(np.zeros(200, int), codes, 60, seed)
        assert set(np.flatnonzero(np.isin(codes, codes[chosen]))) == set(chosen)


def test_a_sample_keeps_classes_that_can_be_held_out():
    labels = np.arange(3_000) // 3  # of a stratified sample, no class would have three rows
    chosen = draw_sample(labels, None, 300, seed=0)
    assert len(chosen) <= 300
    assert np.bincount(labels[chosen]).max() == 3
    rare = np.r_[np.zeros(10_000, int), np.ones(3, int)]
    chosen = draw_sample(rare, None, 100, seed=0)
    assert len(np.unique(rare[chosen])) == 2


def test_precision_and_average_precision_by_loops():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(30, 14)).astype(np.float32)
    labels, truth = rng.integers(0, 3, (30, 14)), rng.integers(0, 3, 30)
    ballot = Ballot(scores, labels, truth, 3)
    shares, averages = [], []
    for s, c, t in zip(scores, labels, truth):
        right = [c[j] == t for j in sorted(range(14), key=lambda j: -s[j])]
        shares.append(sum(right[:10]) / 10)
        at = [sum(right[: r + 1]) / (r + 1) for r in range(14) if right[r]]
        averages.append(np.mean(at) if at else 0.0)
    assert precision(ballot) == pytest.approx(np.mean(shares))
    assert average_precision(ballot) == pytest.approx(np.mean(averages))
