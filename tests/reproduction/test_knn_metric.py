import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import oracle
from nearkin import SoftVotingKNN
from nearkin.native.threads import limited
from nearkin.reproduction.baselines import KNNMetric
from nearkin.reproduction.baselines.knn_metric import Batch, nearest_listed, target_lists
from samples import blobs


@parametrize_with_checks([KNNMetric(max_iter=25, step_size=10.0)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def formula(W, batch, n):
    """Mean hinge of the triplets of a batch of n queries, in loops."""
    X, y = batch.rows.astype(float), batch.labels
    hinges = []
    for q, p in batch.pairs:
        assert q < n <= p
        near = np.sum((W @ (X[q] - X[p])) ** 2)
        far = [np.sum((W @ (X[q] - X[i])) ** 2) for i in range(len(X)) if y[i] != y[q]]
        hinges += [max(0, 1 + near - d) for d in far]
    return np.mean(hinges)


def test_loss_and_gradient():
    X, y = blobs(n=60, dims=4, classes=3)
    W = (2 * np.random.default_rng(0).normal(size=(2, 4))).astype(np.float32)
    lists = target_lists(X, y, np.arange(60), 6)
    batch = Batch(X, y, lists, np.arange(0, 60, 3), W, 2)
    loss, gradient = batch.loss_and_gradient(W)
    assert loss == pytest.approx(formula(W.astype(float), batch, 20), rel=1e-4)
    expected = oracle.numeric_gradient(lambda W: formula(W, batch, 20), W.astype(float))
    np.testing.assert_allclose(gradient, expected, atol=2e-3 * np.abs(expected).max())


def test_targets_are_the_nearest_of_the_class():
    X, y = blobs(n=80, dims=4, classes=3)
    y[:2] = 7  # a class with one other row, and no more
    learn = np.arange(0, 80, 1)[np.arange(80) % 9 != 5]
    lists = target_lists(X, y, learn, 8)
    W = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    batch = learn[::5]
    chosen = nearest_listed(X, lists[batch], batch, W, 3)
    for i, row in zip(batch, chosen):
        own = [j for j in learn if y[j] == y[i] and j != i]
        plain = sorted(own, key=lambda j: np.linalg.norm(X[i] - X[j]))[:8]
        assert lists[i][: len(plain)].tolist() == plain
        assert (lists[i][len(plain) :] == -1).all()
        near = sorted(plain, key=lambda j: np.linalg.norm(W @ (X[i] - X[j])))[:3]
        assert row[row >= 0].tolist() == near
    assert (lists[np.setdiff1d(np.arange(80), learn)] == -1).all()


@pytest.mark.parametrize("targets", ["dynamic", "fixed"])
def test_better_neighbours(targets):
    X, y = blobs(n=700, dims=12, spread=1.0)
    X = X * np.linspace(4, 0.2, 12, dtype=np.float32)  # what tells the classes apart is drowned
    metric = KNNMetric(targets=targets, batch_size=128, max_iter=150, random_state=0)
    learned = SoftVotingKNN(metric, vote="top", random_state=0).fit(X[:500], y[:500])
    plain = SoftVotingKNN(None, vote="top").fit(X[:500], y[:500])
    assert learned.score(X[500:], y[500:]) > plain.score(X[500:], y[500:]) + 0.1
    model = learned.similarity_
    L = model.components_
    np.testing.assert_allclose(model.matrix_, L.T @ L, rtol=1e-4, atol=1e-5)
    expected = -(np.linalg.norm((X[:3, None] - X[None, 3:8]) @ L.T, axis=2) ** 2)
    np.testing.assert_allclose(model.similarity(X[:3], X[3:8]), expected, rtol=1e-3, atol=1e-2)
    lists = np.tile(np.arange(3, 8, dtype=np.int32), (3, 1))
    np.testing.assert_allclose(model.neighbor_scores(X[:3], X, lists), expected, rtol=1e-3)


def test_same_for_any_number_of_threads():
    X, y = blobs(n=200)
    settings = {"max_iter": 30, "step_size": 10.0, "random_state": 0}
    expected = KNNMetric(**settings).fit(X, y).matrix_
    with limited(1):
        np.testing.assert_array_equal(KNNMetric(**settings).fit(X, y).matrix_, expected)


def test_row_limit_is_kept_and_said():
    X, y = blobs(n=300)
    with pytest.warns(UserWarning, match="max_rows=100: KNNMetric learns from a stratified sample"):
        model = KNNMetric(max_rows=100, max_iter=10, random_state=0).fit(X, y)
    assert model.n_rows_ == 100


def test_the_transform_of_a_row_does_not_depend_on_the_other_rows():
    X, y = blobs(n=60, dims=3)
    model = KNNMetric(rank=1, max_iter=3, random_state=0).fit(X, y)
    whole = model.transform(X)
    for size in (1, 2, 7, 33):
        np.testing.assert_array_equal(model.transform(X[:size]), whole[:size])


@pytest.mark.parametrize(
    "settings", [{"n_neighbors": 0}, {"targets": "all"}, {"rank": 0}, {"step_size": -1.0},
                 {"max_rows": 1}]
)  # fmt: skip
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
        KNNMetric(**settings).fit(*blobs(n=30))


@pytest.mark.parametrize("name", ["n_neighbors", "rank", "batch_size", "max_iter", "max_rows"])
def test_counts_are_whole(name):
    with pytest.raises(ValueError, match=rf"{name}=2\.5 must be a whole number"):
        KNNMetric(**{name: 2.5}).fit(*blobs(n=30))
