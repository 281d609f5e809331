import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from nearkin.app import baselines
from nearkin.app.baselines import (
    BASELINES,
    COSTS,
    TITLES,
    SampledFolds,
    check_baselines,
    measure,
    raw_cosine,
)
from nearkin.app.comparison import selected
from nearkin.learning.holdout import sample
from samples import blobs


@pytest.fixture(scope="module")
def data():
    X, y = blobs(n=500, spread=1.0)
    X = (X * np.linspace(1, 30, X.shape[1]) + 5).astype(np.float32)
    return X[:300], y[:300], X[300:], y[300:]


def scaled(X, columns, like):
    """Deviations 1/√D in each column, or a mean squared length of 1."""
    deviation = like.std(axis=0) * np.sqrt(X.shape[1])
    if not columns:
        deviation = np.sqrt(((like - like.mean(axis=0)) ** 2).sum(axis=1).mean())
    return (X - like.mean(axis=0)) / deviation


def test_scaling_and_setting_are_the_best_of_cross_validation(data):
    X, y, Q, _ = data
    search = BASELINES["svm"](3).fit(X, y)
    scores = {}
    for columns in (True, False):
        for C in COSTS:
            right = []
            for fit, score in StratifiedKFold(3).split(X, y):
                model = LinearSVC(C=C, max_iter=300, tol=1e-3, random_state=0)
                model.fit(scaled(X[fit], columns, X[fit]), y[fit])
                right.append(model.score(scaled(X[score], columns, X[fit]), y[score]))
            scores[C, columns] = np.mean(right)
    best = search.best_params_
    chosen = best["model__C"], best["scale__columns"]
    assert scores[chosen] == pytest.approx(max(scores.values()), abs=0.005)
    assert selected(search) == {"C": chosen[0], "columns": chosen[1]}
    model = LinearSVC(C=chosen[0], max_iter=300, tol=1e-3, random_state=0)
    model.fit(scaled(X, chosen[1], X), y)
    assert (search.predict(Q) == model.predict(scaled(Q, chosen[1], X))).mean() > 0.99


def test_raw_cosine_by_hand(data):
    """Votes exp(s / .07) of the fifty rows of largest cosine."""
    X, y, Q, _ = data
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (Q, X)]
    cosines = unit[0].astype(float) @ unit[1].T
    expected = []
    for row in cosines:
        near = np.argsort(-row)[:50]
        votes = np.bincount(y[near], np.exp(row[near] / 0.07), minlength=4)
        expected.append(votes / votes.sum())
    np.testing.assert_allclose(raw_cosine().fit(X, y).predict_proba(Q), expected, atol=1e-4)


def test_the_search_sees_a_stratified_sample_and_the_fit_every_row():
    y = np.repeat(["a", "b"], [3_000, 1_000])
    folds = list(SampledFolds(0, rows=400).split(None, y))
    assert len(folds) == 3
    for fit, score in folds:
        assert not set(fit) & set(score)
        assert len(fit) + len(score) == 400
        assert np.mean(y[fit] == "a") == pytest.approx(0.75, abs=0.02)
    assert len(np.unique(np.concatenate([score for _, score in folds]))) == 400
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 2)) + 3 * (y == "a")[:, None]
    search = BASELINES["ridge"](0, 100).fit(X, y)
    scale = search.best_estimator_["scale"]
    np.testing.assert_allclose(scale.mean_, X.mean(axis=0))


@pytest.mark.parametrize("name", ["svm", "means"])
def test_classes_that_cannot_spare_a_row(name):
    X, y = np.eye(6) + 0.1 * np.eye(6)[[1, 0, 3, 2, 5, 4]], np.arange(6) // 2
    model = BASELINES[name](0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


def test_measured_on_the_rows_as_they_are_given(data):
    X, y, Q, truth = data
    names = np.array(["p", "q", "r", "s"])
    cosine, ridge = measure(X, names[y], Q, names[truth], ["cosine", "ridge"])
    assert cosine["top1"] == pytest.approx(raw_cosine().fit(X, y).score(Q, truth))
    assert (cosine["name"], ridge["name"]) == (TITLES["cosine"], TITLES["ridge"])
    settings = ridge["settings"]
    model = RidgeClassifier(settings["alpha"]).fit(scaled(X, settings["columns"], X), y)
    expected = model.score(scaled(Q, settings["columns"], X), truth)
    assert ridge["top1"] == pytest.approx(expected, abs=0.006)
    assert (cosine["rows"], ridge["rows"]) == (300, 300)
    assert measure(X, y, Q, truth, []) == []


def test_a_sample_of_many_rows_is_fitted_and_named(data, monkeypatch):
    X, y, Q, truth = data
    monkeypatch.setattr(baselines, "LEAST_ROWS", 60)
    monkeypatch.setattr(baselines, "FIT_CELLS", 1_000.0)
    cosine, lda = measure(X, y, Q, truth, ["cosine", "lda"])
    assert (cosine["rows"], lda["rows"]) == (300, 60)
    some = sample(y, 60, np.random.default_rng(0))
    expected = BASELINES["lda"](0).fit(X[some], y[some]).score(Q, truth)
    assert lda["top1"] == pytest.approx(expected, abs=0.02)


def test_wide_rows_are_the_same_in_fewer_columns():
    X, y = blobs(n=120, dims=5, spread=0.8)
    wide = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(400, 5)))[0].T
    for name in ("means", "ridge", "lda"):
        (found,) = measure(wide[:80], y[:80], wide[80:], y[80:], [name])
        (same,) = measure(X[:80], y[:80], X[80:], y[80:], [name])
        assert found["top1"] == pytest.approx(same["top1"], abs=0.15)


def test_an_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match="baselines='lmnn' is not known; use some of cosine"):
        check_baselines(["svm", "lmnn"])
