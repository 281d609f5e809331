"""SoftVotingKNN(), which chooses everything on held-out rows."""

import contextlib
import io

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearkin
from cutting import cut_at
from nearkin import Preprocess, Selection, SoftVotingKNN, UnitLength, Vote
from nearkin.learning import trainer
from nearkin.native.threads import limited
from samples import blobs


@pytest.fixture(scope="module")
def chosen():
    """A model and its rows."""
    X, y = blobs(n=80, dims=4)
    return SoftVotingKNN(random_state=0).fit(X, y), X, y


def without_seconds(trials):
    return [{k: v for k, v in trial.items() if k != "seconds"} for trial in trials]


@pytest.mark.slow
@parametrize_with_checks([SoftVotingKNN()])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(estimator, check):
    check(estimator)


def test_what_was_chosen_is_what_was_fitted(chosen):
    model, X, y = chosen
    best = model.trials_[-1]
    assert (model.n_neighbors_, model.vote_) == (best["n_neighbors"], best["vote"])
    assert repr(model.preprocess_).split() == best["preprocess"].split()
    assert (model.similarity_ is None) == (best["learner"] is None)
    assert best["score"] == max(trial["score"] for trial in model.trials_)
    for part in ("judged by classification", best["preprocess"], f"{best['log_loss']:.4f}"):
        assert part in model.report_
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize("threads", [1, 2])
def test_one_seed_chooses_the_same_with_any_number_of_threads(chosen, threads):
    model, X, y = chosen
    with limited(threads):
        again = SoftVotingKNN(random_state=0).fit(X, y)
        assert without_seconds(again.trials_) == without_seconds(model.trials_)
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_prepared_rows_that_are_kept_do_not_change_the_choice(chosen, monkeypatch):
    model, X, y = chosen
    monkeypatch.setattr("nearkin.selection.search.KEPT_BYTES", 0)  # none is
    again = SoftVotingKNN(random_state=0).fit(X, y)
    assert without_seconds(again.trials_) == without_seconds(model.trials_)


def test_saved_and_loaded(chosen, tmp_path):
    model, X, _ = chosen
    model.save(tmp_path / "m")
    again = nearkin.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert (again.report_, again.vote_) == (model.report_, model.vote_)
    assert again.get_params() == model.get_params()


def test_a_fit_in_a_folder_resumes_with_the_same_choice(tmp_path):
    """Also without a seed: the folder keeps the one that was drawn."""
    X, y = blobs(n=40, dims=4)
    models = [SoftVotingKNN(preprocess=None).fit(X, y, folder=tmp_path) for _ in range(2)]
    one, two = (model.predict_proba(X) for model in models)
    np.testing.assert_array_equal(one, two)


def test_shuffled_labels_are_chosen_at_chance():
    """Whatever has seen the labels of held-out rows would tell them apart: so many columns."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(160, 60)), np.arange(160) % 2
    trials = SoftVotingKNN(random_state=0).fit(X, y).trials_
    assert any("WithinClassWhitening" in trial["preprocess"] for trial in trials)
    assert all(0.3 < trial["accuracy"] < 0.66 for trial in trials)
    assert trials[-1]["log_loss"] > np.log(2) - 0.06


class Telltale(TransformerMixin, BaseEstimator):
    """Adds a column that gives the label of every row that it was fitted on, and 0 for others."""

    def fit(self, X, y):
        self.known_ = {row.tobytes(): label for row, label in zip(X, y)}
        return self

    def transform(self, X):
        told = [self.known_.get(row.tobytes()) for row in X]
        return np.c_[X, [0.0 if label is None else 9.0 - 18 * (label == 0) for label in told]]


def test_a_preprocessing_that_learns_from_labels_never_sees_the_held_out_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), np.arange(100) % 2
    trials = SoftVotingKNN(preprocess=Telltale(), random_state=0).fit(X, y).trials_
    assert all(0.25 < trial["accuracy"] < 0.75 for trial in trials)


def test_groups_are_held_out_together():
    """Random labels of near-duplicate pairs: one of a pair gives the other away."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(150, 8)), 2, axis=0) + 1e-3 * rng.normal(size=(300, 8))
    y, groups = np.repeat(np.arange(150) % 2, 2), np.repeat([f"film {i}" for i in range(150)], 2)
    flattered = SoftVotingKNN(random_state=0).fit(X, y).trials_[-1]
    honest = SoftVotingKNN(random_state=0).fit(X, y, groups=groups).trials_[-1]
    assert flattered["accuracy"] > 0.75
    assert honest["accuracy"] < 0.68


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(60), "one group for all rows"),
        (np.arange(59), r"groups has shape \(59,\); one entry for each of the 60 rows"),
        (np.arange(60) % 2, "without those that are held out, the rows are of one class"),
    ],
)
def test_groups_that_cannot_be_held_out(groups, message):
    X, y = blobs(n=60, dims=4)[0], np.arange(60) % 2
    with pytest.raises(ValueError, match=message):
        SoftVotingKNN().fit(X, y, groups=groups)


