"""Refined class means against scikit-learn's logistic regression, and in the classifier."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import nearkin
from nearkin import SLNE, SoftVotingKNN, Vote
from nearkin.native.threads import limited
from nearkin.voting import refinement
from nearkin.voting.refinement import INVERSE_PENALTY, class_offsets
from samples import blobs

VOTE = Vote("softmax", 0.2, class_weight=0.6, class_temperature=0.3, refinement=0.3)


def rows(n=300, dims=8, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=(classes, dims))[y] + rng.normal(size=(n, dims))).astype(np.float32), y


@pytest.mark.parametrize("temperature", [0.2, 3.0])
def test_from_nothing_it_is_logistic_regression(temperature, monkeypatch):
    monkeypatch.setattr(refinement, "STEPS", 1_000)
    X, y = rows()
    cost = INVERSE_PENALTY / (X**2).sum(axis=1).mean()
    expected = LogisticRegression(C=cost, fit_intercept=False, tol=1e-8, max_iter=1_000).fit(X, y)
    found = class_offsets(X, y, np.zeros((len(X), 4), np.float32), temperature)
    np.testing.assert_allclose(found / temperature, expected.coef_, atol=2e-2)


def testlog_loss_and_gradient_against_differences(monkeypatch):
    monkeypatch.setattr(refinement, "BLOCK", 7)
    X, y = rows(n=20, dims=3, classes=3)
    rng = np.random.default_rng(1)
    scores, offsets = rng.normal(size=(20, 3)).astype("f4"), rng.normal(size=(3, 3)).astype("f4")
    value, gradient = refinement.log_loss(X, y, scores, offsets, 0.5)
    logits = scores.astype(float) / 0.5 + X.astype(float) @ offsets.T
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(value, -np.log(shares[np.arange(20), y]).mean(), rtol=1e-5)
    for c, d in np.ndindex(3, 3):
        moved = [offsets.copy(), offsets.copy()]
        moved[0][c, d] += 0.01
        moved[1][c, d] -= 0.01
        up, down = (refinement.log_loss(X, y, scores, o, 0.5)[0] for o in moved)
        np.testing.assert_allclose(gradient[c, d], (up - down) / 0.02, atol=1e-3)


def test_the_same_on_any_number_of_threads_and_absent_classes():
    X, y = rows()
    scores = np.zeros((len(X), 5), np.float32)
    scores[:, 4] = -np.inf  # a class without rows
    found = class_offsets(X, y, scores, 0.5)
    assert not found[4].any()
    with limited(1):
        np.testing.assert_array_equal(class_offsets(X, y, scores, 0.5), found)


def test_rows_of_zeros_leave_the_means():
    zeros = np.zeros((4, 3), np.float32)
    assert not class_offsets(zeros, np.array([0, 1, 0, 1]), np.zeros((4, 2), "f4"), 1.0).any()


@pytest.mark.parametrize("similarity", [None, SLNE(n_neighbors=10, max_epochs=2, random_state=0)])
def test_in_the_classifier(similarity, tmp_path):
    X, y = blobs(n=260, spread=0.9)
    model = SoftVotingKNN(similarity, n_neighbors=15, vote=VOTE, random_state=0).fit(X, y)
    Q = model.prepared(X)
    M = np.eye(Q.shape[1]) if similarity is None else model.similarity_.matrix_
    scores = Q @ M @ model.class_means_.T + Q @ model.class_offsets_.T
    mean = np.exp((scores - scores.max(axis=1, keepdims=True)) / 0.3)
    shares = model.vote_shares(X)
    np.testing.assert_allclose(
        shares.class_means, 0.6 * mean / mean.sum(axis=1, keepdims=True), atol=1e-4
    )
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_new_classes_have_no_offset_and_old_ones_keep_theirs():
    X, y = blobs(n=260, spread=0.9)
    model = SoftVotingKNN(None, n_neighbors=15, vote=VOTE, random_state=0).fit(X, y)
    before = model.class_offsets_
    model.add(-X[:30], np.full(30, -7))
    assert model.classes_[0] == -7
    np.testing.assert_array_equal(model.class_offsets_[1:], before)
    assert not model.class_offsets_[0].any()


def test_a_file_with_offsets_of_another_shape_is_refused():
    X, y = blobs(n=100)
    model = SoftVotingKNN(None, n_neighbors=5, vote=VOTE).fit(X, y)
    model.class_offsets_ = model.class_offsets_[:, :-1]
    with pytest.raises(ValueError, match="class_offsets_"):
        model.predict(X)


def test_too_many_rows_and_classes_are_not_refined(monkeypatch):
    monkeypatch.setattr(refinement, "MAX_SCORES", 10)
    X, y = blobs(n=100)
    model = SoftVotingKNN(None, n_neighbors=5, vote=VOTE).fit(X, y)
    assert model.class_offsets_ is None
