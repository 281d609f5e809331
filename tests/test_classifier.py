from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestNeighbors, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from nearkin import SLNE, Hardest, Preprocess, SoftVotingKNN, Vote
from nearkin.neighbors import nearest
from nearkin.voting.votes import KINDS, probabilities
from samples import blobs


@parametrize_with_checks(
    [SoftVotingKNN(None), SoftVotingKNN(SLNE.paper(max_epochs=3), preprocess=Preprocess())]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def test_the_papers_vote():
    """Eq. 9, literally: the class with the largest sum of similarities among the k nearest."""
    X, y = blobs(n=260)
    train, test = slice(0, 200), slice(200, 260)
    learner = SLNE.paper(max_epochs=3, random_state=0).fit(X[train], y[train])
    model = SoftVotingKNN(learner, n_neighbors=15, vote="similarity").fit(X[train], y[train])
    M = learner.matrix_.astype(float)
    for x, label in zip(X[test], model.predict(X[test])):
        near = np.argsort(np.linalg.norm(X[train] - x, axis=1))[:15]
        sums = [sum(x @ M @ X[j] for j in near if y[j] == c) for c in model.classes_]
        assert label == model.classes_[np.argmax(sums)]


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 500), st.floats(0.5, 8))
@settings(deadline=None, max_examples=25)
def test_tally_against_loops(kind, seed, sharpness):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(4, 6)).astype(np.float32)
    labels = rng.integers(0, 3, (4, 6))
    sharpness = np.ceil(sharpness) if kind == "top" else sharpness
    got = Vote(kind, sharpness).tally(scores, labels, 3)
    for i in range(4):
        s = scores[i].astype(float)
        if s.max() <= 0 and kind in ("similarity", "power"):
            s -= 1.1 * s.min()
        weight = {
            "similarity": s,
            "power": np.sign(s) * np.abs(s / np.abs(s).max()) ** sharpness,
            "softmax": np.exp((s - s.max()) / sharpness),
            "top": (s.argsort()[::-1].argsort() < sharpness).astype(float),
        }[kind]
        expected = [weight[labels[i] == c].sum() for c in range(3)]
        if min(expected) < 0:
            expected = [e if c in labels[i] else -np.inf for c, e in enumerate(expected)]
        np.testing.assert_allclose(got[i], expected, atol=0.03 if kind == "top" else 1e-4)


def test_absent_neighbours_do_not_vote():
    scores = np.array([[0.3, -np.inf, -np.inf]], np.float32)
    for kind in KINDS:
        assert Vote(kind, 2.0).tally(scores, np.array([[1, 0, 0]]), 2).argmax() == 1


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 500))
@settings(deadline=None, max_examples=25)
def test_votes_are_those_of_the_list_without_its_gaps(kind, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-2, 4, (1, 6)).astype(np.float32)
    labels = rng.integers(0, 3, (1, 6))
    there = rng.random(6) < 0.6
    there[rng.integers(6)] = True
    gaps = np.where(there, scores, -np.inf).astype(np.float32)
    one = Vote(kind, 2.0).tally(gaps, labels, 3)
    two = Vote(kind, 2.0).tally(scores[:, there], labels[:, there], 3)
    np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 500), st.sampled_from([-3.0, -1.0, 0.0, 1.0]))
@settings(deadline=None, max_examples=40)
def test_only_a_class_with_voters_wins(kind, seed, shift):
    rng = np.random.default_rng(seed)
    scores = (rng.integers(-2, 3, (30, 4)) + shift).astype(np.float32)
    scores[rng.random(scores.shape) < 0.3] = -np.inf
    labels = rng.integers(0, 5, (30, 4))
    tally = Vote(kind, 2.0).tally(scores, labels, 5)
    p = probabilities(tally)
    assert p.dtype == np.float32
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    for i in range(30):
        voted = set(labels[i, np.isfinite(scores[i])])
        if voted:
            assert tally[i].argmax() in voted
            assert p[i].argmax() in voted
            assert p[i, tally[i].argmax()] == p[i].max()
            assert not p[i, [c for c in range(5) if c not in voted]].any()


