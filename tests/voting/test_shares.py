"""Shares of neighbours and class means: against a naive form, and summed to the probabilities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from nearkin import SLNE, SoftVotingKNN
from nearkin.voting.votes import KINDS, Vote


def rows(seed=0, n=90, dims=6, classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.normal(size=(classes, dims))[y] + rng.normal(size=(n, dims))).astype(np.float32), y


def fitted(vote, similarity=None, seed=0):
    X, y = rows(seed)
    return SoftVotingKNN(similarity, n_neighbors=7, vote=vote, random_state=0).fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extra", [{}, {"class_weight": 0.3}, {"class_weight": 1.0},
                                   {"smoothing": 0.1}, {"class_weight": 0.4, "smoothing": 0.2},
                                   {"csls": 1.5}, {"exponent": 2.0},
                                   {"exponent": 3.0, "class_weight": 0.4},
                                   {"hyperplane_weight": 0.7, "class_weight": 0.2}])  # fmt: skip
@pytest.mark.parametrize("similarity", [None, SLNE("softmax", n_neighbors=10, random_state=0)])
def test_shares_add_up_to_the_probabilities(kind, extra, similarity):
    """Also where similarities are negative, as many are after csls."""
    model = fitted(Vote(kind, **extra), similarity)
    Q = rows(seed=1)[0]
    shares = model.vote_shares(Q)
    assert (shares.neighbors >= 0).all()
    p = model.predict_proba(Q)
    assert_allclose(shares.probabilities(model.labels_), p, atol=2e-6)
    naive = shares.class_means + shares.prior
    for i, (listed, votes) in enumerate(zip(shares.indices, shares.neighbors)):
        for row, vote in zip(listed, votes):
            naive[i, model.labels_[row]] += vote
    assert_allclose(naive, p, atol=2e-6)


def test_the_shares_of_a_softmax_vote_are_those_of_its_formula():
    vote = Vote("softmax", 0.2, class_weight=0.25, class_temperature=0.5, smoothing=0.1)
    model = fitted(vote, SLNE("softmax", n_neighbors=10, random_state=0))
    Q = rows(seed=2, n=5)[0]
    shares = model.vote_shares(Q)
    M, (scores, listed) = model.similarity_.matrix_, model.kneighbors(Q, rerank=False)
    prepared = model.prepared(Q).astype(float)
    for i in range(len(Q)):
        e = np.exp(scores[i].astype(float) / 0.2 - scores[i].max() / 0.2)
        assert_allclose(shares.neighbors[i], 0.9 * 0.75 * e / e.sum(), rtol=1e-4, atol=1e-7)
        m = np.exp(prepared[i] @ M.astype(float) @ model.class_means_.T.astype(float) / 0.5)
        assert_allclose(shares.class_means[i], 0.9 * 0.25 * m / m.sum(), rtol=1e-3)
    assert_allclose(shares.prior, 0.1 / 4, rtol=1e-6)
    assert (shares.indices == listed).all()
    assert_allclose(shares.similarities, scores)


def test_a_query_without_voters_has_the_classes_frequencies():
    model = fitted(Vote("softmax", smoothing=0.2))
    Q = rows(seed=3, n=3)[0]
    lists = np.array([[-1, -1], [4, -1], [5, 6]])
    shares = model.vote_shares(Q, lists)
    frequencies = np.bincount(model.labels_) / len(model.labels_)
    assert_allclose(shares.prior[0], 0.8 * frequencies + 0.05, rtol=1e-5)
    assert shares.neighbors[0].tolist() == [0, 0]
    assert_allclose(shares.neighbors[1], [0.8, 0], rtol=1e-6)
    assert_allclose(shares.probabilities(model.labels_), model.predict_proba(Q, lists), atol=1e-6)


def test_prepared_rows_are_asked_as_the_rows_that_they_come_from():
    X, y = rows()
    model = SoftVotingKNN(SLNE(n_neighbors=10, random_state=0), n_neighbors=7).fit(X, y)
    inner, Q = model.on_prepared_rows(), rows(seed=4, n=9)[0]
    assert inner.preprocess_ is None
    assert model.preprocess_ is not None
    prepared = model.prepared(Q)
    for a, b in zip(model.kneighbors(Q), inner.kneighbors(prepared)):
        assert (a == b).all()
    assert (model.predict_proba(Q) == inner.predict_proba(prepared)).all()
    assert_allclose(model.prepared(X), model.database_, atol=1e-6)
