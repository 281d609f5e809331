import numpy as np
import pytest
from sklearn.svm import LinearSVC

from nearkin import SLNE, SoftVotingKNN
from nearkin.app.baselines import BASELINES, COSTS, HoldOutSplitter, check_baselines, measure
from nearkin.app.comparison import selected
from nearkin.learning.holdout import held_out
from samples import blobs


@pytest.fixture(scope="module")
def data():
    X, y = blobs(n=500, spread=1.0)
    return X[:300], y[:300], X[300:], y[300:]


def test_the_setting_is_the_best_on_held_out_rows(data):
    X, y, *_ = data
    search = BASELINES["svm"](3).fit(X, y)
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
    model = BASELINES["svm"](0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), y)


def test_baselines_get_the_rows_of_the_model(data):
    X, y, Q, truth = data
    names = np.array(["p", "q", "r", "s"])
    model = SoftVotingKNN(SLNE.paper(max_epochs=2), random_state=0).fit(X, names[y])
    plain, ridge = measure(model, Q, names[truth], ["retrieval", "ridge"])
    expected = SoftVotingKNN(None, random_state=0).fit(X, y).score(Q, truth)
    assert plain["top1"] == pytest.approx(expected)
    assert ridge["name"] == "ridge"
    assert ridge["settings"]["alpha"] > 0
    assert measure(model, Q, names[truth], []) == []


def test_an_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match="baselines='lmnn' is not known; use some of retrieval"):
        check_baselines(["svm", "lmnn"])