@pytest.mark.parametrize("kind", ["similarity", "power"])
@given(st.integers(0, 500))
@settings(deadline=None, max_examples=25)
def test_votes_of_similarities_that_are_not_negative_are_plain_sums(kind, seed):
    rng = np.random.default_rng(seed)
    scores = rng.random((4, 6)).astype(np.float32)
    labels = rng.integers(0, 5, (4, 6))
    weights = scores
    if kind == "power":
        weights = (scores / scores.max(axis=1, keepdims=True)) ** np.float32(3)
    sums = [np.bincount(row, w, minlength=5) for row, w in zip(labels, weights)]
    tally = Vote(kind, 3.0).tally(scores, labels, 5)
    np.testing.assert_array_equal(tally, np.float32(sums))
    shares = tally / tally.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(probabilities(tally), shares)


@pytest.mark.parametrize("vote", ["similarity", "power"])
@pytest.mark.parametrize("k", [3, 50])
def test_minus_squared_distances_vote_about_as_well_as_counting(vote, k):
    X, y = load_digits(return_X_y=True)
    model = SoftVotingKNN(MinusDistance(), n_neighbors=k, vote=vote).fit(X[:1500], y[:1500])
    counted = SoftVotingKNN(None, n_neighbors=k, vote=Vote("top", k)).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > counted.score(X[1500:], y[1500:]) - 0.02


class MinusDistance:
    def similarity(self, X, Z):
        return -((X[:, None] - Z[None]) ** 2).sum(axis=-1)


@given(st.integers(0, 500))
@settings(deadline=None)
def test_probabilities_sum_to_one_and_keep_the_order(seed):
    votes = np.random.default_rng(seed).normal(size=(5, 4)).astype(np.float32)
    p = probabilities(votes)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (p >= 0).all()
    np.testing.assert_array_equal(p.argmax(axis=1), votes.argmax(axis=1))


def test_probabilities_of_no_votes_are_even():
    np.testing.assert_allclose(probabilities(np.zeros((1, 4), np.float32)), 0.25)


def test_learning_beats_plain_on_digits():
    X, y = load_digits(return_X_y=True)
    settings = {"preprocess": Preprocess(), "vote": "softmax", "random_state": 0}
    plain = SoftVotingKNN(None, **settings).fit(X[:1200], y[:1200])
    model = SoftVotingKNN(SLNE.paper("softmax", step_size=0.5), **settings)
    model.fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > plain.score(X[1200:], y[1200:]) + 0.005


def test_all_of_the_interface_with_strings_and_frames():
    X, y = blobs(n=200)
    names = np.array(["wren", "owl", "kite", "tern"])[y]
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    model = SoftVotingKNN(SLNE.paper(max_epochs=2), n_neighbors=20, random_state=0)
    model.fit(frame, pd.Series(names))
    assert set(model.predict(frame)) <= set(names)
    p = model.predict_proba(frame)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    top = model.predict_top(frame, n=3)
    assert top.shape == (200, 3)
    np.testing.assert_array_equal(top[:, 0], model.predict(frame))
    assert all(len(set(row)) == 3 for row in top.tolist())
    scores, indices = model.kneighbors(frame[:5], 10)
    assert indices.shape == scores.shape == (5, 10)
    assert (np.diff(scores, axis=1) <= 0).all()
    expected = np.einsum("nd,nkd->nk", X[:5] @ model.similarity_.matrix_, X[indices])
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_one_seed_fixes_everything():
    X, y = blobs()
    one, two = (
        SoftVotingKNN(SLNE.paper(max_epochs=2), random_state=5).fit(X, y).predict_proba(X)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)


def test_held_out_rows_are_unknown_to_the_first_fit(monkeypatch):
    """The vote is chosen with an M that must not depend on the labels of the held-out rows."""
    X, y = blobs(n=400)
    (lists, first), _ = fits_inside(X, y)
    held = (lists < 0).all(axis=1)
    assert 20 <= held.sum() <= 60
    other = y.copy()
    # Exchanging the labels of two held-out rows keeps every class count, and so the choice.
    a = np.flatnonzero(held)[0]
    b = next(i for i in np.flatnonzero(held) if y[i] != y[a])
    other[[a, b]] = y[[b, a]]
    monkeypatch.setattr("nearkin.learning.holdout.held_out", lambda *_: held)
    (_, second), (_, refitted) = fits_inside(X, other)
    np.testing.assert_array_equal(first, second)
    assert (refitted != second).any()


