"""A choice on a sample, settled with all rows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA

import nearkin
from nearkin import (
    SLNE,
    FourierFeatures,
    Preprocess,
    RunFolder,
    Selection,
    SoftVotingKNN,
    WithinClassWhitening,
)
from nearkin.learning.classifier_fit import ClassifierFit
from nearkin.learning.memory import check_classifier
from nearkin.native.threads import limited
from nearkin.neighbors import nearest
from nearkin.selection import automatic, full_size
from nearkin.selection.full_size import Contender
from nearkin.selection.search import Search
from nearkin.selection.splits import Prepared
from nearkin.voting.parts import Parts, Unsettled
from nearkin.voting.votes import Vote
from samples import blobs


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """Samples of at most 120 rows."""
    for name in ("ONE_SAMPLE", "FIRST_ROWS", "SECOND_ROWS"):
        monkeypatch.setattr(automatic, name, (100, 120))


def board(n, seed=0):
    """Rows of a square, labelled as a chessboard: only near rows tell."""
    X = np.random.default_rng(seed).random((n, 2), dtype=np.float32) * 8
    return X, np.floor(X).astype(int).sum(axis=1) % 2


def at_full_size(model, n):
    return [trial for trial in model.trials_ if trial["rows"] > n // 2]


def test_plain_neighbours_win_where_all_rows_are_near():
    X, y = board(3_000)
    model = SoftVotingKNN(random_state=0).fit(X, y)
    Q, truth = board(1_000, seed=1)
    plain = SoftVotingKNN(None, preprocess=None, vote=Vote("top", 1.0)).fit(X, y)
    assert model.score(Q, truth) >= plain.score(Q, truth) - 0.01
    *among_all, _, last = found = at_full_size(model, 3_000)
    names = [trial["preprocess"] for trial in found]
    assert names == ["None", "UnitLength()", among_all[2]["preprocess"], "UnitLength()", "None"]
    assert [trial["learner"] is None for trial in among_all] == [True, True, False]
    assert last is model.trials_[-1]
    assert model.similarity_ is None


def test_nothing_is_learned_from_all_rows_where_plain_neighbours_win(monkeypatch):
    sizes, fit = [], SLNE.fit

    def noted(self, X, y, **given):
        sizes.append(len(X))
        return fit(self, X, y, **given)

    monkeypatch.setattr(SLNE, "fit", noted)
    SoftVotingKNN(random_state=0).fit(*board(3_000))
    assert max(sizes) <= 120
    with monkeypatch.context() as patch:
        patch.setattr("nearkin.selection.search.CLEARLY", 1e6)  # never beyond chance
        SoftVotingKNN(random_state=0).fit(*board(3_000))
    assert max(sizes) == 3_000
    sizes.clear()
    monkeypatch.setattr("nearkin.selection.search.MOST_COPIED", 0)  # then a fit decides
    model = SoftVotingKNN(random_state=0).fit(*board(3_000))
    assert max(sizes) == 3_000
    assert len(at_full_size(model, 3_000)) == 3  # as they are, by cosine, and learned


@pytest.mark.parametrize(("gain", "ahead"), [(0.0, False), (0.3, False), (3.0, True), (-3, False)])
def test_ahead_beyond_chance_by_a_paired_test(gain, ahead):
    """One candidate loses less than another by so many standard errors."""
    X, y = board(200)
    sample = Search(
        X, y, None, Selection(), 0, held_out=20, wide=False, n_rows=200,
        row_numbers=np.arange(200), given=False,
    )  # fmt: skip
    one = sample.plain(None)
    noise = np.random.default_rng(0).normal(size=len(one.chosen.losses))
    noise = (noise - noise.mean()) / noise.std()
    lost = one.chosen.losses + noise + gain / np.sqrt(len(noise))
    other = replace(one, score=one.score - gain, chosen=one.chosen._replace(losses=lost))
    assert scipy.stats.ttest_rel(lost, one.chosen.losses).statistic == pytest.approx(gain, abs=0.2)
    assert sample.clearly_ahead(one, other) == ahead


def test_plain_neighbours_far_behind_are_out_of_the_running():
    """Two columns tell the classes apart, ten louder ones do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1_000)
    X = np.c_[np.eye(3)[y][:, :2] * 4, 5 * rng.normal(size=(1_000, 10))]
    X[:, :2] += rng.normal(size=(1_000, 2))
    model = SoftVotingKNN(random_state=0).fit(X, y)
    settled = [trial for trial in model.trials_ if 890 < trial["rows"] < 910]
    assert [trial["learner"] is None for trial in settled] == [False]
    assert model.similarity_ is not None


