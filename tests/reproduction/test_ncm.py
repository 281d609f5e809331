import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from nearkin.reproduction.baselines import NCM
from nearkin.reproduction.baselines.ncm import class_means, loss_and_gradient
from samples import blobs


@parametrize_with_checks([NCM(max_iter=60, step_size=1.0)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def formula(W, X, y, means):
    """Mean of −ln p(y|x), row by row and class by class."""
    total = 0.0
    for x, own in zip(X.astype(float), y):
        logits = np.array([-np.sum((W @ x - W @ m) ** 2) / 2 for m in means.astype(float)])
        total -= logits[own] - np.log(np.exp(logits).sum())
    return total / len(X)


def test_loss_and_gradient():
    X, y = blobs(n=40, dims=5, classes=3)
    means = class_means(X, y, 3, np.ones(40, bool))
    W = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    loss, gradient = loss_and_gradient(W, X, y, means)
    assert loss == pytest.approx(formula(W.astype(float), X, y, means), rel=1e-5)
    expected = oracle.numeric_gradient(lambda W: formula(W, X, y, means), W.astype(float))
    np.testing.assert_allclose(gradient, expected, atol=1e-4 * np.abs(expected).max() + 1e-6)


def test_means():
    X, y = blobs(n=60, dims=3, classes=3)
    use = np.arange(60) % 2 == 0
    expected = [X[use & (y == c)].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(class_means(X, y, 3, use), expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def fitted():
    X, y = blobs(n=600, dims=12, spread=1.0)
    return NCM(random_state=0).fit(X[:400], y[:400]), X, y


def test_learns_more_than_plain_means(fitted):
    model, X, y = fitted
    plain = np.linalg.norm(X[400:, None] - model.means_, axis=2).argmin(axis=1)
    assert model.score(X[400:], y[400:]) > np.mean(plain == y[400:]) + 0.02


def test_probabilities_are_those_of_the_squared_distances(fitted):
    model, X, _ = fitted
    W, means = model.components_, model.means_
    gaps = (X[:9, None] - means) @ W.T
    expected = -(gaps**2).sum(axis=2) / 2
    shares = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X[:9]), shares, atol=1e-3)
    np.testing.assert_array_equal(model.predict(X[:9]), model.classes_[expected.argmax(axis=1)])


def test_scale_of_the_rows_does_not_matter(fitted):
    model, X, y = fitted
    again = NCM(random_state=0).fit(64 * X[:400], y[:400])
    np.testing.assert_array_equal(again.predict(64 * X), model.predict(X))


def test_rank_is_kept(fitted):
    _, X, y = fitted
    assert NCM(rank=3, max_iter=50).fit(X, y).components_.shape == (3, 12)


@pytest.mark.parametrize(
    "settings",
    [{"rank": 0}, {"rank": "best"}, {"step_size": 0}, {"batch_size": 0}, {"max_iter": 0}],
)
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        NCM(**settings).fit(*blobs(n=30))


@pytest.mark.parametrize("name", ["rank", "batch_size", "max_iter"])
def test_counts_are_whole(name):
    with pytest.raises(ValueError, match=rf"{name}=2\.5 must be a whole number"):
        NCM(**{name: 2.5}).fit(*blobs(n=30))
