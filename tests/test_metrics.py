import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, balanced_accuracy_score, top_k_accuracy_score

from nearkin import metrics

seeds = st.integers(0, 10_000)


@given(seeds, st.integers(1, 4))
@settings(deadline=None, max_examples=40)
def test_top_n_against_scikit_learn(seed, n):
    rng = np.random.default_rng(seed)
    scores, truth = rng.random((30, 5)), np.concatenate([np.arange(5), rng.integers(0, 5, 25)])
    ranked = np.argsort(-scores, axis=1)
    assert metrics.top_n_accuracy(ranked, truth, n) == pytest.approx(
        top_k_accuracy_score(truth, scores, k=n)
    )
    assert metrics.top_n_accuracy(ranked, truth, 1, per_class=True) == pytest.approx(
        balanced_accuracy_score(truth, ranked[:, 0])
    )


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_retrieval_against_loops(seed):
    rng = np.random.default_rng(seed)
    relevant = rng.random((6, 9)) < 0.4
    totals = relevant.sum(axis=1) + rng.integers(0, 4, 6)
    if not totals.any():
        return
    kept = [q for q in range(6) if totals[q]]
    precision, recall = metrics.precision_recall_curve(relevant, totals)
    for r in range(9):
        found = [relevant[q, : r + 1].sum() for q in kept]
        assert precision[r] == pytest.approx(np.mean([f / (r + 1) for f in found]))
        assert recall[r] == pytest.approx(np.mean([f / totals[q] for f, q in zip(found, kept)]))
    assert (np.diff(recall) >= 0).all()
    assert metrics.precision_at_k(relevant, 9) == pytest.approx(relevant.mean())


def test_flags_that_are_objects():
    flags = np.array([[True, False]], object)
    assert metrics.precision_at_k(flags, 2) == metrics.mean_average_precision(flags, [2]) == 0.5
    with pytest.raises(ValueError, match="relevant contains NaN"):
        metrics.precision_at_k(np.array([[True, np.nan]], object), 1)


@given(seeds)
@settings(deadline=None, max_examples=40)
def test_mean_average_precision_of_whole_rankings(seed):
    """When the list holds everything, it is scikit-learn's average precision."""
    rng = np.random.default_rng(seed)
    relevant = rng.random((5, 12)) < 0.4
    relevant[:, 0] = True
    order = np.arange(12, 0, -1)
    expected = np.mean([average_precision_score(row, order) for row in relevant])
    got = metrics.mean_average_precision(relevant, relevant.sum(axis=1))
    assert got == pytest.approx(expected)


def test_confusions_are_counted_and_sorted():
    truth, guess = list("aaabbbcc"), list("abbbaacc")
    first, second = metrics.confusions(guess, truth)
    assert (first["truth"], first["predicted"], first["count"]) in [("a", "b", 2), ("b", "a", 2)]
    assert second["share"] == pytest.approx(2 / 3)
    assert metrics.confusions(truth, truth) == []
    objects = np.array(guess, object), np.array(truth, object)
    assert metrics.confusions(*objects) == [first, second]
    assert metrics.class_accuracies(*objects) == metrics.class_accuracies(guess, truth)


def test_perfect_calibration():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 20_000)
    right = rng.random(20_000) < p
    result = metrics.calibration(np.stack([p, 1 - p], axis=1), right)
    assert result["error"] < 0.02
    assert sum(b["count"] for b in result["bins"]) == 20_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.top_n_accuracy([[1, 2]], [1], n=3), "n=3"),
        (lambda: metrics.top_n_accuracy([1, 2], [1, 2]), "ranked has shape"),
        (lambda: metrics.precision_at_k([[True]], 2), "k=2"),
        (lambda: metrics.precision_recall_curve([[True]], [1, 2]), "relevant has shape"),
        (lambda: metrics.precision_recall_curve([True], [1]), "relevant has shape"),
        (lambda: metrics.mean_average_precision([[False]], [0]), "zero everywhere"),
        (lambda: metrics.precision_at_k([True], 1), "relevant has shape"),
        (lambda: metrics.top_n_accuracy([[1]], [1, 2]), r"truth has shape \(2,\)"),
        (lambda: metrics.top_n_accuracy(np.empty((0, 2)), []), "at least one row"),
        (lambda: metrics.confusions([1], [1, 2]), r"predicted has shape \(1,\)"),
        (lambda: metrics.class_accuracies([1, 2], [[1], [2]]), r"truth has shape \(2, 1\)"),
        (lambda: metrics.calibration([[0.5, 0.5]], [True, False]), r"correct has shape \(2,\)"),
        (lambda: metrics.calibration([0.5], [True]), "probabilities has shape"),
        (lambda: metrics.calibration([[0.5]], [True], bins=0), "bins=0"),
        (lambda: metrics.calibration([[5.0]], [True]), "probabilities holds numbers outside"),
        (lambda: metrics.calibration([["a"]], [True]), "probabilities has shape"),
        (lambda: metrics.top_n_accuracy([[1], [1, 2]], [1, 2]), "ranked holds lists of different"),
        (lambda: metrics.mean_average_precision([[True]], ["a"]), "totals holds <U1"),
        (lambda: metrics.mean_average_precision([[True]], [np.nan]), "totals contains NaN"),
        (lambda: metrics.mean_average_precision([[np.nan]], [1]), "relevant contains NaN"),
        (lambda: metrics.precision_at_k([[np.nan]], 1), "relevant contains NaN"),
        (lambda: metrics.precision_at_k([["no"]], 1), "relevant holds <U2; True or False"),
        (lambda: metrics.top_n_accuracy([[1.0]], [np.nan]), "truth contains NaN"),
        (lambda: metrics.confusions([[1]], [1]), r"predicted has shape \(1, 1\)"),
        (lambda: metrics.confusions(["a"], [1]), "predicted holds <U1 and truth int64; labels of"),
        (lambda: metrics.class_accuracies([1, 2], np.array([None, 1])), "labels of one type"),
        (lambda: metrics.calibration([[1.0]], ["a"]), "correct holds <U1; True or False"),
        (lambda: metrics.confusions(np.ma.masked_equal([1], 1), [1]), "predicted contains .*mask"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
