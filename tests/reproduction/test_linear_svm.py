import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin.native.threads import limited
from nearkin.reproduction.baselines import LinearSVM
from nearkin.reproduction.baselines._averaged_sgd import Descent, best_step, hinge
from samples import blobs


@parametrize_with_checks([LinearSVM(), LinearSVM(solver="online", C=1.0)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def averaged_sgd(X, signs, weight, step_size, first):
    """One class, one row after the other, in double precision; the mean of w from step `first`."""
    w, total, count = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0
    for step, (x, t) in enumerate(zip(X.astype(float), signs)):
        eta = step_size / (1 + weight * step_size * step) ** 0.75
        inside = t * (w @ x) < 1
        w = (1 - eta * weight) * w + eta * t * x * inside
        if step >= first:
            total, count = total + w, count + 1
    return w, total / count


@pytest.mark.parametrize("classes", [2, 4])
def test_blocks_take_the_steps_of_single_rows(classes):
    X, y = blobs(n=300, dims=7, classes=classes)
    codes = [1] if classes == 2 else range(classes)
    descent = Descent.start((7, len(codes)), regularization=0.02, step_size=0.7)
    for lo in range(0, 300, 60):
        descent.visit(X[lo : lo + 60], y[lo : lo + 60], average=lo >= 120)
    for place, code in enumerate(codes):
        w, mean = averaged_sgd(X, np.where(y == code, 1, -1), 0.02, 0.7, 120)
        np.testing.assert_allclose(descent.weights[:, place], w, atol=1e-4)
        np.testing.assert_allclose(descent.result[:, place], mean, atol=1e-4)


def test_step_is_the_one_of_least_cost():
    X, y = blobs(n=200, dims=5, classes=3)
    rows = np.hstack([X, np.ones((200, 1), np.float32)])

    def cost(step_size):
        W = [averaged_sgd(rows, np.where(y == c, 1, -1), 0.01, step_size, 0)[0] for c in range(3)]
        W = np.stack(W, axis=1)
        return hinge(rows @ W, y) / 200 + 0.005 * (W**2).sum()

    chosen = best_step(X, y, np.arange(200), (6, 3), 1.0, 0.01)
    assert cost(chosen) == pytest.approx(min(cost(2.0**k) for k in range(-6, 5)), rel=1e-3)


def test_online_comes_close_to_the_least_objective():
    X, y = blobs(n=1_000, dims=8, classes=3)
    exact = LinearSVC(loss="hinge", C=1.0, max_iter=100_000).fit(X, y)
    ours = LinearSVM(solver="online", C=1.0, max_epochs=20, random_state=0).fit(X, y)

    def objective(coef, bias):
        square = (coef**2).sum() + (bias**2).sum()
        return square / 2 + hinge(X @ coef.T + bias, y)

    least = objective(exact.coef_, exact.intercept_)
    assert objective(ours.coef_, ours.intercept_) <= 1.03 * least


def test_exact_is_liblinear_on_rows_of_mean_length_one():
    X, y = blobs(n=300, dims=6)
    model = LinearSVM(C=0.5, tol=1e-8, random_state=0).fit(100 * X, y)
    theirs = LinearSVC(C=0.5, tol=1e-8, random_state=0, dual="auto").fit(X, y)
    np.testing.assert_allclose(model.decision_function(100 * X), theirs.decision_function(X),
                               atol=1e-3)  # fmt: skip


def test_c_is_the_best_of_those_tried():
    X, y = blobs(n=600, spread=1.0)
    model = LinearSVM(random_state=0).fit(X, y)
    assert model.trials_[model.C_] == max(model.trials_.values())
    assert len(model.trials_) >= 3


def test_top_guesses_follow_the_scores():
    X, y = blobs(n=200)
    names = np.array(["a", "b", "c", "d"])[y]
    model = LinearSVM(C=1.0).fit(X, names)
    order = np.argsort(-model.decision_function(X), axis=1)
    np.testing.assert_array_equal(model.predict_top(X, 4), model.classes_[order])
    np.testing.assert_array_equal(model.predict_top(X, 1)[:, 0], model.predict(X))
    with pytest.raises(ValueError, match="n=5 must lie between 1 and the 4 classes"):
        model.predict_top(X, 5)
    with pytest.raises(NotFittedError):
        LinearSVM().predict_top(X, 1)


def test_online_is_the_same_for_memory_maps_and_threads(tmp_path):
    X, y = blobs(n=500)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    settings = {"solver": "online", "C": 1.0, "random_state": 0}
    expected = LinearSVM(**settings).fit(X, y).coef_
    with limited(1):
        np.testing.assert_array_equal(LinearSVM(**settings).fit(mapped, y).coef_, expected)


@pytest.mark.parametrize("classes", [2, 4])
def test_saved_and_loaded(tmp_path, classes):
    X, y = blobs(n=200, classes=classes)
    model = LinearSVM(random_state=0).fit(X, y)
    nearkin.save(model, tmp_path / "svm")
    again = nearkin.load(tmp_path / "svm")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.trials_ == model.trials_


@pytest.mark.parametrize(
    "settings", [{"C": 0}, {"C": "best"}, {"solver": "fast"}, {"max_epochs": 0}, {"tol": 0}]
)
def test_bad_parameters(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        LinearSVM(**settings).fit(*blobs(n=30))


def test_one_class():
    with pytest.raises(ValueError, match="one class"):
        LinearSVM().fit(blobs(n=30)[0], np.zeros(30))


def test_counts_are_whole():
    X, y = blobs(n=30)
    with pytest.raises(ValueError, match=r"max_epochs=2\.5 must be a whole number"):
        LinearSVM(max_epochs=2.5).fit(X, y)
    with pytest.raises(ValueError, match=r"n=2\.5 must be a whole number"):
        LinearSVM(C=1.0).fit(X, y).predict_top(X, n=2.5)


def test_trials_are_those_of_the_last_fit():
    X, y = blobs(n=60)
    model = LinearSVM(random_state=0).fit(X, y)
    assert model.trials_
    assert model.set_params(C=1.0).fit(X, y).trials_ == {}