def test_after_the_choice_the_learner_sees_all_rows():
    X, y = blobs(n=400)
    _, (lists, matrix) = fits_inside(X, y)
    assert (lists >= 0).all()
    learner = SLNE.paper(max_epochs=2, random_state=0)
    model = SoftVotingKNN(learner, vote="power").fit(X, y)
    np.testing.assert_array_equal(matrix, model.similarity_.matrix_)


def fits_inside(X, y):
    """The lists that the learner was given and the matrix that it learned, for each of its fits."""
    seen = []

    class Spy(SLNE):
        def fit(self, X, y, neighbors=None):
            super().fit(X, y, neighbors=neighbors)
            seen.append((np.array(neighbors), self.matrix_.copy()))
            return self

    SoftVotingKNN(Spy.paper(max_epochs=2, random_state=0), random_state=0).fit(X, y)
    assert len(seen) == 2
    return seen


def test_fitted_similarity_needs_calibration_rows():
    X, y = blobs(n=400)
    learner = SLNE.paper(max_epochs=2, random_state=0).fit(X[:300], y[:300])
    with pytest.raises(ValueError, match="calibration="):
        SoftVotingKNN(learner).fit(X[:300], y[:300])
    model = SoftVotingKNN(learner).fit(X[:300], y[:300], calibration=(X[300:], y[300:]))
    assert model.similarity_ is learner
    assert 0 < model.calibration_accuracy_ <= 1
    with pytest.raises(ValueError, match="labels that y does not"):
        SoftVotingKNN(learner).fit(X[:300], y[:300], calibration=(X[300:], y[300:] + 7))


def test_any_object_with_a_similarity():
    class Cosine:
        def similarity(self, X, Z):
            return X @ Z.T

    X, y = blobs()
    model = SoftVotingKNN(Cosine(), vote="power").fit(X, y)
    plain = SoftVotingKNN(None, vote="power").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))


@pytest.mark.parametrize("vote", KINDS)
def test_missing_neighbours_do_not_vote_whatever_the_similarity(vote):
    X, y = blobs(n=200)
    order = np.argsort(y, kind="stable")  # the last row is of the last class
    X, y = X[order], y[order]
    lists = nearest(X[:-1], 8, queries=X)[1]
    lists[np.random.default_rng(0).random(lists.shape) < 0.6] = -1
    model = SoftVotingKNN(NoMatrix(), vote=vote).fit(X, y)
    plain = SoftVotingKNN(None, vote=vote).fit(X, y)
    one, two = (m.predict_proba(X, neighbors=lists) for m in (model, plain))
    np.testing.assert_allclose(one, two, atol=1e-4)
    for p, row in zip(one, lists):
        if (row >= 0).any():
            assert set(np.flatnonzero(p)) <= set(y[row[row >= 0]])


def test_a_similarity_of_the_wrong_shape_is_named():
    class Flat:
        def similarity(self, X, Z):
            return (X @ Z.T).ravel()

    X, y = blobs(n=60)
    model = SoftVotingKNN(Flat(), n_neighbors=5, vote="power").fit(X, y)
    with pytest.raises(ValueError, match=r"Flat\.similarity\(X, Z\) gave shape \(5,\)"):
        model.predict(X)


