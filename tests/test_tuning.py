import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

import nearkin
from nearkin import SLNE, Execution, SoftVotingKNN, tune
from nearkin.learning.trainer import Trainer
from nearkin.tuning import _drawn

X, y = load_wine(return_X_y=True)
X_TRAIN, X_TEST, Y_TRAIN, Y_TEST = train_test_split(X, y, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def tuned():
    return tune(X_TRAIN, Y_TRAIN, random_state=0)


def test_beats_plain_neighbours_on_rows_it_has_not_seen(tuned):
    plain = [KNeighborsClassifier(k).fit(X_TRAIN, Y_TRAIN).score(X_TEST, Y_TEST) for k in (1, 5, 9)]
    assert isinstance(tuned, SoftVotingKNN)
    assert tuned.score(X_TEST, Y_TEST) > max(plain)


def test_trials_hold_plain_neighbours_and_the_winner(tuned):
    plain = [trial["accuracy"] for trial in tuned.trials_ if trial["learner"] == "plain"]
    best = max(trial["accuracy"] for trial in tuned.trials_)
    assert plain
    assert best >= max(plain)
    assert {"preprocess", "epochs", "vote", "sharpness", "seconds"} <= set(tuned.trials_[0])


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
    ("call", "told"),
    [(1, "after 2 candidates; the best was .*learner plain"), (200, "after .* accuracy 1.0")],
)
@pytest.mark.filterwarnings("error")
def test_an_interrupt_ends_the_search(call, told, monkeypatch):
    """Whichever fit it falls into, though the learner would keep what it has."""
    calls = []

    def interrupted(learner, take=Trainer.epoch):
        calls.append(learner)
        if len(calls) == call:
            raise KeyboardInterrupt
        return take(learner)

    monkeypatch.setattr(Trainer, "epoch", interrupted)
    with pytest.raises(KeyboardInterrupt, match=told):
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
    "labels", [np.r_[np.ones(5, int), np.zeros(995, int)], np.arange(999) // 3], ids=["one", "many"]
)
def test_few_rows_of_odd_classes_can_be_tuned_on(labels):
    X = np.random.default_rng(0).normal(size=(len(labels), 4)).astype(np.float32)
    for seed in range(3):
        drawn = _drawn(labels, 60, np.random.default_rng(seed))
        assert len(drawn) <= 60
        assert len(np.unique(labels[drawn])) > 1
        assert np.bincount(labels[drawn]).max() >= 3
    assert tune(X, labels, max_rows=60, random_state=0).predict(X[:3]).shape == (3,)
