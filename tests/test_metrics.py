import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    ndcg_score,
    top_k_accuracy_score,
)

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


def retrieval(seed, n_queries=8, n_rows=40, k=12):
    """Grades of all rows, lists of the best by random scores, judgements of those above zero."""
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 4, (n_queries, n_rows)) * (rng.random((n_queries, n_rows)) < 0.3)
    grades[:, 0] = 1
    scores = rng.random((n_queries, n_rows))
    query, row = np.nonzero(grades)
    judgements = np.c_[query, row, grades[query, row]]
    ranked = np.argsort(-scores, axis=1)[:, :k]
    return grades, scores, ranked, rng.permutation(judgements)


@given(seeds, st.integers(1, 12))
@settings(deadline=None, max_examples=30)
def test_ndcg_against_scikit_learn(seed, k):
    grades, scores, ranked, judgements = retrieval(seed)
    found = metrics.judged_relevance(ranked, judgements)
    expected = ndcg_score(grades, scores, k=k)
    assert metrics.ndcg_at_k(found.relevant, found.ideal, k) == pytest.approx(expected)
    labels, truth = grades[0], np.arange(4)
    same = metrics.label_relevance(ranked[:4], labels, truth)
    relevant = labels == truth[:, None]
    some = relevant.any(axis=1)
    expected = ndcg_score(relevant[some].astype(int), scores[:4][some], k=k)
    assert metrics.ndcg_at_k(same.relevant, same.ideal, k) == pytest.approx(expected)
    assert same.totals.tolist() == relevant.sum(axis=1).tolist()


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_retrieval_against_trec_eval(seed):
    _, _, ranked, judgements = retrieval(seed)
    judgements = judgements[judgements[:, 0] != 1]  # a query without relevant rows
    found = metrics.judged_relevance(ranked, judgements)
    check_against_trec_eval(ranked, judgements, k=5, found=found)