def test_a_query_without_voters_gets_the_class_frequencies():
    X, y = blobs(n=200)
    y = np.where(y > 1, 1, y) * 7  # the frequent class is not the first
    model = SoftVotingKNN(None, vote="power").fit(X, y)
    nobody = np.full((3, 4), -1)
    share = np.bincount(y // 7) / 200
    np.testing.assert_allclose(model.predict_proba(X[:3], neighbors=nobody), [share] * 3, rtol=1e-6)
    assert (model.predict(X[:3], neighbors=nobody) == 7).all()
    assert model.predict_top(X[:1], 2, neighbors=sparse.csr_array((1, 200))).tolist() == [[7, 0]]


def test_a_learner_that_knows_nothing_of_neighbours():
    class NCA(NeighborhoodComponentsAnalysis):
        def similarity(self, X, Z):
            return self.transform(X) @ self.transform(Z).T

    X, y = blobs(n=150)
    model = SoftVotingKNN(NCA(max_iter=5), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.5


def test_neighbours_given():
    X, y = blobs(n=300)
    train, test = slice(0, 250), slice(250, 300)
    lists = nearest(X[train], 50)[1]
    given_lists = SoftVotingKNN(SLNE.paper(max_epochs=2), random_state=0)
    given_lists.fit(X[train], y[train], neighbors=lists)
    found = SoftVotingKNN(SLNE.paper(max_epochs=2), random_state=0).fit(X[train], y[train])
    np.testing.assert_array_equal(given_lists.predict(X[test]), found.predict(X[test]))
    near = nearest(X[train], 50, queries=X[test])[1]
    np.testing.assert_array_equal(found.predict(X[test], neighbors=near), found.predict(X[test]))
    with pytest.raises(ValueError, match="one list for each of the 50"):
        found.predict(X[test], neighbors=near[:3])
    with pytest.raises(ValueError, match="between 0 and 249"):
        found.predict(X[test], neighbors=near + 250)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_a_graph_votes_as_its_lists_do(kind, monkeypatch):
    X, y = blobs(n=300)
    model = SoftVotingKNN(SLNE.paper(max_epochs=2), random_state=0).fit(X[:250], y[:250])
    lists = np.sort(nearest(X[:250], 20, queries=X[250:])[1], axis=1)
    lists[np.arange(20) >= np.random.default_rng(0).integers(0, 21, (50, 1))] = -1
    lists[0], lists[7] = -1, -1
    row, place = np.nonzero(lists >= 0)
    entries = np.zeros(len(row))  # values do not count
    graph = kind(sparse.coo_array((entries, (row, lists[row, place])), shape=(50, 250)))
    monkeypatch.setattr("nearkin.voting.tally.VOTE_CELLS", 150)  # several blocks of queries
    for ask in (model.predict, model.predict_proba, model.predict_top):
        few = {"n": 3} if ask == model.predict_top else {}
        one, two = (ask(X[250:], neighbors=given, **few) for given in (graph, lists))
        np.testing.assert_array_equal(one, two)


def test_lists_that_cannot_vote():
    X, y = blobs(n=100)
    model = SoftVotingKNN(None, vote="power").fit(X, y)
    ends, entries = np.array([0, 1, 2]), np.ones(2)
    for neighbors, message in [
        (np.array([[0], [100]]), r"from 0 to 100; with 100 stored rows .* between 0 and 99"),
        (np.array([[0], [-2]]), "from -2 to 0"),
        (sparse.csr_array((entries, np.array([3, 100]), ends), shape=(2, 100)), "from 3 to 100"),
        (sparse.csr_array((entries, np.array([3, -1]), ends), shape=(2, 100)), "from -1 to 3"),
        (sparse.csr_array((2, 99)), r"graph of shape \(2, 99\); \(2, 100\) is expected"),
        (np.array([[0.0], [1.0]]), "holds float64"),
        (np.empty((2, 0), int), r"shape \(2, 0\)"),
        ([[0, 1], [2]], "different lengths"),
    ]:
        for ask in (model.predict, model.predict_proba):
            with pytest.raises(ValueError, match=message):
                ask(X[:2], neighbors=neighbors)
    plain = SoftVotingKNN(None, vote=Vote("power", csls=0.5))  # no learner looks at the lists
    with pytest.raises(ValueError, match="from 100 to 100"):
        plain.fit(X, y, neighbors=np.full((100, 3), 100))
    with pytest.raises(ValueError, match="at least one neighbour"):
        plain.fit(X, y, neighbors=np.empty((100, 0), int))


def test_more_lists_than_queries_are_refused_in_every_block(monkeypatch):
    X, y = blobs(n=100)
    model = SoftVotingKNN(None, vote="power").fit(X, y)
    monkeypatch.setattr("nearkin.voting.tally.VOTE_CELLS", 16)  # four queries a block
    with pytest.raises(ValueError, match="one list for each of the 8"):
        model.predict(X[:8], neighbors=np.zeros((12, 2), int))


def test_grid_search_reaches_the_learner():
    X, y = blobs(n=150)
    grid = {"similarity__sampling__margin": [0.0, 0.1], "preprocess__whitening": [0.0, 0.5]}
    model = SoftVotingKNN(
        SLNE.paper(Hardest(), max_epochs=1), preprocess=Preprocess(), random_state=0
    )
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert set(search.best_params_) == set(grid)


def test_sparse_rows_through_the_preprocessing():
    X, y = blobs(n=150)
    model = SoftVotingKNN(None, preprocess=Preprocess(), random_state=0).fit(sparse.csr_array(X), y)
    dense = SoftVotingKNN(None, preprocess=Preprocess(), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), dense.predict(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"vote": "loud"}, "vote='loud'"), ({"n_neighbors": 0}, "n_neighbors=0"),
     ({"n_neighbors": 2.5}, r"n_neighbors=2\.5 must be 'auto' or a whole number"),
     ({"similarity": "cosine"}, "similarity='cosine' must be 'auto' or a learner .* 'similarity'"),
     ({"similarity": SLNE}, r"similarity=.*SLNE.* must be .*an object, not a class: give SLNE\(\)"),
     ({"preprocess": "pca"}, "preprocess='pca' must be 'auto' or a transformer .* 'transform'"),
     ({"preprocess": Preprocess}, r"must be .*an object, not a class: give Preprocess\(\)")],
)  # fmt: skip
def test_bad_parameters(settings, message):
    with pytest.raises(ValueError, match=message):
        SoftVotingKNN(**settings).fit(*blobs(n=50))