def test_all_other_rows_vote_on_the_held_out_ones():
    X, y = board(1_000)
    at = np.random.default_rng(0).permutation(1_000)[:100]
    sample = Search(
        X[at], y[at], None, Selection(), 0, held_out=20, wide=False, n_rows=1_000, row_numbers=at,
        given=False,
    )  # fmt: skip
    whole = sample.among_all(X, y)
    (split,) = whole.splits
    others = np.setdiff1d(np.arange(1_000), sample.held_numbers)
    np.testing.assert_array_equal(split.kept, X[others])
    np.testing.assert_array_equal(split.queries, X[np.sort(sample.held_numbers)])
    assert sorted(split.queries.tolist()) == sorted(sample.splits[0].queries.tolist())
    distances = np.linalg.norm(split.queries[:, None] - split.kept, axis=2)
    near = split.prepare(None, 5).near
    np.testing.assert_array_equal(near, np.argsort(distances, axis=1)[:, :5])


@pytest.mark.parametrize(("columns", "wide"), [(79, False), (80, True), (200, True)])
def test_rows_to_learn_from_say_what_is_wide(columns, wide):
    """Of 100 rows a fifth is held out."""
    X, y = np.random.default_rng(0).random((100, columns), np.float32), np.arange(100) % 4
    found = automatic.draw_search(X, y, None, Selection(), 0, False, [], np.inf, 20)
    assert found.wide == wide


@pytest.mark.parametrize(("columns", "asked"), [(4, True), (400, False)])
def test_class_means_are_refined_only_where_rows_outnumber_columns(monkeypatch, columns, asked):
    refined = []
    scores = Prepared.refined_scores
    monkeypatch.setattr(
        Prepared, "refined_scores", lambda *given: refined.append(1) or scores(*given)
    )
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, columns)).astype(np.float32), np.arange(120) % 3
    X[:, 0] += y
    SoftVotingKNN(random_state=0).fit(X, y)
    assert bool(refined) == asked


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_learners_side_by_side_are_those_one_by_one(threads):
    X, _ = blobs(n=200, dims=6)
    y = np.random.default_rng(0).integers(0, 3, 200)  # much to learn, so that the last diverges
    sample = Search(
        X, y, None, Selection(), 0, held_out=40, wide=False, n_rows=200,
        row_numbers=np.arange(200), given=False,
    )  # fmt: skip
    start = sample.start | {"n_neighbors": 10}
    options = [
        (Preprocess(4), start),
        (Preprocess(3), start),
        (Preprocess(4), start | {"n_neighbors": 20}),
        (None, start),
        (None, start | {"step_size": 3e38}),
    ]
    with limited(1):
        alone = [sample.learned(*option).describe() for option in options]
    with limited(threads):
        together = [found.describe() for found in sample.learned_each(iter(options))]
    assert together == alone
    assert [trial["learner"] is None for trial in alone] == [False] * 4 + [True]
    assert len(sample.trials) == 2 * len(options)


def test_what_was_chosen_is_what_votes():
    X, y = board(1_000)
    model = SoftVotingKNN(random_state=0).fit(X, y)
    best = model.trials_[-1]
    assert (model.n_neighbors_, model.vote_) == (best["n_neighbors"], best["vote"])
    assert repr(model.preprocess_).split() == best["preprocess"].split()
    assert (model.similarity_ is None) == (best["learner"] is None)
    assert f"{best['log_loss']:.4f}" in model.report_
    assert len(model.database_) == 1_000  # the held-out rows vote, too


