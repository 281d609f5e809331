"""The vote that is chosen, against all votes of its grid tried one by one."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nearkin import Vote
from nearkin.voting import choice
from nearkin.voting.choice import Ballot, candidates, choose, join
from nearkin.voting.votes import KINDS


def ballot(seed=0, m=25, k=6, classes=3, right=1.0, means=True):
    """Voters, and class means, of which those of the true class are more similar by `right`."""
    rng = np.random.default_rng(seed)
    truth, labels = rng.integers(0, classes, m), rng.integers(0, classes, (m, k))
    scores = rng.normal(size=(m, k)) + right * (labels == truth[:, None])
    class_scores = rng.normal(size=(m, classes)) + right * np.eye(classes)[truth]
    return Ballot(
        scores.astype(np.float32),
        labels,
        truth,
        classes,
        rng.random((m, k)).astype(np.float32),
        class_scores.astype(np.float32) if means else None,
    )


def log_loss(shares, truth):
    return -np.mean(np.log(shares[np.arange(len(truth)), truth].astype(float)))


def accuracy(shares, truth):
    return np.mean(shares.argmax(axis=1) == truth)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_vote_of_neighbours_alone(seed):
    given = ballot(seed, means=False)
    grid = [
        replace(vote, smoothing=e, exponent=power)
        for vote in candidates(given.scores)
        for e in choice.SMOOTHING
        for power in choice.EXPONENTS
    ]  # fmt: skip
    losses = [log_loss(given.shares(vote), given.truth) for vote in grid]
    vote, loss, right, own = choose(given)
    assert loss == pytest.approx(min(losses), rel=1e-5)
    likelihoods = np.take_along_axis(given.shares(vote), given.truth[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(own, -np.log(likelihoods), rtol=1e-3, atol=1e-5)
    assert log_loss(given.shares(vote), given.truth) == pytest.approx(loss, rel=1e-5)
    assert right == pytest.approx(accuracy(given.shares(vote), given.truth))
    assert vote.class_weight == 0


@pytest.mark.parametrize(("seed", "right"), [(0, 1.0), (1, 1.0), (2, 0.3), (3, 3.0)])
def test_the_best_mixture_with_class_means(seed, right):
    """Few votes of neighbours, so that all of them are mixed."""
    given = ballot(seed, right=right)
    near = [Vote("softmax", 0.5), Vote("top", 3.0), Vote("softmax", 0.1), Vote("power", 2.0)]
    spread = given.class_scores.std()
    losses = [
        log_loss(
            given.shares(
                replace(v, exponent=p, class_weight=w, class_temperature=spread * t, smoothing=e)
            ),
            given.truth,
        )
        for v, p, w, t, e in itertools.product(
            near,
            choice.EXPONENTS,
            (0.0, *choice.CLASS_WEIGHTS),
            choice.CLASS_TEMPERATURES,
            choice.SMOOTHING,
        )
    ]
    vote, loss, hits, _ = choose(given, near)
    assert loss == pytest.approx(min(losses), rel=1e-5)
    assert log_loss(given.shares(vote), given.truth) == pytest.approx(loss, rel=1e-5)
    assert hits == pytest.approx(accuracy(given.shares(vote), given.truth))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("means", [False, True])
def test_probabilities_by_the_formula(kind, means):
    given = ballot(means=means)
    given = replace(given, scores=np.abs(given.scores) + 1)
    vote = Vote(kind, 2.0, 0.3, class_weight=0.6, class_temperature=0.7, smoothing=0.05, exponent=3)
    if not means:
        vote = replace(vote, class_weight=0.0)
    for i, shares in enumerate(given.shares(vote)):
        s = given.scores[i].astype(float) - 0.3 * given.mean_similarity[i]
        weight = {
            "similarity": s,
            "power": s**2,
            "softmax": np.exp((s - s.max()) / 2),
            "top": 1.0 * (s.argsort()[::-1].argsort() < 2),
        }[kind]
        near = np.bincount(given.labels[i], weight, minlength=3) / weight.sum()
        near = mixed = near**3 / (near**3).sum()
        if means:
            mean = np.exp(given.class_scores[i].astype(float) / 0.7)
            mixed = 0.4 * near + 0.6 * mean / mean.sum()
        expected = 0.95 * mixed + 0.05 / 3
        np.testing.assert_allclose(shares, expected, atol=0.01 if kind == "top" else 1e-5)


def test_smoothing_deals_out_a_share_to_all_classes():
    one = Ballot(np.ones((1, 2), np.float32), np.zeros((1, 2), int), np.zeros(1, int), 4)
    np.testing.assert_allclose(
        one.shares(Vote("softmax", smoothing=0.2)), [[0.85, 0.05, 0.05, 0.05]]
    )
    np.testing.assert_allclose(one.shares(Vote("softmax")), [[1, 0, 0, 0]])


def test_a_class_without_a_voter_costs_no_infinite_loss():
    """All voters are wrong, always: the least confident vote is best."""
    given = ballot()
    wrong = replace(given, labels=(given.truth[:, None] + 1) % 3 + 0 * given.labels)
    vote, loss, hits, _ = choose(replace(wrong, class_scores=None))
    assert np.isfinite(loss)
    assert vote.smoothing == max(choice.SMOOTHING)
    assert hits == 0
    vote, _, hits, _ = choose(
        replace(wrong, class_scores=100 * np.eye(3, dtype=np.float32)[wrong.truth])
    )
    assert vote.class_weight == 1
    assert hits == 1


def test_gaps_do_not_vote():
    given = ballot()
    nobody = np.full((25, 2), -np.inf, np.float32)
    gaps = replace(
        given,
        scores=np.c_[given.scores, nobody],
        labels=np.c_[given.labels, np.zeros((25, 2), int)],
        mean_similarity=None,
    )
    vote = Vote("softmax", 0.3, class_weight=0.2)
    np.testing.assert_allclose(gaps.shares(vote), given.shares(vote), rtol=1e-6)
    assert candidates(gaps.scores)[:13] == candidates(given.scores)[:13]  # the same spread


def test_shares_do_not_depend_on_the_blocks(monkeypatch):
    given, vote = ballot(), Vote("softmax", 0.3, csls=0.5, class_weight=0.2, smoothing=0.01)
    whole = given.shares(vote)
    monkeypatch.setattr(choice, "_BLOCK_CELLS", 10)  # three queries a block
    np.testing.assert_array_equal(given.shares(vote), whole)


def test_ballots_are_joined_at_the_shortest_lists():
    """Splits of few rows differ by a row or two, and so do their lists."""
    parts = ballot(0, k=6), ballot(1, k=5), ballot(2, k=7)
    joined, vote = join(parts), Vote("softmax", 0.3, csls=0.5, class_weight=0.2)
    expected = np.concatenate([part.truncated(5).shares(vote) for part in parts])
    np.testing.assert_array_equal(joined.shares(vote), expected)
    assert joined.size == 75
