"""Triplets, and pairs of like and unlike rows, as judgements of one array."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from nearkin import SLDE, SLNE, Constraint, Softmax, graded_triplets
from nearkin.learning.pair_choice import HeldOutQueries, held_out_queries, sampled
from nearkin.learning.pair_trainer import PairTrainer, impostors
from nearkin.learning.pairs import pair_data
from nearkin.learning.trainer import Hyperparameters
from nearkin.neighbors import NeighborIndex


def rows_of_classes(seed=0, n=300, dims=16, classes=12):
    """Rows whose first half tells their class, and whose second half is louder noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.normal(size=(n, dims))
    X[:, : dims // 2] = rng.normal(size=(classes, dims // 2))[y] + 0.3 * X[:, : dims // 2]
    X[:, dims // 2 :] *= 2
    return X.astype(np.float32), y


def precision(model, X, y):
    """Of the ten most similar others."""
    scores = (X if model is None else model.transform_query(X)) @ X.T
    np.fill_diagonal(scores, -np.inf)
    return (y[np.argsort(-scores, axis=1)[:, :10]] == y[:, None]).mean()


def like_and_unlike(y, seed=0, each=6):
    """For every row, some of its class with grade 1, some of others with grade 0."""
    rng, pairs = np.random.default_rng(seed), []
    for i, own in enumerate(y):
        same = np.flatnonzero(y == own)
        for rows, grade in ((same[same != i], 1), (np.flatnonzero(y != own), 0)):
            pairs += [(i, j, grade) for j in rng.choice(rows, each, replace=False)]
    return np.array(pairs)


@pytest.fixture(scope="module")
def new():
    return rows_of_classes(1)


def test_pairs_of_like_and_unlike_rows(new):
    X, y = rows_of_classes()
    model = SLNE(random_state=0).fit_pairs(X, X, like_and_unlike(y))
    assert precision(model, *new) > precision(None, *new) + 0.2


def test_triplets(new):
    X, y = rows_of_classes()
    pairs = like_and_unlike(y)
    like, unlike = (pairs[pairs[:, 2] == grade] for grade in (1, 0))
    triplets = np.column_stack([like[:, :2], unlike[:, 1]])
    assert_array_equal(graded_triplets(triplets), pairs[np.lexsort(pairs[:, 1::-1].T)])
    model = SLNE(random_state=0).fit_pairs(X, X, graded_triplets(triplets))
    assert precision(model, *new) > precision(None, *new) + 0.2


def test_an_ensemble_of_one_array_given_twice():
    X, y = rows_of_classes()
    ensemble = SLDE(SLNE("softmax", n_neighbors=30), n_members=2, random_state=0)
    ensemble.fit_pairs(X, X, like_and_unlike(y))
    assert ensemble.fingerprint_.startswith("300 queries, 300 documents, 3600 judgements")


def naive_grades(triplets):
    """Longest chains of comparisons, by recursion."""
    below = {}
    for row, better, worse in triplets:
        below.setdefault((row, better), set()).add(worse)
        below.setdefault((row, worse), set())

    def grade(row, other):
        return max((1 + grade(row, worse) for worse in below[row, other]), default=0)

    return sorted((row, other, grade(row, other)) for row, other in below)


@pytest.mark.parametrize("seed", range(5))
def test_grades_by_chains(seed):
    rng = np.random.default_rng(seed)
    row, *others = rng.integers(0, [[4], [9], [9]], (3, 40))
    better, worse = np.sort(others, axis=0)[::-1] + 4  # so no circle
    triplets = np.column_stack([row, better, worse])[better != worse]
    found = map(tuple, graded_triplets(triplets).astype(int).tolist())
    assert list(found) == naive_grades(triplets.tolist())


@pytest.mark.parametrize(
    ("triplets", "problem"),
    [
        ([[0, 1]], r"triplets has shape \(1, 2\)"),
        (np.empty((0, 3), int), "m above 0"),
        ([["a", "b", "c"]], "and type"),
        ([[0, 1, 2], [0, 2, 1]], "triplets of row 0 go in a circle"),
        ([[0, 1, 2], [3, 1, 1]], "triplet 1 names a row twice"),
        ([[0, 0, 2]], "triplet 0 names a row twice"),
        ([[0, 1.5, 2]], "whole row numbers"),
        ([[0, -1, 2]], "whole row numbers"),
        ([[0, 1, np.nan]], "NaN"),
    ],
)
def test_triplets_that_make_no_sense(triplets, problem):
    with pytest.raises(ValueError, match=problem):
        graded_triplets(triplets)


def test_a_row_is_no_impostor_of_itself():
    X, y = rows_of_classes(n=24)
    like = like_and_unlike(y, each=1)[::2, :2]
    data = pair_data(X, X, like)
    near = np.tile(np.arange(24, dtype=np.int32), (24, 1))
    others = impostors(near, data, [0, 0])
    assert not (others == np.arange(24)[:, None]).any()
    for i, listed in enumerate(others[:, :24].tolist()):
        assert sorted(listed) == [-1] + [j for j in range(24) if j != i]
    apart = impostors(near, pair_data(X, X.copy(), like), [0, 0])
    assert_array_equal(apart[:, :24], near)
    with pytest.raises(ValueError, match="pairs a row with itself"):
        pair_data(X, X, [[0, 1], [3, 3]])


def test_a_sample_knows_which_document_a_query_is(monkeypatch):
    monkeypatch.setattr("nearkin.learning.pair_choice.MAX_QUERIES", 20)
    monkeypatch.setattr("nearkin.learning.pair_choice.MAX_DOCUMENTS", 90)
    X, y = rows_of_classes()
    some = sampled(pair_data(X, X, like_and_unlike(y, each=1)), seed=0)
    assert (len(some.queries), len(some.documents)) == (20, 90)
    assert_array_equal(some.documents[some.own], some.queries)


def test_rows_on_both_sides_of_a_pair_are_held_out_together():
    data = pair_data(X := np.eye(8, dtype=np.float32), X, [[0, 1], [2, 1], [3, 2], [4, 5], [6, 7]])
    for mask in held_out_queries(data, seed=0):
        assert len(set(mask[:4])) == len(set(mask[4:6])) == len(set(mask[6:])) == 1


def naive_ndcg(ranked, grades):
    gains, best = [grades.get(j, 0) for j in ranked[:10]], sorted(grades.values())[::-1][:10]
    return np.dot(gains, 1 / np.log2(np.arange(2, len(gains) + 2))) / np.dot(
        best, 1 / np.log2(np.arange(2, len(best) + 2))
    )


@pytest.mark.parametrize("unlike", [False, True])
def test_held_out_rows_rank_others_or_those_that_are_judged(unlike):
    X, y = rows_of_classes(n=60, classes=4)
    pairs = like_and_unlike(y, each=3)
    data = pair_data(X, X, pairs if unlike else pairs[pairs[:, 2] > 0])
    assert data.closed == unlike
    held = HeldOutQueries(data, "exact", 0)
    learn, ndcg = next(held.folds())
    scores, judged, values = X @ X.T, held.data.judged, []
    np.fill_diagonal(scores, -np.inf)
    for i in np.setdiff1d(judged.query, learn.judged.query):
        own = judged.query == i
        grades = dict(zip(judged.document[own], judged.grade[own]))
        ranked = [j for j in np.argsort(-scores[i]) if j in grades or not unlike]
        values.append(naive_ndcg(ranked, grades))
    np.testing.assert_allclose(ndcg(np.eye(16, dtype=np.float32)), values, rtol=1e-6)


def test_only_rows_that_are_given_as_unlike_are_impostors():
    X, y = rows_of_classes(n=60, classes=4)
    pairs = like_and_unlike(y, each=3)
    data = pair_data(X, X, pairs)
    index = NeighborIndex(X, "exact", metric="dot")
    settings = Hyperparameters(Softmax(0.05), 0.1, Constraint(), "random", False, True, 0)
    trainer = PairTrainer(data, settings, np.eye(16, dtype=np.float32), 10, index)
    graph = trainer.visits.neighborhoods(trainer._impostors(), len(X))
    for i in range(60):
        own = pairs[pairs[:, 0] == i]
        assert sorted(graph.targets(i) - 60) == sorted(own[own[:, 2] > 0, 1])
        assert sorted(graph.impostors(i) - 60) == sorted(own[own[:, 2] <= 0, 1])
