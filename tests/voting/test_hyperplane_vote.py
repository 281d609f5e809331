"""Local hyperplanes as voters of the classifier, beside neighbours and class means."""

import numpy as np
import pytest

import nearkin
from nearkin import SLNE, SoftVotingKNN, Vote
from nearkin.native.hyperplanes import hyperplane_distances
from nearkin.neighbors import nearest
from nearkin.voting.choice import Ballot, choose
from samples import blobs

VOTE = Vote("softmax", 0.2, class_weight=0.3, class_temperature=0.3, smoothing=0.02, exponent=1.5,
            hyperplane_weight=0.6, hyperplane_temperature=0.1)  # fmt: skip
TRAIN, TEST = slice(0, 200), slice(200, 260)


def fitted(vote=VOTE):
    X, y = blobs(n=260, spread=0.9)
    learner = SLNE(prepare=None, n_neighbors=10, max_epochs=2, random_state=0)
    learner.fit(X[TRAIN], y[TRAIN])
    return SoftVotingKNN(learner, n_neighbors=15, vote=vote).fit(X[TRAIN], y[TRAIN]), X, y


def by_hand(model, X, y, Q, lists):
    """0.98 (0.7 (0.4 votes + 0.6 hyperplanes) + 0.3 class means) + 0.02 / classes."""
    M = model.similarity_.matrix_.astype(float)
    distances = hyperplane_distances(Q, X, lists.astype(np.int32), y, len(model.classes_))
    shares = []
    for q, near, d in zip(Q.astype(float), lists, distances):
        votes = np.exp(q @ M @ X[near].T / 0.2)
        tally = np.array([votes[y[near] == c].sum() for c in model.classes_])
        tally = (tally / tally.sum()) ** 1.5
        local = np.exp(-d.astype(float) / 0.1)
        mean = np.exp(q @ M @ model.class_means_.T / 0.3)
        mixed = 0.4 * tally / tally.sum() + 0.6 * local / local.sum()
        shares.append(0.98 * (0.7 * mixed + 0.3 * mean / mean.sum()) + 0.02 / len(tally))
    return np.array(shares)


@pytest.mark.parametrize("given", [False, True])
def test_probabilities_by_the_formula(given, monkeypatch):
    monkeypatch.setattr("nearkin.voting.tally.VOTE_CELLS", 150)  # several blocks of queries
    model, X, y = fitted()
    lists = nearest(X[TRAIN], 9 if given else 15, queries=X[TEST])[1]
    also = {"neighbors": lists} if given else {}
    expected = by_hand(model, X[TRAIN], y[TRAIN], X[TEST], lists)
    found = model.predict_proba(X[TEST], **also)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X[TEST], **also), expected.argmax(axis=1))


def test_without_neighbours_there_is_no_hyperplane():
    model, X, _ = fitted()
    without = fitted(Vote("softmax", 0.2, class_weight=0.3, class_temperature=0.3, smoothing=0.02,
                          exponent=1.5))[0]  # fmt: skip
    nobody = np.full((60, 2), -1)
    one, two = (m.predict_proba(X[TEST], neighbors=nobody) for m in (model, without))
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_saved_and_extended(tmp_path):
    model, X, _ = fitted()
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    assert again.vote_ == VOTE
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    again.add(X[TEST], np.full(60, 4))
    lists = nearest(again.database_, 15, queries=X[TEST])[1]
    expected = by_hand(again, again.database_, again.labels_, X[TEST], lists)
    np.testing.assert_allclose(again.predict_proba(X[TEST]), expected, atol=1e-4)


def test_chosen_where_rows_lie_on_lines():
    """Two classes on lines side by side: neighbours are of both, the lines tell them apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    t = rng.uniform(-1, 1, 300)
    X = np.stack([t, np.where(y, 0.03, 0) + 0.003 * rng.normal(size=300)], axis=1).astype("f4")
    X = np.concatenate([X, 0.003 * rng.normal(size=(300, 3))], axis=1).astype("f4")
    lists = nearest(X[:100], 20, queries=X[100:])[1].astype(np.int32)
    closeness = -((X[100:, None] - X[:100][lists]) ** 2).sum(axis=2)
    distances = hyperplane_distances(X[100:], X[:100], lists, y[:100], 2)
    ballot = Ballot(closeness, y[:100][lists], y[100:], 2)
    plain, chosen = choose(ballot), choose(Ballot(**vars(ballot) | {"distances": distances}))
    assert chosen.vote.hyperplane_weight > 0
    assert chosen.log_loss < plain.log_loss
    shares = Ballot(**vars(ballot) | {"distances": distances}).shares(chosen.vote)
    likelihood = np.maximum(shares[np.arange(200), y[100:]], 1e-12)
    np.testing.assert_allclose(-np.log(likelihood).mean(), chosen.log_loss, rtol=1e-3)
