"""Novelty of queries, against the formula a query at a time, and its threshold."""

import numpy as np
import pytest
from scipy import sparse

import nearkin
from nearkin import SLNE, Preprocess, SoftVotingKNN, Vote
from nearkin.neighbors import nearest
from nearkin.voting.novelty import novelty, threshold
from samples import blobs

TRAIN, TEST = slice(0, 200), slice(200, 260)


def fitted(similarity="learned", scale=1.0, csls=0.0):
    X, y = blobs(n=260, spread=0.9)
    X = (X * np.linspace(1, scale, len(X))[:, None]).astype(np.float32)  # of different lengths
    learner = SLNE(prepare=None, n_neighbors=10, max_epochs=2, random_state=0)
    learner = learner.fit(X[TRAIN], y[TRAIN]) if similarity == "learned" else similarity
    model = SoftVotingKNN(learner, n_neighbors=15, vote=Vote("softmax", csls=csls))
    return model.fit(X[TRAIN], y[TRAIN]), X, y


def by_hand(model, rows, Q, lists):
    """1 − mean of the cosines of xM and the three most similar rows; for plain rows, distances."""
    rows, scores = rows.astype(float), []
    for q, near in zip(Q.astype(float), lists):
        near = near[near >= 0]
        if model.similarity_ is None:
            scale = (rows**2).sum(axis=1).mean()
            cosines = 1 - ((q - rows[near]) ** 2).sum(axis=1) / 2 / scale
            best = np.argsort(-cosines)[:3]
        else:
            product = q @ model.similarity_.matrix_.astype(float)
            best = np.argsort(-(rows[near] @ product))[:3]
            lengths = np.linalg.norm(rows[near], axis=1) * np.linalg.norm(product)
            cosines = rows[near] @ product / lengths
        scores.append(1 - cosines[best].mean() if len(near) else np.inf)
    return np.array(scores)


@pytest.mark.parametrize("similarity", ["learned", None])
@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("csls", [0.0, 0.5])
def test_the_formula(similarity, scale, csls, monkeypatch):
    monkeypatch.setattr("nearkin.voting.tally.VOTE_CELLS", 150)  # several blocks of queries
    model, X, _ = fitted(similarity, scale, csls)
    lists = nearest(X[TRAIN], 15, queries=X[TEST])[1]
    expected = by_hand(model, X[TRAIN], X[TEST], lists)
    np.testing.assert_allclose(model.novelty_score(X[TEST]), expected, atol=1e-4)


@pytest.mark.parametrize("similarity", ["learned", None])
def test_rows_that_are_listed(similarity):
    model, X, _ = fitted(similarity)
    lists = np.random.default_rng(0).integers(-1, 200, (60, 5))
    lists[:3] = [[-1] * 5, [7, *[-1] * 4], [-1, 8, -1, 9, -1]]
    expected = by_hand(model, X[TRAIN], X[TEST], lists)
    assert expected[0] == np.inf
    np.testing.assert_allclose(model.novelty_score(X[TEST], lists), expected, atol=1e-4)
    row, place = np.nonzero(lists >= 0)
    graph = sparse.csr_array((np.ones(len(row)), (row, lists[row, place])), shape=(60, 200))
    lists = [np.unique(near[near >= 0]) for near in lists]
    expected = by_hand(model, X[TRAIN], X[TEST], lists)
    np.testing.assert_allclose(model.novelty_score(X[TEST], graph), expected, atol=1e-4)


def test_any_object_with_a_similarity():
    class MinusDistance:
        def similarity(self, X, Z):
            return -((X[:, None] - Z[None]) ** 2).sum(axis=2)

    model, X, _ = fitted(MinusDistance())
    distances = ((X[TEST][:, None] - X[TRAIN][None]) ** 2).sum(axis=2)
    expected = 1 + np.sort(distances, axis=1)[:, :3].mean(axis=1)
    np.testing.assert_allclose(model.novelty_score(X[TEST]), expected, atol=1e-4)


@pytest.mark.parametrize("similarity", ["learned", None])
def test_added_rows_are_no_longer_novel(similarity):
    model, X, _ = fitted(similarity)
    new = -X[TEST]
    before = model.novelty_score(new)
    model.add(new, np.full(60, 9))
    rows = np.concatenate([X[TRAIN], new])
    after = model.novelty_score(new)
    lists = nearest(rows, 15, queries=new)[1]
    np.testing.assert_allclose(after, by_hand(model, rows, new, lists), atol=1e-4)
    assert (after < before).mean() > 0.9


def test_a_query_of_zeros_resembles_nothing():
    model, X, _ = fitted()
    np.testing.assert_allclose(model.novelty_score(0 * X[:1]), 1)


def test_the_threshold_is_a_quantile_of_those_that_found_a_row():
    scores = np.float32([np.inf, *range(101)])
    assert threshold(scores) == 95
    assert threshold(np.float32([np.inf])) is None
    lengths = np.ones((1, 4), np.float32)
    assert novelty(np.full((1, 4), -np.inf, np.float32), lengths).tolist() == [np.inf]


@pytest.mark.parametrize("similarity", ["auto", SLNE(n_neighbors=20, max_epochs=2), None])
def test_the_threshold_rejects_few_rows_of_known_classes_and_most_others(similarity):
    """Blobs on the axes, one of which is left out."""
    rng = np.random.default_rng(0)
    y = np.arange(1_500) % 5
    X = 5 * np.eye(5, 8)[y] + rng.normal(size=(1_500, 8))
    known = y < 4
    train, test = known & (np.arange(1_500) < 700), known & (np.arange(1_500) >= 700)
    model = SoftVotingKNN(similarity, random_state=0).fit(X[train], y[train])
    limit = model.novelty_threshold_
    assert 0.01 < (model.novelty_score(X[test]) > limit).mean() < 0.12
    assert (model.novelty_score(X[~known]) > limit).mean() > 0.6


def test_the_threshold_comes_from_rows_that_took_no_part():
    """On the rows of a calibration it is their quantile; without held-out rows there is none."""
    model, X, y = fitted()
    assert model.novelty_threshold_ is None
    again = SoftVotingKNN(model.similarity_, n_neighbors=15)
    again.fit(X[TRAIN], y[TRAIN], calibration=(X[TEST], y[TEST]))
    expected = np.quantile(model.novelty_score(X[TEST]), 0.95)
    assert again.novelty_threshold_ == pytest.approx(expected, abs=1e-5)
    assert SoftVotingKNN().fit(X[:9], y[:9]).novelty_threshold_ is None  # too few to hold any out


@pytest.mark.parametrize("form", ["sparse", "memmap"])
def test_saved_loaded_and_asked_in_any_form(tmp_path, form):
    X, y = blobs(n=120, dims=6)
    model = SoftVotingKNN(SLNE(n_neighbors=20, max_epochs=1), preprocess=Preprocess())
    model.fit(sparse.csr_array(X) if form == "sparse" else X, y)
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    assert again.novelty_threshold_ == model.novelty_threshold_ > 0
    np.save(tmp_path / "X.npy", X)
    given = sparse.csr_array(X) if form == "sparse" else np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_allclose(again.novelty_score(given), model.novelty_score(X), atol=1e-5)


def test_a_file_with_a_threshold_that_is_no_number(tmp_path):
    model = fitted()[0]
    model.novelty_threshold_ = "high"
    with pytest.raises(ValueError, match="novelty_threshold_='high'"):
        model.novelty_score(model.database_)
