import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearkin import SoftVotingKNN
from nearkin.reproduction.baselines import LMNN
from nearkin.reproduction.baselines._early_stopping import HeldOut, metric_quality
from nearkin.reproduction.baselines._training_rows import generator
from nearkin.reproduction.baselines.lmnn import find_impostors, target_pairs, value_and_gradient
from samples import blobs


@parametrize_with_checks([LMNN(max_iter=20)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def formula(L, X, y, k, weight):
    """The objective of Weinberger and Saul, in loops over all triplets."""
    X = X.astype(float)
    plain = np.linalg.norm(X[:, None] - X[None], axis=2)
    d = np.linalg.norm((X[:, None] - X[None]) @ L.T, axis=2) ** 2
    total = 0.0
    for i in range(len(X)):
        own = [j for j in np.argsort(plain[i], kind="stable") if y[j] == y[i] and j != i][:k]
        for j in own:
            total += (1 - weight) * d[i, j]
            total += weight * sum(
                max(0, 1 + d[i, j] - d[i, m]) for m in range(len(X)) if y[m] != y[i]
            )
    return total


def test_objective_and_gradient():
    X, y = blobs(n=30, dims=4, classes=3)
    rng = np.random.default_rng(0)
    L = (np.eye(4) + 0.3 * rng.normal(size=(4, 4))).astype(np.float32)
    targets = target_pairs(X, y, 3)
    impostors = find_impostors(X @ L.T, y, targets, 10**9)
    value, gradient = value_and_gradient(X, L, targets, impostors, 0.4)
    assert value == pytest.approx(formula(L, X, y, 3, 0.4), rel=1e-4)
    numeric = np.zeros((4, 4))
    for cell in np.ndindex(4, 4):
        nudge = np.zeros((4, 4))
        nudge[cell] = 1e-5
        numeric[cell] = (formula(L + nudge, X, y, 3, 0.4) - formula(L - nudge, X, y, 3, 0.4)) / 2e-5
    np.testing.assert_allclose(gradient, numeric, rtol=2e-3, atol=2e-3 * np.abs(numeric).max())


def test_descends_and_ends_on_the_exact_objective():
    X, y = blobs(n=80, dims=5, classes=3)
    model = LMNN(max_iter=60).fit(X, y)
    exact = formula(model.components_.astype(float), X, y, 3, 0.5)
    assert model.objective_[-1] == pytest.approx(exact, rel=2e-2)
    assert exact < 0.9 * formula(np.eye(5), X, y, 3, 0.5)
    np.testing.assert_allclose(model.matrix_, model.components_.T @ model.components_, rtol=1e-5)


def test_classifies_through_the_soft_vote():
    X, y = blobs(n=400, dims=10, spread=1.0)
    scored = SoftVotingKNN(LMNN(max_iter=50), random_state=0).fit(X[:300], y[:300])
    plain = SoftVotingKNN(None, random_state=0).fit(X[:300], y[:300])
    assert scored.score(X[300:], y[300:]) >= plain.score(X[300:], y[300:]) - 0.02


def test_memory_is_bounded():
    X, y = blobs(n=120)
    with pytest.warns(ConvergenceWarning, match="max_impostors=50"):
        LMNN(max_impostors=50, max_iter=3).fit(X, y)


@pytest.mark.parametrize(
    "settings", [{"n_neighbors": 0}, {"weight": 2}, {"weight": "a"}, {"max_iter": 0}]
)
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        LMNN(**settings).fit(*blobs(n=30))


def test_row_limit_is_kept_and_said():
    X, y = blobs(n=300)
    with pytest.warns(UserWarning, match="max_rows=100: LMNN learns from a stratified sample"):
        model = LMNN(max_rows=100, max_iter=3, random_state=0).fit(X, y)
    assert model.n_rows_ == 100


def test_early_stopping_keeps_the_best_on_held_out_rows():
    X, y = blobs(n=400, dims=10, spread=1.5)
    model = LMNN(max_iter=400, tol=0, early_stopping=True, random_state=0).fit(X, y)
    assert model.n_iter_ < 400
    held = HeldOut(X, y, generator(0))
    assert len(held.learn) == 400 - len(held.queries)
    kept, start = metric_quality(held, model.components_), metric_quality(held, np.eye(10))
    assert kept > start


@pytest.mark.parametrize(
    "name", ["n_neighbors", "max_iter", "refresh", "max_impostors", "max_rows"]
)
def test_counts_are_whole(name):
    with pytest.raises(ValueError, match=rf"{name}=2\.5 must be a whole number"):
        LMNN(**{name: 2.5}).fit(*blobs(n=30))
