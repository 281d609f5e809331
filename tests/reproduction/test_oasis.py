import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearkin import SoftVotingKNN
from nearkin.native.threads import limited
from nearkin.reproduction.baselines import OASIS
from nearkin.reproduction.baselines.oasis import Triplets, take_steps
from samples import blobs


@parametrize_with_checks([OASIS(max_steps=500)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def passive_aggressive(M, X, V, C):
    """One triplet after the other, as in the paper, in double precision."""
    M = M.astype(float)
    taus = []
    for x, v in zip(X.astype(float), V.astype(float)):
        loss = max(0, 1 - x @ M @ v)
        step = np.outer(x, v)
        taus.append(min(C, loss / max(np.sum(step**2), 1e-30)))
        M = M + taus[-1] * step
    return M, np.array(taus)


@pytest.mark.parametrize("C", [0.03, 1.0, 100.0])
def test_blocks_take_the_steps_of_single_triplets(C):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(2, 90, 6)).astype(np.float32)
    V[7] = 0  # a row and its unlike may be the same
    M = np.eye(6, dtype=np.float32)
    expected, taus = passive_aggressive(M, X, V, C)
    steps = take_steps(M, X, V, C)
    capped = taus == C
    assert capped.any()
    assert (~capped).any()
    np.testing.assert_allclose(steps.taus, taus, rtol=1e-3, atol=1e-3 * C)
    np.testing.assert_allclose(M, expected, rtol=1e-3, atol=1e-3)


def test_triplets_are_random_over_all_rows():
    labels = np.array([2, 0, 1, 0, 2, 0, 1, 3, 0])
    learn = np.array([0, 1, 2, 3, 4, 5, 7, 8])  # not 6, so class 1 is alone, as class 3 is
    x, near, far = Triplets(labels, learn)(20_000, np.random.default_rng(0))
    assert (labels[x] == labels[near]).all()
    assert (x != near).all()
    assert (labels[x] != labels[far]).all()
    assert set(x) == {0, 1, 3, 4, 5, 8}  # rows with another of their class
    assert set(near[x == 1]) == {3, 5, 8}
    assert set(far[x == 1]) == {0, 2, 4, 7}
    for drawn, size in ((x, 6), (near[x == 1], 3), (far[x == 0], 6)):
        shares = np.unique(drawn, return_counts=True)[1] / len(drawn)
        np.testing.assert_allclose(shares, 1 / size, atol=0.03)


def test_better_neighbours():
    X, y = blobs(n=900, dims=12, spread=1.0)
    oasis = OASIS(max_steps=20_000)
    learned = SoftVotingKNN(oasis, vote="top", random_state=0).fit(X[:500], y[:500])
    plain = SoftVotingKNN(None, vote="top").fit(X[:500], y[:500])
    assert learned.score(X[500:], y[500:]) > plain.score(X[500:], y[500:]) + 0.02


def test_same_for_any_scale_and_threads():
    X, y = blobs(n=300)
    model = OASIS(C=0.01, max_steps=2_000, random_state=0).fit(X, y)
    with limited(1):
        again = OASIS(C=0.01, max_steps=2_000, random_state=0).fit(64 * X, y)
    np.testing.assert_array_equal(again.matrix_, model.matrix_)


@pytest.mark.parametrize("settings", [{"C": 0}, {"C": "best"}, {"max_steps": 0}])
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        OASIS(**settings).fit(*blobs(n=30))


def test_steps_are_whole():
    with pytest.raises(ValueError, match=r"max_steps=10\.5 must be a whole number"):
        OASIS(max_steps=10.5).fit(*blobs(n=30))


def test_it_has_no_objective_of_neighbourhoods():
    assert not hasattr(OASIS(), "objective")