@pytest.mark.parametrize("vote", ["auto", "power"])
def test_bad_calibration(vote):
    X, y = blobs(n=50)
    for calibration, message in [
        (X, "calibration is a ndarray; a pair is expected"),
        ((X, y, y), "calibration is a tuple of 3; a pair"),
        ((X, y[:5]), r"rows of shape \(50, 12\) and labels of shape \(5,\)"),
        ((X, y[:, None]), r"labels of shape \(50, 1\)"),
        ((X[0], y[:12]), r"rows of shape \(12,\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            SoftVotingKNN(None, vote=vote).fit(X, y, calibration=calibration)


def test_bad_queries():
    X, y = blobs(n=80)
    model = SoftVotingKNN(None, vote="power").fit(X, y)
    for call, message in [
        (lambda: model.predict(X[:, :3]), "3 features"),
        (lambda: model.predict_top(X, n=9), "n=9 must lie between 1 and the 4"),
        (lambda: model.predict_top(X, n=2.5), r"n=2\.5 must be a whole number"),
        (lambda: model.kneighbors(X, 2.5), r"n_neighbors=2\.5 must be a whole number"),
        (lambda: model.kneighbors(X, 51), "between 1 and 50.*raise n_neighbors of the model"),
        (lambda: model.kneighbors(X, 0), "n_neighbors=0 must be a whole number >= 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    assert model.set_params(n_neighbors=51).kneighbors(X, 51)[1].shape == (80, 51)
    with pytest.warns(UserWarning, match="all of them vote"):
        SoftVotingKNN(None, n_neighbors=81, vote="power").fit(X, y)
    with pytest.warns(UserWarning, match=r"similarity\.n_neighbors=80 .* 79 are used") as told:
        SoftVotingKNN(SLNE.paper(n_neighbors=80, max_epochs=1)).fit(X, y)
    assert [Path(w.filename).name for w in told] == ["test_classifier.py"]


def test_csls_subtracts_the_mean_similarity_of_the_neighbours():
    X, y = blobs(n=200)
    learner = SLNE.paper(n_neighbors=10, max_epochs=2)
    model = SoftVotingKNN(learner, vote=Vote("power", csls=0.5), random_state=0).fit(X, y)
    M, near = model.similarity_.matrix_.astype(float), nearest(X, 50)[1]
    expected = [0.5 * np.mean(X[row] @ M @ x) for row, x in zip(near, X)]
    np.testing.assert_allclose(model.csls_bias_, expected, rtol=1e-3, atol=1e-5)
    scores, indices = model.kneighbors(X[:3], 7)
    pairs = np.einsum("nd,nkd->nk", X[:3] @ M, X[indices])
    np.testing.assert_allclose(scores, pairs - model.csls_bias_[indices], atol=1e-4)
    with pytest.raises(ValueError, match=r"csls=0\.5 needs a similarity with matrix_"):
        SoftVotingKNN(NoMatrix(), vote=Vote("power", csls=0.5)).fit(X, y)


class NoMatrix:
    def similarity(self, X, Z):
        return X @ Z.T


def test_the_learner_gets_as_many_neighbours_as_it_asks_for():
    """Also where the shortlist is longer."""
    X, y = blobs(n=200)
    learner = SLNE.paper(n_neighbors=10, max_epochs=2, random_state=0)
    inside = SoftVotingKNN(learner, n_neighbors=60, vote="power").fit(X, y).similarity_.matrix_
    np.testing.assert_array_equal(inside, learner.fit(X, y).matrix_)


@pytest.mark.parametrize("csls", [0.0, 0.5])
def test_added_rows_vote_as_if_they_had_always_been_there(csls):
    X, y = blobs(n=400, classes=6)
    names = np.array(["a", "bb", "ccc", "dddd", "eeeee", "ffffff"])[y]
    first = np.flatnonzero(y < 4)[:150]  # two classes, and longer names, come later
    rest = np.setdiff1d(np.arange(300), first)
    prepare = Preprocess(8).fit(X[first])
    learner = SLNE.paper(max_epochs=2, random_state=0)
    learner.fit(prepare.transform(X[first]), y[first])
    settings = {"preprocess": prepare, "vote": Vote("power", csls=csls), "n_neighbors": 20}
    model = SoftVotingKNN(learner, **settings).fit(X[first], names[first])
    assert len(model.classes_) == 4
    matrix = learner.matrix_.copy()
    model.predict(X[:2])  # builds an index, which must not be used any more
    half = len(rest) // 2
    model.add(X[rest[:half]], names[rest[:half]]).add(X[rest[half:]], names[rest[half:]])
    order = np.concatenate([first, rest])
    fresh = SoftVotingKNN(learner, **settings).fit(X[order], names[order])
    np.testing.assert_array_equal(model.classes_, fresh.classes_)
    # Rows preprocessed in other portions differ in the last bit.
    one, two = (m.predict_proba(X[300:]) for m in (model, fresh))
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    one, two = (np.sort(m.kneighbors(X[300:])[1]) for m in (model, fresh))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(learner.matrix_, matrix)
    votes = np.zeros((100, 6))  # the same by hand
    Z, Q = prepare.transform(X[order]), prepare.transform(X[300:])
    S = Q @ matrix @ Z.T - model.csls_bias_
    for i, q in enumerate(Q):
        near = np.argsort(np.linalg.norm(Z - q, axis=1))[:20]
        s = S[i, near]
        np.add.at(votes[i], y[order][near], np.sign(s) * np.abs(s / np.abs(s).max()) ** 4)
    assert (model.classes_[votes.argmax(1)] == model.predict(X[300:])).mean() >= 0.99


def test_adding_to_a_loaded_model_and_what_cannot_be_added(tmp_path):
    X, y = blobs(n=100)
    model = SoftVotingKNN(None, vote="power").fit(X[:80], y[:80])
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m").add(X[80:], y[80:])
    assert len(again.database_) == 100
    again.save(tmp_path / "m")  # over the file that the old rows are mapped from
    assert len(nearkin.load(tmp_path / "m").database_) == 100
    for rows, labels, message in [
        (X[:1], ["owl"], "where earlier labels are int"),
        (X[:1, :3], [0], "3 features"),
        (X[:2], [0], "inconsistent"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.add(rows, labels)
    with pytest.raises(NotFittedError):
        SoftVotingKNN(None).add(X, y)
    assert len(model.database_) == 80


def test_without_a_similarity_it_is_plain_k_nearest_neighbours():
    """Also where rows differ in length, of which inner products would prefer the long ones."""
    X, y = load_digits(return_X_y=True)
    plain = SoftVotingKNN(None, n_neighbors=5, vote=Vote("top", 5)).fit(X[:1200], y[:1200])
    nearest_one = X[plain.kneighbors(X[1200:], 1)[1][:, 0]]
    theirs = NearestNeighbors(n_neighbors=1).fit(X[:1200]).kneighbors(X[1200:])[0]
    np.testing.assert_allclose(np.linalg.norm(X[1200:] - nearest_one, axis=1), theirs[:, 0])
    assert plain.score(X[1200:], y[1200:]) > 0.95


def test_without_a_similarity_unit_rows_have_their_cosine():
    X, y = blobs(n=200)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores, indices = SoftVotingKNN(None, vote="power").fit(unit, y).kneighbors(unit[:20], 7)
    expected = np.einsum("nd,nkd->nk", unit[:20], unit[indices])
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_classes_without_votes_are_ranked_by_similarity():
    scores = np.array([[0.9, 0.8, 0.7, 0.2, 0.1]], np.float32)
    labels = np.array([[5, 5, 5, 3, 1]])
    tally = Vote("top", 3).tally(scores, labels, 6)[0]
    assert np.argsort(-tally, kind="stable").tolist() == [5, 3, 1, 0, 2, 4]
    assert probabilities(tally[None])[0, 5] == pytest.approx(1)


def test_nothing_is_left_of_an_earlier_fit():
    X, y = blobs(n=80)
    model = SoftVotingKNN(None, n_neighbors=10).fit(X, y)
    assert hasattr(model, "calibration_accuracy_")
    model.set_params(vote="power").fit(X, y)
    assert not hasattr(model, "calibration_accuracy_")


def test_held_out_rows_do_not_vote_for_themselves():
    """Lists as other tools give them begin with the row itself."""
    X, _ = blobs(n=300)
    y = np.random.default_rng(0).integers(0, 3, 300)  # nothing to learn
    lists = nearest(X, 7)[1]
    with_self = np.c_[np.arange(300, dtype=np.int32), lists]
    model = SoftVotingKNN(None, random_state=0)
    assert model.fit(X, y, neighbors=with_self).calibration_accuracy_ < 0.6
    model = SoftVotingKNN(None, vote=Vote("power", csls=0.5))
    biases = [model.fit(X, y, neighbors=n).csls_bias_ for n in (lists, with_self)]
    np.testing.assert_allclose(*biases, rtol=1e-5)


@pytest.mark.parametrize("form", [np.uint8, np.uint16, np.int64, list, pd.DataFrame])
def test_lists_of_any_form_give_the_same_model(form):
    X, y = blobs(n=256)
    lists = nearest(X, 7)[1]
    given = {list: lists.tolist(), pd.DataFrame: pd.DataFrame(lists)}.get(form)
    given = lists.astype(form) if given is None else given

    def fit(neighbors):
        learner = SLNE.paper(max_epochs=2, tol=0)
        return SoftVotingKNN(learner, n_neighbors=5, random_state=0).fit(X, y, neighbors=neighbors)

    one, other = fit(lists), fit(given)
    np.testing.assert_array_equal(one.similarity_.matrix_, other.similarity_.matrix_)
    assert one.vote_ == other.vote_


def test_parts_that_are_fitted_are_used_as_they_are():
    X, y = blobs(n=120)
    prepared = Preprocess(3).fit(X)
    pipeline = make_pipeline(StandardScaler(), Preprocess(3)).fit(2 * X)
    for part in (prepared, FrozenEstimator(prepared), pipeline):
        model = SoftVotingKNN(None, preprocess=part, vote="top").fit(X, y)
        np.testing.assert_array_equal(model.database_, part.transform(X))
    learner = FrozenEstimator(SLNE.paper(max_epochs=1).fit(X, y))
    assert SoftVotingKNN(learner, vote="top").fit(X, y).similarity_ is learner


def test_a_learner_whose_fit_has_failed_is_not_fitted():
    X, y = blobs(n=80)
    learner = SLNE.paper(max_epochs=1)
    with pytest.raises(ValueError, match="one class"):
        learner.fit(X, np.zeros(80))
    model = SoftVotingKNN(learner, vote="top").fit(X, y)
    assert model.similarity_.matrix_.shape == (12, 12)


def test_preprocessing_that_stays_sparse():
    X, y = blobs(n=80)
    model = SoftVotingKNN(None, preprocess=MaxAbsScaler(), vote="top").fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.database_, X / np.abs(X).max(axis=0), rtol=1e-6)


def test_probabilities_keep_the_order_of_the_votes():
    votes = np.array([[1e-12, 9e-12, -1, 0], [-1, -2, -3, -np.inf], [0, 0, 0, 0]], np.float32)
    shares = probabilities(votes)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    assert np.argsort(-shares[0], kind="stable").tolist() == [1, 0, 3, 2]
    assert np.argsort(-shares[1], kind="stable")[:3].tolist() == [0, 1, 2]
    assert shares[2].tolist() == [0.25] * 4


def test_of_very_many_voters_the_majority_wins():
    labels = np.r_[np.zeros(2_400, int), np.ones(2_401, int)][None]
    scores = np.linspace(1, 0, 4_801, dtype=np.float32)[None]
    assert Vote("top", 5_000).tally(scores, labels, 2).argmax() == 1


def test_bad_settings_of_the_search():
    X, y = blobs(n=80)
    with pytest.raises(ValueError, match=r"index=3 must be a string"):
        SoftVotingKNN(None, index=3, vote="top").fit(X, y)
    for wrong in ("5", 2.5):
        with pytest.raises(ValueError, match=r"similarity\.n_neighbors=.* must be a whole number"):
            SoftVotingKNN(SLNE.paper(n_neighbors=wrong)).fit(X, y)


def test_rows_that_are_added_count_for_the_scale():
    X, y = blobs(n=200)
    model = SoftVotingKNN(None, vote="power").fit(X[:100], y[:100]).add(3 * X[100:], y[100:])
    whole = SoftVotingKNN(None, vote="power").fit(np.r_[X[:100], 3 * X[100:]], y)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("vote", ["similarity", "power", "softmax", "top"])
@pytest.mark.parametrize("sharpness", [1e-37, 1e-30, 1e30, 1e37])
@pytest.mark.parametrize("csls", [0, 10])
def test_extreme_votes_give_probabilities(vote, sharpness, csls):
    X, y = blobs(n=80)
    p = (
        SoftVotingKNN(None, vote=Vote(vote, sharpness, csls), n_neighbors=9)
        .fit(X, y)
        .predict_proba(X)
    )
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("sharpness", [1e-320, 1e300, 0, np.nan, True])
def test_sharpness_beyond_float32(sharpness):
    with pytest.raises(ValueError, match=r"sharpness=.* must be a (finite )?number >= 1e-37"):
        Vote("softmax", sharpness)


def test_huge_weights_of_csls():
    with pytest.raises(ValueError, match=r"csls=1e\+38 must be a number >= 0 and <= 10"):
        Vote("power", csls=1e38)


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_similarities_that_are_no_numbers(score):
    class Odd:
        def similarity(self, X, Z):
            return np.full((len(X), len(Z)), score)

    X, y = blobs(n=80)
    with pytest.raises(ValueError, match="similarities hold NaN or infinity"):
        SoftVotingKNN(Odd(), vote="power").fit(X, y).predict_proba(X)


def test_numbers_of_a_short_type():
    """Bytes of memory are not counted in eight bits."""
    X, y = blobs(n=300)
    model = SoftVotingKNN(None, n_neighbors=np.uint8(255), vote="top").fit(X, y)
    expected = SoftVotingKNN(None, n_neighbors=255, vote="top").fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_a_prediction_reads_no_stored_row_but_the_voters():
    """Millions of rows on disk must not be read for every query."""
    X, y = blobs(n=80)
    model = SoftVotingKNN(SLNE.paper(n_neighbors=5), n_neighbors=5, vote="power").fit(X, y)
    expected, voters = model.predict_proba(X[:1]), model.kneighbors(X[:1])[1]
    model.database_ = np.where(np.isin(np.arange(80), voters)[:, None], X, np.nan).astype("f4")
    np.testing.assert_array_equal(model.predict_proba(X[:1]), expected)


def test_bad_lists_are_refused_before_anything_is_chosen(monkeypatch):
    X, y = blobs(n=60)

    def choose(*_):
        pytest.fail("a choice was made")

    monkeypatch.setattr("nearkin.selection.automatic.select_parts", choose)
    for neighbors, message in ((np.full((60, 3), 60), "60"), (np.zeros((59, 3), int), "59")):
        with pytest.raises(ValueError, match=f"neighbors.*{message}"):
            SoftVotingKNN().fit(X, y, neighbors=neighbors)


def test_new_labels_of_another_kind_are_refused():
    X, y = blobs(n=60, dims=4)
    model = SoftVotingKNN(None, preprocess=None, vote="softmax").fit(X, y)
    for other in (np.array(["2020-01-01"], "M8[D]"), np.array([3], "m8[s]"), np.array(["a"])):
        with pytest.raises(ValueError, match="give labels of one kind"):
            model.add(X[:1], other)