def test_rows_are_held_out_once_and_groups_together(monkeypatch):
    seen = []

    def settle(model, unsettled, rows, lists):
        seen.append(unsettled.held)

    monkeypatch.setattr("nearkin.classifier.settle", settle)
    X, y = blobs(n=400, dims=4)
    SoftVotingKNN(random_state=0).fit(X, y, groups=np.arange(400) // 8)
    assert len(seen) == 1
    by_group = seen[0].reshape(50, 8)
    assert (by_group.all(axis=1) | ~by_group.any(axis=1)).all()
    assert 0 < seen[0].sum() <= 40


def near_copies(n_groups, seed):
    """Eight rows close to each other in each group, of three classes that overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_groups)
    middles = rng.normal(size=(n_groups, 6)) + 1.2 * np.eye(3, 6)[y]
    X = np.repeat(middles, 8, axis=0) + 0.01 * rng.normal(size=(8 * n_groups, 6))
    return X.astype(np.float32), np.repeat(y, 8), np.repeat(np.arange(n_groups), 8)


def test_rows_of_a_group_do_not_vote_on_each_other():
    X, y, groups = near_copies(200, 0)
    model = SoftVotingKNN(random_state=0).fit(X, y, groups=groups)
    Q, truth, _ = near_copies(200, 1)
    assert model.score(Q, truth) < 0.8  # of new groups
    assert model.trials_[-1]["accuracy"] < 0.9  # 1 by copies that know the label


def test_voters_of_other_groups_come_first():
    held = np.array([True, False, True, False, False])
    unsettled = Unsettled(held, [], "classification", np.array([0, 0, 1, 1, 2]))
    voters = np.array([[1, 2, 4], [3, 0, 4]], np.int32)  # of rows 0 and 2
    assert full_size._of_others(voters, unsettled).tolist() == [[2, 4, -1], [0, 4, -1]]


def noisy_board(n):
    X, y = board(n)
    return np.hstack([X, np.random.default_rng(1).normal(size=(n, 4))]).astype(np.float32), y


def test_what_is_given_stays_as_it_is():
    """On two samples, with plain neighbours contending and with a seed that is unset."""
    X, y = noisy_board(1_000)
    for given in (PCA(4), FourierFeatures(Preprocess(4), n_features=20)):
        model = SoftVotingKNN(preprocess=given, random_state=0).fit(X, y)
        assert {type(given).__name__} == {t["preprocess"].split("(")[0] for t in model.trials_}
        known = given.get_params(deep=False) | {"random_state": None, "preprocess": None}
        used = model.preprocess_.get_params(deep=False)
        assert known == used | {"random_state": None, "preprocess": None}


def test_a_matrix_is_judged_in_the_space_that_it_was_learned_in():
    """Though plain neighbours among all rows were prepared by directions of their own."""
    X, y = noisy_board(1_000)
    given = PCA(4, random_state=0)
    sample = automatic.draw_search(X, y, None, Selection(), 0, True, [], 400, 100)
    whole, candidate = sample.among_all(X, y), sample.learned(given, sample.start)
    apart = sample.among_more(candidate, sample.among_all(X, y))
    whole.plain(given)
    assert sample.among_more(candidate, whole).score == apart.score


def test_rows_that_suffice_are_not_settled_again():
    X, y = blobs(n=140, dims=4)
    model = SoftVotingKNN(random_state=0).fit(X, y)
    assert max(trial["rows"] for trial in model.trials_) < 130


@pytest.mark.parametrize(
    "given", [{"vote": "softmax"}, {"selection": Selection("precision", for_index=True)}]
)
def test_what_is_given_stays(given):
    X, y = blobs(n=300, dims=4)
    model = SoftVotingKNN(random_state=0, **given).fit(X, y)
    assert not at_full_size(model, 300)


def test_a_shortlist_that_is_given_stays():
    X, y = board(1_000)
    model = SoftVotingKNN(n_neighbors=7, random_state=0).fit(X, y)
    assert model.n_neighbors_ == 7
    settled = [trial for trial in model.trials_ if trial["rows"] == model.trials_[-1]["rows"]]
    assert {trial["n_neighbors"] for trial in settled} == {7}


class Labelled(TransformerMixin, BaseEstimator):
    """A transformer that keeps the labels it was fitted with, and does not say so."""

    def fit(self, X, y):
        self.rows_, self.labels_ = np.asarray(X), np.asarray(y)
        return self

    def transform(self, X):
        return X


def fitted(y, held, preprocess, folder=None):
    """A model after learning, before anything is settled."""
    X, _ = blobs(n=200, dims=5)
    vote = Vote("softmax", class_weight=0.5, refinement=0.5)
    learner = SLNE(n_neighbors=10, prepare=None, max_epochs=2, random_state=0)
    parts = Parts(learner, preprocess, 20, vote, None, Unsettled(held, [], "classification"))
    model = SoftVotingKNN()
    work = ClassifierFit(model, X, y, parts, None, None)
    work.learn(folder or RunFolder.nowhere(), np.random.RandomState(0))
    return model, work


def test_labels_of_held_out_rows_fit_nothing():
    X, y = blobs(n=200, dims=5)
    held = np.random.default_rng(0).random(200) < 0.2
    other = np.where(held, y[::-1], y)
    assert (other[held] != y[held]).any()
    one, two = (fitted(labels, held, WithinClassWhitening())[0] for labels in (y, other))
    np.testing.assert_array_equal(one.preprocess_.map_, two.preprocess_.map_)
    np.testing.assert_array_equal(one.similarity_.matrix_, two.similarity_.matrix_)
    by_hand = clone(WithinClassWhitening()).fit(X[~held], y[~held])
    np.testing.assert_array_equal(one.preprocess_.map_, by_hand.map_)
    judged = [Contender(m, Unsettled(held, [], ""), nearest(m.database_, 20)[1][held])
              for m in (one, two)]  # fmt: skip
    np.testing.assert_array_equal(judged[0].class_scores, judged[1].class_scores)
    np.testing.assert_array_equal(one.class_offsets_, two.class_offsets_)
    known = fitted(y, held, Labelled())[0].preprocess_
    np.testing.assert_array_equal(known.rows_, X[~held])
    np.testing.assert_array_equal(known.labels_, y[~held])


def test_class_scores_by_hand():
    """Means of the other rows, and offsets refined on these alone."""
    _, y = blobs(n=200, dims=5)
    held = np.random.default_rng(0).random(200) < 0.2
    model, work = fitted(y, held, WithinClassWhitening())
    contender = Contender(model, Unsettled(held, [], ""), work.lists[held])
    Z, M = model.database_, model.similarity_.matrix_
    sums = np.stack([Z[~held & (model.labels_ == c)].sum(axis=0) for c in range(y.max() + 1)])
    means = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    expected = Z[held] @ (means @ M.T + model.class_offsets_).T
    np.testing.assert_allclose(contender.class_scores, expected, rtol=1e-4, atol=1e-4)


def test_saved_resumed_and_the_same_with_any_number_of_threads(tmp_path):
    X, y = blobs(n=400, dims=4)
    Q = blobs(n=50, dims=4, seed=3)[0]
    model = SoftVotingKNN(random_state=0).fit(X, y, folder=tmp_path / "run")
    assert at_full_size(model, 400)
    model.save(tmp_path / "m")
    again = SoftVotingKNN(random_state=0).fit(X, y, folder=tmp_path / "run")
    with limited(1):
        alone = SoftVotingKNN(random_state=0).fit(X, y)
        for other in (nearkin.load(tmp_path / "m"), again, alone):
            np.testing.assert_array_equal(other.predict_proba(Q), model.predict_proba(Q))


def test_copies_of_rows_are_part_of_the_memory_that_is_checked(monkeypatch):
    stages = {}
    monkeypatch.setattr(
        "nearkin.validation.memory.check", lambda _, needed, __: stages.update(needed)
    )
    X, held = np.zeros((1_000, 50), np.float32), np.arange(1_000) < 100
    for unsettled in (None, Unsettled(held, [None], "classification")):
        parts = Parts(SLNE(), WithinClassWhitening(), 20, Vote("softmax"), None, unsettled)
        before = dict(stages)
        check_classifier(X, parts, "auto", False)
    assert stages["preprocessing"] == before["preprocessing"] + X.nbytes
    assert "plain neighbours" not in before
    assert stages["plain neighbours"] > 2 * X.nbytes  # the prepared rows, and those as they are


def test_starts_are_ranked_on_few_rows_with_less_learning():
    X, y = board(1_000)
    trials = [t for t in SoftVotingKNN(random_state=0).fit(X, y).trials_ if t["learner"]]
    ranked = [t for t in trials if (t["epochs"], t["learner"]["n_neighbors"]) == (1, "30")]
    assert len(ranked) >= 8
    assert trials[: len(ranked)] == ranked
    assert trials[len(ranked)]["learner"]["n_neighbors"] == "50"