def check_against_trec_eval(ranked, judgements, k, found):
    run = {
        str(q): {str(row): float(-rank) for rank, row in enumerate(rows)}
        for q, rows in enumerate(ranked.tolist())
    }
    qrels: dict[str, dict[str, int]] = {}
    for q, row, grade in judgements.tolist():
        qrels.setdefault(str(q), {})[str(row)] = grade
    names = {f"ndcg_cut_{k}", f"P_{k}", f"recall_{k}", "recip_rank"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    length = ranked.shape[1]
    ours = {
        f"ndcg_cut_{k}": metrics.ndcg_at_k(found.relevant, found.ideal, k, per_query=True),
        f"P_{k}": metrics.precision_at_k(found.relevant, k, per_query=True),
        f"recall_{k}": metrics.recall_at_k(found.relevant, found.totals, k, per_query=True),
        "recip_rank": metrics.reciprocal_rank(found.relevant, length, per_query=True),
    }
    for name, values in ours.items():
        judged = sorted(map(int, qrels))
        np.testing.assert_allclose(values[judged], [expected[str(q)][name] for q in judged])
    none = found.totals == 0
    assert np.isnan(ours[f"recall_{k}"]).tolist() == none.tolist()
    assert np.isnan(ours[f"ndcg_cut_{k}"]).tolist() == none.tolist()
    mean = metrics.recall_at_k(found.relevant, found.totals, k)
    assert mean == pytest.approx(ours[f"recall_{k}"][~none].mean())


def test_a_search_of_digits_against_trec_eval():
    X, y = load_digits(return_X_y=True)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    rows, queries = np.arange(300, len(X)), np.arange(300)
    ranked = np.argsort(-X[queries] @ X[rows].T, axis=1, kind="stable")[:, :100]
    query, row = np.nonzero(y[queries][:, None] == y[rows])
    judgements = np.c_[query, row, np.ones(len(row), int)]
    by_label = metrics.label_relevance(ranked, y[rows], y[queries])
    check_against_trec_eval(ranked, judgements, k=10, found=by_label)
    for one, other in zip(metrics.judged_relevance(ranked, judgements[:, :2]), by_label):
        np.testing.assert_array_equal(one, other)


def test_empty_places_and_grades_below_zero_are_not_relevant():
    found = metrics.judged_relevance([[-1, 4, -1, 2]], [[0, 4, -2], [0, 2, 3]])
    assert (found.relevant.tolist(), found.totals.tolist()) == ([[0, 0, 0, 3]], [1])
    same = metrics.label_relevance([[-1, 0]], ["a", "a"], ["a"])
    assert same.relevant.tolist() == [[False, True]]


def test_paired_bootstrap_against_the_normal_approximation():
    rng = np.random.default_rng(0)
    before = rng.random(400)
    after = before + rng.normal(0.05, 0.3, 400)
    gains = after - before
    found = metrics.paired_bootstrap(before, after, confidence=0.9)
    half = stats.norm.ppf(0.95) * gains.std() / 20
    assert found["difference"] == pytest.approx(gains.mean())
    assert found["low"] == pytest.approx(gains.mean() - half, abs=0.1 * half)
    assert found["high"] == pytest.approx(gains.mean() + half, abs=0.1 * half)
    missing = np.append(before, np.nan), np.append(after, 1.0)
    assert metrics.paired_bootstrap(*missing, confidence=0.9) == found
    assert metrics.paired_bootstrap(before, after, 0.9, random_state=1) != found


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
        (lambda: metrics.judged_relevance([[1, 1]], [[0, 1]]), "ranked names row 1 twice for quer"),
        (lambda: metrics.judged_relevance([[-2]], [[0, 1]]), "ranked holds -2 to -2; row numbers"),
        (lambda: metrics.judged_relevance([[0.5]], [[0, 1]]), "ranked has shape .* float64; row"),
        (lambda: metrics.judged_relevance([[1]], [[1, 1]]), "query 1, and ranked has 1 lists"),
        (lambda: metrics.judged_relevance([[1]], [[0, -1]]), "judgements names rows that are no"),
        (
            lambda: metrics.judged_relevance([[1]], [[0, 1, 1], [0, 1, 2]]),
            "row 1 for query 0 t",
        ),
        (lambda: metrics.judged_relevance([[1]], [0, 1]), r"judgements has shape \(2,\)"),
        (lambda: metrics.judged_relevance([[1]], np.empty((0, 3))), "judgements is empty"),
        (lambda: metrics.label_relevance([[5]], [1, 2], [1]), "stored has shape .* row 5; one"),
        (lambda: metrics.label_relevance([[1]], ["a", "b"], [1]), "stored holds <U1 and truth int"),
        (lambda: metrics.label_relevance([[1]], [1, 2.5], [1]), "stored holds float64 that are no"),
        (lambda: metrics.label_relevance([[0]], [1], np.array([None])), "truth holds object that"),
        (lambda: metrics.label_relevance([[1]], [1, 2], [1, 2]), r"truth has shape \(2,\)"),
        (lambda: metrics.recall_at_k([[True, True]], [1], 2), "totals is below the number"),
        (lambda: metrics.recall_at_k([[False]], [0], 1), "zero everywhere"),
        (lambda: metrics.ndcg_at_k([[1]], [[1], [1]], 1), "relevant has 1 lists and ideal 2"),
        (lambda: metrics.ndcg_at_k([[-1]], [[1]], 1), "relevant holds int64 or numbers below 0"),
        (lambda: metrics.reciprocal_rank([[True]], 2), "k=2"),
        (lambda: metrics.paired_bootstrap([1.0], [1.0, 2.0]), "before has 1 values and after 2"),
        (lambda: metrics.paired_bootstrap([np.nan], [1.0]), "no query with values in both"),
        (lambda: metrics.paired_bootstrap([[1.0]], [1.0]), r"before has shape \(1, 1\)"),
        (lambda: metrics.paired_bootstrap([1.0], [np.inf]), "after has shape .* one finite number"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
