import numpy as np
import pytest
from sklearn.svm import LinearSVC

from nearkin.app.comparison import selected
from nearkin.learning.holdout import held_out
from nearkin.reproduction.hold_out import HoldOutSplitter
from nearkin.reproduction.linear_svms import COSTS, linear_svm
from samples import blobs


def test_the_setting_is_the_best_on_held_out_rows():
    X, y = (part[:300] for part in blobs(n=500, spread=1.0))
    search = linear_svm(3).fit(X, y)
    held = held_out(y, 0.2, np.random.default_rng(3))
    scores = [
        LinearSVC(C=C, random_state=3).fit(X[~held], y[~held]).score(X[held], y[held])
        for C in COSTS
    ]
    assert search.best_params_["C"] == COSTS[int(np.argmax(scores))]
    assert selected(search)["C"] == search.best_params_["C"]
    expected = LinearSVC(C=search.best_params_["C"], random_state=3).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), expected.predict(X))


def test_selection_sees_a_stratified_sample_without_overlap():
    y = np.repeat(["a", "b"], [3_000, 1_000])
    ((fit, score),) = HoldOutSplitter(0, max_rows=400).split(None, y)
    assert not set(fit) & set(score)
    assert len(fit) + len(score) == 400
    assert len(score) == pytest.approx(80, abs=2)
    assert np.mean(y[fit] == "a") == pytest.approx(0.75, abs=0.02)


def test_classes_that_cannot_spare_a_row():
    X, y = np.eye(6), np.arange(6) // 2
    np.testing.assert_array_equal(linear_svm(0).fit(X, y).predict(X), y)