def test_no_worse_than_plain_neighbours_where_nothing_can_be_learned():
    """Round classes of equal size: Euclidean neighbours are as good as it gets."""
    rng = np.random.default_rng(0)
    centres, y = 2 * rng.normal(size=(3, 4)), rng.integers(0, 3, 600)
    X = centres[y] + rng.normal(size=(600, 4))
    model = SoftVotingKNN(random_state=0).fit(X[:150], y[:150])
    plain = SoftVotingKNN(None, random_state=0).fit(X[:150], y[:150])
    assert model.trials_[-1]["score"] >= model.trials_[0]["score"]
    assert model.score(X[150:], y[150:]) > plain.score(X[150:], y[150:]) - 0.03


def test_learning_that_helps_is_chosen():
    """Two columns tell the classes apart, twenty louder ones do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    X = np.c_[np.eye(3)[y][:, :2] * 4 + rng.normal(size=(500, 2)), 9 * rng.normal(size=(500, 20))]
    model = SoftVotingKNN(random_state=0).fit(X[:200], y[:200])
    plain = SoftVotingKNN(None, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > plain.score(X[200:], y[200:]) + 0.2


@pytest.mark.parametrize("scoring", ["precision", "accuracy", "average_precision"])
def test_other_scorings(scoring):
    X, y = blobs(n=260, dims=4, spread=0.9)
    model = SoftVotingKNN(preprocess=None, selection=Selection(scoring), random_state=0)
    model.fit(X[:60], y[:60])
    assert f"judged by {scoring.replace('_', ' ')} on" in model.report_
    raw = SoftVotingKNN(None, vote="power").fit(X[:60], y[:60])
    found = [(y[:60][m.kneighbors(X[60:], 10)[1]] == y[60:, None]).mean() for m in (model, raw)]
    assert found[0] > found[1] - 0.03


@pytest.mark.parametrize(("classes", "tried"), [(15, False), (1, False), (3, True)])
def test_thirty_rows(classes, tried):
    """Two rows a class, and one class, leave nothing to choose on."""
    X, y = blobs(n=30, dims=4)[0], np.arange(30) % classes
    model = SoftVotingKNN(random_state=0).fit(X, y)
    assert bool(model.trials_) == tried
    assert tried or "too few rows to choose on" in model.report_
    assert set(model.predict(X)) <= set(y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("counts", [(3, 3, 1, 1, 1, 1, 1), (4, 3, 3), (20, 3), (11, 1, 1)])
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_classes_of_very_different_sizes(counts):
    y = np.repeat(np.arange(len(counts)), counts)
    X = blobs(n=len(y), dims=4)[0]
    model = SoftVotingKNN(preprocess=None, random_state=0).fit(X, y)
    assert set(model.predict(X)) <= set(y)
    assert all(np.isfinite(trial["log_loss"]) for trial in model.trials_)


def test_no_warning_of_numbers_that_nobody_gave(recwarn):
    X, y = blobs(n=40, dims=4)
    SoftVotingKNN(random_state=0).fit(X, y).predict(X)
    assert not list(recwarn)


def test_one_row_is_refused():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        SoftVotingKNN().fit([[1.0, 2.0]], [0])


@pytest.mark.parametrize("form", ["strings", "sparse", "memmap", "float64"])
def test_rows_and_labels_of_any_form_choose_the_same(chosen, tmp_path, form):
    model, X, y = chosen
    names = np.array(["a", "bb", "ccc", "d"])  # in the order of the numbers
    given = {"sparse": sparse.csr_array(X), "float64": X.astype(float)}.get(form, X)
    if form == "memmap":
        np.save(tmp_path / "X.npy", X)
        given = np.load(tmp_path / "X.npy", mmap_mode="r")
    labels = names[y] if form == "strings" else y
    again = SoftVotingKNN(random_state=0).fit(given, labels)
    assert again.vote_.kind == model.vote_.kind
    np.testing.assert_allclose(again.predict_proba(given), model.predict_proba(X), atol=1e-3)
    assert again.predict(given[:1])[0] in labels


def test_half_precision_rows():
    X, y = blobs(n=40, dims=4)
    model = SoftVotingKNN(random_state=0).fit(X.astype(np.float16), y)
    assert model.score(X.astype(np.float16), y) > 0.7


def test_sparse_rows_without_a_preprocessing():
    """Too few rows to choose on: rows stay as they are."""
    X = np.round(3 * blobs(n=12, dims=5)[0])
    y = np.arange(12) // 2
    model = SoftVotingKNN().fit(sparse.csr_array(X), y)
    assert model.preprocess_ is None
    np.testing.assert_array_equal(model.database_, X)
    np.testing.assert_array_equal(model.predict(sparse.csr_array(X)), model.predict(X))
    np.testing.assert_array_equal(model.add(sparse.csr_array(X), y).database_, np.r_[X, X])


@pytest.mark.parametrize("preprocess", [None, UnitLength(), Preprocess(), Preprocess(50)])
def test_a_preprocessing_that_is_given_is_kept(preprocess):
    X, y = blobs(n=60, dims=55)  # a split keeps fewer rows than there are columns
    model = SoftVotingKNN(preprocess=preprocess, random_state=0).fit(X, y)
    assert {trial["preprocess"] for trial in model.trials_} == {repr(model.preprocess_)}
    assert type(model.preprocess_) is type(preprocess)
    for name, value in ({} if preprocess is None else preprocess.get_params()).items():
        assert value == getattr(model.preprocess_, name) or name == "random_state"  # seeded
    few = SoftVotingKNN(preprocess=preprocess).fit(X, np.arange(60) // 2)
    assert type(few.preprocess_) is type(preprocess)


def test_a_fitted_preprocessing_is_used_as_it_is():
    X, y = blobs(n=40, dims=6)
    prepare = Preprocess(3).fit(X[:10] + 1)
    model = SoftVotingKNN(preprocess=prepare, random_state=0).fit(X, y)
    assert model.preprocess_ is prepare
    same = SoftVotingKNN(preprocess=None, random_state=0).fit(prepare.transform(X), y)
    assert [t["log_loss"] for t in model.trials_] == [t["log_loss"] for t in same.trials_]


def test_a_vote_and_a_shortlist_that_are_given_are_kept():
    X, y = blobs(n=40, dims=4)
    vote = Vote("top", 3)
    model = SoftVotingKNN(preprocess=None, n_neighbors=7, vote=vote, random_state=0).fit(X, y)
    assert model.vote_ == vote
    assert model.kneighbors(X)[1].shape == (40, 7)


class EndsAt(io.StringIO):
    """Output that is interrupted in its nth line."""

    def __init__(self, nth):
        super().__init__()
        self.nth = nth

    def write(self, text):
        super().write(text)
        if self.getvalue().count("\n") == self.nth:
            raise KeyboardInterrupt
        return len(text)


def test_ctrl_c_says_what_was_best_so_far():
    X, y = blobs(n=40, dims=4)
    model = SoftVotingKNN(selection=Selection(verbose=2), random_state=0)
    with contextlib.redirect_stdout(EndsAt(3)), pytest.raises(KeyboardInterrupt) as stopped:
        model.fit(X, y)
    (said,) = stopped.value.__notes__
    tried = SoftVotingKNN(random_state=0).fit(X, y).trials_[:3]
    best = max(tried, key=lambda trial: trial["score"])
    assert said.startswith("3 candidates had been tried; by classification the best was log loss ")
    for part in (best["preprocess"], f"{best['log_loss']:.4f}", f"{best['accuracy']:.4f}"):
        assert part in said
    assert not hasattr(model, "database_")


def test_ctrl_c_before_any_candidate():
    class Pressed(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            raise KeyboardInterrupt

        def transform(self, X):
            return X

    with pytest.raises(KeyboardInterrupt, match="no candidate had been tried"):
        SoftVotingKNN(preprocess=Pressed()).fit(*blobs(n=40, dims=4))


@pytest.mark.filterwarnings("error:interrupted")
def test_ctrl_c_inside_a_learner_ends_the_choice(monkeypatch):
    """A learner would keep what it has learned: in the first candidate, and in the last fits."""
    X, y = blobs(n=60, dims=4)
    calls, take = [], trainer.Trainer.take
    with monkeypatch.context() as patch, limited(1):
        patch.setattr(trainer.Trainer, "take", lambda *a: calls.append(1) or take(*a))
        model = SoftVotingKNN(preprocess=None, random_state=3).fit(X, y)
    assert model.similarity_ is not None
    for nth in (2, len(calls) - model.similarity_.max_epochs):
        with monkeypatch.context() as patch, limited(1):
            cut_at(patch, nth, KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt, match="had been tried"):
                SoftVotingKNN(preprocess=None, random_state=3).fit(X, y)


def test_arguments_that_would_be_ignored():
    X, y = blobs(n=60)
    with pytest.raises(ValueError, match="calibration chooses the vote of a given similarity"):
        SoftVotingKNN().fit(X, y, calibration=(X, y))
    with pytest.raises(ValueError, match="groups are held out together"):
        SoftVotingKNN(None).fit(X, y, groups=y)


def test_no_matrix_is_learned_for_rows_of_very_many_columns():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 10_001)).astype(np.float32)
    X[:, 0] += 40 * y
    model = SoftVotingKNN(random_state=0).fit(X, y)
    learned = [trial["preprocess"] for trial in model.trials_ if trial["learner"] is not None]
    assert learned
    assert not [one for one in learned if one.startswith("UnitLength")]
    assert model.score(X, y) == 1
