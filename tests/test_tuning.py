import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from nearkin import SLNE, Preprocess, SoftVotingKNN
from nearkin.neighbors import nearest
from nearkin.tuning import NEAR, FourierLift, HubCorrected, tune

X, y = load_wine(return_X_y=True)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X, y, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def tuned():
    return tune(X_TRAIN, Y_TRAIN, random_state=0)


def test_beats_plain_neighbours_on_rows_it_has_not_seen(tuned):
    plain = [KNeighborsClassifier(k).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST) for k in (1, 5, 9)]
    assert isinstance(tuned, SoftVotingKNN)
    assert tuned.score(X_TEST, Y_TEST) > max(plain)


def test_trials_hold_plain_neighbours_and_the_winner(tuned):
    plain = [trial["accuracy"] for trial in tuned.trials_ if trial["learner"] == "plain"]
    best = max(trial["accuracy"] for trial in tuned.trials_)
    assert plain
    assert best >= max(plain)
    assert {"preprocess", "epochs", "vote", "sharpness", "seconds"} <= set(tuned.trials_[0])


def test_fitted_on_all_rows(tuned):
    assert len(tuned.database_) == len(X_TRAIN)


def test_same_seed_same_model(tuned):
    again = tune(X_TRAIN, Y_TRAIN, random_state=0)
    assert [t["accuracy"] for t in again.trials_] == [t["accuracy"] for t in tuned.trials_]
    np.testing.assert_array_equal(again.predict_proba(X_TEST), tuned.predict_proba(X_TEST))


def test_chooses_on_few_rows_then_on_more():
    model = tune(X_TRAIN, Y_TRAIN, max_rows=40, random_state=0)
    assert model.trials_[0]["rows"] == 40
    assert model.trials_[-1]["rows"] == 120
    assert len(model.database_) == len(X_TRAIN)


def test_string_labels_and_sparse_rows():
    names = np.array(["a", "b", "c"])[y]
    model = tune(sparse.csr_array(X), names, max_rows=40, random_state=0)
    assert model.score(sparse.csr_array(X), names) > 0.8


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((6, 2)), np.zeros(6), "one class"),
        (np.ones((6, 2)), np.arange(6) // 2, "three or more"),
        (np.full((6, 2), np.nan), np.arange(6) % 2, "NaN"),
        (np.ones((6, 2)), np.arange(5) % 2, "inconsistent"),
    ],
)
def test_bad_input_is_named(X, y, message):
    with pytest.raises(ValueError, match=message):
        tune(X, y)


def test_bad_max_rows():
    with pytest.raises(ValueError, match="max_rows"):
        tune(np.eye(6), np.arange(6) % 2, max_rows=0)


def test_lift_has_unit_length_and_follows_its_seed():
    X, _ = load_digits(return_X_y=True)
    before = Preprocess(10, unit_length=False)
    lifts = [FourierLift(before, n_features=50, random_state=seed) for seed in (0, 0, 1)]
    first, same, other = (lift.fit_transform(X) for lift in lifts)
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(first, same)
    assert not np.allclose(first, other)


def test_hub_correction_takes_off_the_mean_similarity_of_the_surroundings():
    rows = Preprocess().fit_transform(X)
    model = HubCorrected(SLNE(n_neighbors=10, rule="softmax", random_state=0), share=0.5)
    model.fit(rows, y)
    lists = nearest(rows, NEAR)[0]
    M = model.learner_.matrix_
    expected = [0.5 * np.mean(rows[near] @ M @ row) for near, row in zip(lists, rows)]
    np.testing.assert_allclose(model.bias_, expected, rtol=1e-4, atol=1e-5)
    scores = model.neighbor_scores(rows[:2], rows, lists[:2])
    pairs = rows[:2] @ M @ rows.T
    np.testing.assert_allclose(
        scores, np.take_along_axis(pairs, lists[:2], 1) - model.bias_[lists[:2]], atol=1e-4
    )


def test_hub_correction_learns_from_the_learners_own_number_of_neighbours():
    rows = Preprocess().fit_transform(X)
    lists = nearest(rows, 60)[0]
    learner = SLNE(n_neighbors=10, rule="softmax", random_state=0)
    inside = HubCorrected(learner).fit(rows, y, neighbors=lists).learner_.matrix_
    np.testing.assert_array_equal(inside, learner.fit(rows, y, neighbors=lists[:, :10]).matrix_)
