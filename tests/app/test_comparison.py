import threading
import time

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from nearkin.app import memory_watch
from nearkin.app.baselines import BASELINES
from nearkin.app.comparison import compare
from samples import blobs


@pytest.fixture(scope="module")
def data():
    X, y = blobs(n=500, spread=1.0)
    return X[:300], y[:300], X[300:], y[300:]


def test_accuracies_against_the_ranked_guesses(data):
    X, y, Q, truth = data
    (outcome,) = compare({"plain": BASELINES["cosine"]}, X, y, Q, truth)
    ranked = BASELINES["cosine"](0).fit(X, y).predict_top(Q, 3)
    right = ranked == truth[:, None]
    by_class = [right[truth == c] for c in np.unique(truth)]
    assert outcome.top1 == pytest.approx(right[:, 0].mean())
    assert outcome.top3 == pytest.approx(right.any(axis=1).mean())
    assert outcome.per_class == pytest.approx(np.mean([r[:, 0].mean() for r in by_class]))
    assert outcome.per_class_top3 == pytest.approx(np.mean([r.any(1).mean() for r in by_class]))


def test_every_baseline_runs_and_beats_chance():
    X, y = blobs(n=220, dims=6, spread=0.8)
    outcomes = compare(BASELINES, X[:120], y[:120], X[120:], y[120:])
    assert [o.name for o in outcomes] == list(BASELINES)
    chance = np.bincount(y[120:]).max() / 100
    for outcome in outcomes:
        assert chance + 0.2 < outcome.top1 <= outcome.top3 <= 1, outcome
        assert outcome.seconds > 0
        assert outcome.predict_seconds > 0


def test_a_line_is_printed_for_each_method(data, capsys):
    compare({"ridge": BASELINES["ridge"], "lda": BASELINES["lda"]}, *data, verbose=1)
    ridge, lda = capsys.readouterr().out.splitlines()
    assert ridge.startswith("ridge: ")
    assert "alpha=" in ridge
    assert lda.startswith("lda: ")


def test_any_classifier_can_be_compared(data):
    others = {"bayes": lambda seed: GaussianNB(), "ridge": lambda seed: RidgeClassifier()}
    for outcome in compare(others, *data):
        own = others[outcome.name](0).fit(*data[:2])
        assert outcome.top1 == pytest.approx(own.score(*data[2:]))
    two = [part[:40] for part in (data[0], data[1] % 2, data[2], data[3] % 2)]
    (outcome,) = compare({"ridge": others["ridge"]}, *two)
    assert outcome.top1 == pytest.approx(RidgeClassifier().fit(*two[:2]).score(*two[2:]))
    assert outcome.top3 == 1


def test_a_method_out_of_time_is_reported_without_accuracies(data):
    class Slow(GaussianNB):
        def fit(self, X, y):
            for _ in range(1_000):
                time.sleep(0.01)

    methods = {"slow": lambda seed: Slow(), "bayes": lambda seed: GaussianNB()}
    slow, bayes = compare(methods, *data, time_limit=0.2)
    assert np.isnan(slow.top1)
    assert "time limit of 0.2 s" in slow.settings["stopped"]
    assert bayes.top1 > 0.5


def test_peak_memory_of_a_method(data):
    if memory_watch.anonymous_bytes() is None:
        pytest.skip("no /proc here")

    class Greedy(GaussianNB):
        def fit(self, X, y):
            held = np.ones(50 << 17)  # 50 MiB
            time.sleep(10 * memory_watch.SAMPLE_SECONDS)
            return super().fit(X, y + held[0].astype(int) - 1)

    (outcome,) = compare({"greedy": lambda seed: Greedy()}, *data)
    assert 50 <= outcome.peak_bytes / 2**20 < 70


def test_bad_arguments(data):
    X, y, Q, truth = data
    with pytest.raises(ValueError, match="methods is empty"):
        compare({}, *data)
    with pytest.raises(ValueError, match="time_limit=0"):
        compare(BASELINES, *data, time_limit=0)
    with pytest.raises(ValueError, match="one label per query"):
        compare(BASELINES, X, y, Q, truth[1:])
    errors = []

    def elsewhere():
        try:
            compare(BASELINES, *data, time_limit=1)
        except ValueError as error:
            errors.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "main thread" in errors[0]
