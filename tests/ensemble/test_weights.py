"""Rows and queries that count more than others, in an ensemble."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from nearkin import SLDE, SLNE, Execution
from samples import blobs

EASY = {"n_neighbors": 10, "max_epochs": 2, "tol": 0}


def test_a_member_of_all_directions_takes_the_weighted_steps_of_slne():
    X, y = blobs(120, 5)
    weights = np.random.default_rng(0).uniform(0, 2, len(X))
    learner = SLNE("hardest", prepare=None, execution=Execution(order="given"), **EASY)
    alone = learner.fit(X, y, sample_weight=weights).matrix_
    ensemble = SLDE(learner, projection=[np.eye(5)], coupling="none")
    ensemble.fit(X, y, sample_weight=weights)
    assert_allclose(ensemble.members_[0], alone, rtol=1e-5, atol=1e-6)
    assert not np.allclose(ensemble.fit(X, y).members_[0], alone, atol=1e-3)


@pytest.mark.parametrize("coupling", ["start", "boosted"])
def test_equal_weights_are_none(coupling):
    X, y = blobs(120, 6)
    ensemble = SLDE(SLNE(**EASY), n_members=2, coupling=coupling, random_state=0)
    plain = ensemble.fit(X, y).matrix_
    assert_array_equal(ensemble.fit(X, y, sample_weight=np.full(120, 3.0)).matrix_, plain)
    assert not np.allclose(ensemble.fit(X, y, sample_weight=1.0 + y).matrix_, plain)


def test_other_weights_do_not_resume(tmp_path):
    X, y = blobs(120, 6)
    ensemble = SLDE(SLNE(**EASY), n_members=2, random_state=0)
    ensemble.fit(X, y, folder=tmp_path / "run", sample_weight=1.0 + y)
    with pytest.raises(ValueError, match="sample_weight"):
        ensemble.fit(X, y, folder=tmp_path / "run", sample_weight=2.0 + y)


def test_who_does_not_weigh_says_so():
    X, y = blobs(60, 6)
    for ensemble in (SLDE(SLNE(**EASY), n_members=2, joint_epochs=1),
                     SLDE(NeighborhoodComponentsAnalysis(), n_members=2)):  # fmt: skip
        with pytest.raises(ValueError, match=r"sample_weight: .* does not weigh rows"):
            ensemble.fit(X, y, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="sample_weight has shape"):
        SLDE(SLNE(**EASY), n_members=2).fit(X, y, sample_weight=np.ones(3))


def test_weights_of_queries():
    rng = np.random.default_rng(0)
    D = rng.normal(size=(500, 12)).astype("f4")
    Q = (D[:240] + 0.2 * rng.normal(size=(240, 12))).astype("f4")
    Q[:, 6:] = 3 * rng.normal(size=(240, 6))  # noise
    pairs = np.stack([np.arange(240)] * 2, axis=1)
    ensemble = SLDE(SLNE("softmax", **EASY), n_members=2, random_state=0)
    weights = (np.arange(240) < 120).astype(float)
    learned = ensemble.fit_pairs(Q, D, pairs, sample_weight=weights)
    assert learned.pair_choice_["rounds"] > 0
    equal = ensemble.fit_pairs(Q, D, pairs, sample_weight=np.ones(240)).matrix_
    assert_array_equal(ensemble.fit_pairs(Q, D, pairs).matrix_, equal)
    assert not np.allclose(ensemble.fit_pairs(Q, D, pairs, sample_weight=weights).matrix_, equal)
