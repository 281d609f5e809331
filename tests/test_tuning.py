import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import nearkin
from nearkin import SLNE, Execution, SoftVotingKNN, tune
from nearkin.learning.trainer import Trainer

X, y = load_wine(return_X_y=True)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X, y, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def tuned():
    return tune(X_TRAIN, Y_TRAIN, random_state=0)


def test_beats_plain_neighbours_on_rows_it_has_not_seen(tuned):
    plain = [KNeighborsClassifier(k).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST) for k in (1, 5, 9)]
    assert isinstance(tuned, SoftVotingKNN)
    assert tuned.score(X_TEST, Y_TEST) > max(plain)


def test_the_model_has_the_settings_of_the_better_finalist(tuned):
    """The last trials are plain neighbours, some learners, and the best one with more epochs."""
    finalists = [t for t in tuned.trials_ if t["learner"] == "plain"][-1], tuned.trials_[-1]
    assert tuned.trials_[-1]["learner"] != "plain"
    best = max(finalists, key=lambda trial: trial["accuracy"])
    assert (tuned.similarity is None) == (best["learner"] == "plain")
    assert (tuned.vote.kind, tuned.vote.sharpness) == (best["vote"], best["sharpness"])
    assert (tuned.n_neighbors, tuned.csls) == (best["n_neighbors"], best["csls"])
    assert " ".join(repr(tuned.preprocess).split()) == best["preprocess"]
    if tuned.similarity is not None:
        assert tuned.similarity.max_epochs == best["epochs"]
        given = tuned.similarity.get_params(deep=False)
        assert {name: given[name] for name in best["learner"]} == best["learner"]


def test_plain_neighbours_win_where_there_is_nothing_to_learn():
    """Nested rings: no bilinear similarity is better than the nearest rows."""
    rng = np.random.default_rng(0)
    angle, ring = rng.uniform(0, 2 * np.pi, 300), rng.integers(0, 6, 300)
    rows = ((1 + ring) * np.stack([np.cos(angle), np.sin(angle)])).T
    assert tune(rows, ring % 2, random_state=0).similarity is None


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


@pytest.mark.parametrize("max_rows", [0, 100.5])
def test_bad_max_rows(max_rows):
    with pytest.raises(ValueError, match=f"max_rows={max_rows} must be a whole number"):
        tune(np.eye(6), np.arange(6) % 2, max_rows=max_rows)


def test_the_tuned_model_can_be_saved(tuned, tmp_path):
    tuned.save(tmp_path / "m.safetensors")
    again = nearkin.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X_TEST), tuned.predict_proba(X_TEST))
    assert again.trials_ == tuned.trials_


@pytest.mark.parametrize(
    ("call", "message"),
    [(1, "after 2 candidates; the best was .*learner plain"), (200, "after .* accuracy 1.0")],
)
@pytest.mark.filterwarnings("error")
def test_an_interrupt_ends_the_search(call, message, monkeypatch):
    """Whichever fit it falls into, though the learner would keep what it has."""
    calls = []

    def interrupted(learner, take=Trainer.epoch):
        calls.append(learner)
        if len(calls) == call:
            raise KeyboardInterrupt
        return take(learner)

    monkeypatch.setattr(Trainer, "epoch", interrupted)
    with pytest.raises(KeyboardInterrupt, match=message):
        tune(X_TRAIN, Y_TRAIN, max_rows=40, random_state=0)
    assert len(calls) == call


def test_an_interrupt_before_the_first_candidate(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("nearkin.tuning.NeighborIndex", interrupted)
    with pytest.raises(KeyboardInterrupt, match="before it had tried anything"):
        tune(X_TRAIN, Y_TRAIN, random_state=0)


@pytest.mark.filterwarnings("ignore:interrupted")
def test_an_interrupt_of_the_last_fit_keeps_what_was_learned(monkeypatch):
    fit = SoftVotingKNN.fit

    def interrupted(model, rows, labels):
        def stop(*_):
            raise KeyboardInterrupt

        model.similarity = model.similarity or SLNE()
        model.similarity.execution = Execution(callback=stop)
        return fit(model, rows, labels)

    monkeypatch.setattr(SoftVotingKNN, "fit", interrupted)
    model = tune(X_TRAIN, Y_TRAIN, max_rows=40, random_state=0)
    assert model.similarity_.interrupted_
    assert model.trials_


@pytest.mark.parametrize(
    ("labels", "rows"),  # drawn class by class, of none more than half
    [(np.r_[np.ones(5, int), np.zeros(995, int)], 5 + 30), (np.arange(999) // 3, 60)],
    ids=["one", "many"],
)
def test_few_rows_of_one_large_or_many_small_classes(labels, rows):
    X = np.random.default_rng(0).normal(size=(len(labels), 4)).astype(np.float32)
    model = tune(X, labels, max_rows=60, random_state=0)
    assert model.trials_[0]["rows"] == rows
    assert len(model.database_) == len(labels)
