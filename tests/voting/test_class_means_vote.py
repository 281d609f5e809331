"""Class means as voters of the classifier, beside the neighbours."""

import numpy as np
import pytest
from scipy import sparse

import nearkin
from nearkin import SLNE, SoftVotingKNN, Vote
from nearkin.neighbors import nearest
from samples import blobs

VOTE = Vote("softmax", 0.2, class_weight=0.7, class_temperature=0.3, smoothing=0.02)
TRAIN, TEST = slice(0, 200), slice(200, 260)


def fitted(similarity="learned", vote=VOTE):
    X, y = blobs(n=260, spread=0.9)
    learner = SLNE(prepare=None, n_neighbors=10, max_epochs=2, random_state=0)
    learner = learner.fit(X[TRAIN], y[TRAIN]) if similarity == "learned" else None
    return SoftVotingKNN(learner, n_neighbors=15, vote=vote).fit(X[TRAIN], y[TRAIN]), X, y


def by_hand(model, X, y, Q, lists, vote=VOTE):
    """0.98 (0.3 neighbours + 0.7 class means) + 0.02 / classes, a query at a time."""
    learned = model.similarity_ is not None
    M = model.similarity_.matrix_.astype(float) if learned else np.eye(X.shape[1])
    means = np.array([X[y == c].astype(float).sum(axis=0) for c in model.classes_])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    shares = []
    for q, near in zip(Q.astype(float), lists):
        near = near[near >= 0]
        s = q @ M @ X[near].T.astype(float)  # of unit length, also without a similarity
        votes = np.exp((s - s.max(initial=-np.inf)) / vote.sharpness)
        tally = np.array([votes[y[near] == c].sum() for c in model.classes_])
        if not len(near):
            tally = np.array([(y == c).sum() for c in model.classes_])
        mean = np.exp(q @ M @ means.T / vote.class_temperature)
        w, e = vote.class_weight, vote.smoothing
        mixed = (1 - w) * tally / tally.sum() + w * mean / mean.sum()
        shares.append((1 - e) * mixed + e / len(tally))
    return np.array(shares)


@pytest.mark.parametrize("similarity", ["learned", None])
@pytest.mark.parametrize("given", [False, True])
def test_probabilities_by_the_formula(similarity, given, monkeypatch):
    monkeypatch.setattr("nearkin.voting.tally.VOTE_CELLS", 150)  # several blocks of queries
    model, X, y = fitted(similarity)
    lists = nearest(X[TRAIN], 9 if given else 15, queries=X[TEST])[1]
    also = {"neighbors": lists} if given else {}
    expected = by_hand(model, X[TRAIN], y[TRAIN], X[TEST], lists)
    np.testing.assert_allclose(model.predict_proba(X[TEST], **also), expected, atol=1e-4)
    order = np.argsort(-expected, axis=1)
    np.testing.assert_array_equal(model.predict(X[TEST], **also), order[:, 0])
    np.testing.assert_array_equal(model.predict_top(X[TEST], 3, **also), order[:, :3])


@pytest.mark.parametrize("nobody", [np.full((60, 2), -1), sparse.csr_array((60, 200))])
def test_without_neighbours_the_class_means_still_vote(nobody):
    model, X, y = fitted()
    lists = np.full((60, 1), -1)
    expected = by_hand(model, X[TRAIN], y[TRAIN], X[TEST], lists)
    np.testing.assert_allclose(model.predict_proba(X[TEST], neighbors=nobody), expected, atol=1e-4)
    labels = model.predict(X[TEST], neighbors=nobody)
    np.testing.assert_array_equal(labels, expected.argmax(axis=1))
    assert (labels == y[TEST]).mean() > 0.5
    np.testing.assert_array_equal(model.predict_top(X[TEST], 1, neighbors=nobody)[:, 0], labels)


def test_class_means_alone():
    model, X, _ = fitted(vote=Vote("top", class_weight=1.0))
    scores = X[TEST] @ model.similarity_.matrix_ @ model.class_means_.T
    np.testing.assert_array_equal(model.predict(X[TEST]), scores.argmax(axis=1))


def test_neighbours_do_not_know_the_class_means():
    (with_means, X, _), (without, _, _) = fitted(), fitted(vote="softmax")
    for rerank in (True, False):
        one, two = (m.kneighbors(X[TEST], 10, rerank=rerank) for m in (with_means, without))
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])
    assert (with_means.predict_proba(X[TEST]) != without.predict_proba(X[TEST])).any()


@pytest.mark.parametrize("similarity", ["learned", None])
def test_added_rows_move_the_means_and_new_classes_have_one(similarity):
    model, X, y = fitted(similarity)
    new = -X[TEST]  # far from all others
    labels = np.where(np.arange(60) < 30, -7, y[TEST])  # a class before all others
    model.add(new, labels)
    rows, truth = np.r_[X[TRAIN], new], np.r_[y[TRAIN], labels]
    assert model.classes_.tolist() == [-7, 0, 1, 2, 3]
    lists = nearest(rows, 15, queries=new)[1]
    np.testing.assert_allclose(
        model.predict_proba(new), by_hand(model, rows, truth, new, lists), atol=1e-4
    )
    whole = SoftVotingKNN(model.similarity_, n_neighbors=15, vote=VOTE).fit(rows, truth)
    np.testing.assert_allclose(model.class_means_, whole.class_means_, atol=1e-6)


def test_saved_and_loaded(tmp_path):
    model, X, _ = fitted()
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    assert again.vote_ == VOTE
    np.testing.assert_array_equal(again.class_means_, model.class_means_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("similarity", ["learned", None])
def test_a_vote_chosen_on_other_rows_may_use_the_class_means(similarity):
    """Neighbours are of random classes, the means are right."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    X = rng.normal(size=(500, 40)) + 0.35 * np.where(y, 1, -1)[:, None] * np.sign(
        np.arange(40) - 19.5
    )
    learner = SLNE(n_neighbors=10, max_epochs=1, random_state=0)
    learner = learner.fit(X[:200], y[:200]) if similarity == "learned" else None
    model = SoftVotingKNN(learner, random_state=0)
    model.fit(X[:200], y[:200], calibration=(X[200:300], y[200:300]))
    assert model.vote_.class_weight > 0.3
    without = SoftVotingKNN(learner, vote=Vote("top", 1)).fit(X[:200], y[:200])
    assert model.score(X[300:], y[300:]) > without.score(X[300:], y[300:])
