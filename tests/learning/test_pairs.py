"""Learning from queries, documents and judgements."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import nearkin
from nearkin import SLDE, SLNE, Preprocess, Softmax
from nearkin.learning.pair_choice import held_out_queries, sampled
from nearkin.learning.pair_search import search_visited
from nearkin.learning.pairs import Judgements, Visits, identity, pair_data
from nearkin.metrics.retrieval import judged_relevance, ndcg_at_k
from nearkin.neighbors import NeighborIndex


def corpus(seed=0, n=400, m=120, dims=24, noise=0.3):
    """Documents; queries near one of them each, in directions that matter, and noise elsewhere."""
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(n, dims))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True) / np.sqrt(dims)
    own = rng.permutation(n)[:m]
    queries = documents[own] + noise * rng.normal(size=(m, dims))
    queries[:, dims // 2 :] = 2 * rng.normal(size=(m, dims - dims // 2))
    return queries.astype("f4"), documents.astype("f4"), np.stack([np.arange(m), own], axis=1)


def ndcg(asked, documents, relevant):
    found = judged_relevance(np.argsort(-asked @ documents.T, axis=1)[:, :10], relevant)
    return ndcg_at_k(found.relevant, found.ideal, 10)


def test_relevant_documents_of_new_queries_come_first():
    Q, D, relevant = corpus(n=900, m=400)
    known, new = slice(0, 300), slice(300, 400)
    model = SLNE(random_state=0).fit_pairs(Q[known], D, relevant[known])
    judged = relevant[new] - [300, 0]
    before, after = (ndcg(q, D, judged) for q in (Q[new], model.transform_query(Q[new])))
    assert after > before + 0.2
    choice = model.pair_choice_
    assert choice["rounds"] == model.n_epochs_ == len(model.history_) > 0
    assert choice["after"] > choice["before"]


def test_a_regression_is_the_start_where_it_serves_better():
    Q, D, relevant = corpus(n=900, m=400)
    turned = (Q @ np.linalg.qr(np.random.default_rng(5).normal(size=(24, 24)))[0]).astype("f4")
    model = SLNE(random_state=0).fit_pairs(turned[:300], D, relevant[:300])
    assert model.pair_choice_["ridge"]
    judged = relevant[300:] - [300, 0]
    before, after = (
        ndcg(q, D, judged) for q in (turned[300:], model.transform_query(turned[300:]))
    )
    assert before < 0.05
    assert after > 0.7
    if not model.n_epochs_:
        X, Z = turned[:300].astype(float), D[relevant[:300, 1]]
        kept = 0.1 * np.trace(X.T @ X) / 24 * np.eye(24)
        assert_allclose(model.matrix_, np.linalg.inv(X.T @ X + kept) @ X.T @ Z, atol=1e-5)


def test_the_identity_is_the_start_where_a_regression_serves_worse():
    rng = np.random.default_rng(0)
    D = rng.normal(size=(300, 40)).astype("f4")
    Q = (D[:100] + 0.5 * rng.normal(size=(100, 40))).astype("f4")
    model = SLNE(max_epochs=1, random_state=0).fit_pairs(Q, D, [(i, i) for i in range(100)])
    assert not model.pair_choice_["ridge"]
    assert model.pair_choice_["before"] > 0.9


def test_where_nothing_can_be_learned_nothing_changes():
    rng = np.random.default_rng(1)
    Q, D = rng.normal(size=(60, 8)), rng.normal(size=(200, 8))
    model = SLNE(max_epochs=2, random_state=0).fit_pairs(
        Q, D, rng.integers(0, 60, (60, 2)) * [1, 3]
    )
    assert model.pair_choice_["rounds"] == 0
    assert_array_equal(model.matrix_, np.eye(8, dtype=np.float32))


def naive_graph(judged, others):
    """Targets and impostors of each query and grade, by sets."""
    graph = []
    for q in sorted(set(judged.query)):
        own = {d: g for a, d, g in zip(judged.query, judged.document, judged.grade) if a == q}
        for grade in sorted({g for g in own.values() if g > 0}):
            targets = {d for d, g in own.items() if g >= grade}
            near = {int(d) for d in others[q] if d >= 0}
            graph.append((q, targets, (near | set(own)) - targets))
    return graph


def test_the_graph_by_sets():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, [10, 30], (60, 2)), axis=0)
    grades = rng.integers(-1, 4, len(pairs))
    judged = Judgements.of(np.column_stack([pairs, grades]), 10, 30)
    others = rng.integers(-1, 30, (10, 6))
    visits = Visits.of(judged)
    graph, n = visits.neighborhoods(others, 30), len(visits.query)
    expected = naive_graph(judged, others)
    assert visits.query.tolist() == [q for q, _, _ in expected]
    for i, (_, targets, impostors) in enumerate(expected):
        assert sorted(graph.targets(i) - n) == sorted(targets)
        assert sorted(graph.impostors(i) - n) == sorted(impostors)
    assert not graph.degrees[n:].any()  # documents take no steps


def test_one_round_by_the_formula():
    """Softmax steps, a query at a time, on the graph that is searched under the identity."""
    Q, D, relevant = corpus(n=30, m=8, dims=4)
    settings = {"step_size": 0.01, "max_epochs": 1, "n_neighbors": 5, "average": False}
    model = SLNE(Softmax(0.5), random_state=0, **settings)
    weights = np.linspace(0.5, 1.5, 8)
    fit = recorded(model, Q, D, relevant, weights)
    order, steps, _ = fit.schedule
    M, rows, hoods = np.eye(4), fit.rows.astype(float), fit.hoods
    for i, step in zip(order, steps):
        x, near = rows[i], np.concatenate([hoods.targets(i), hoods.impostors(i)])
        s = x @ M @ rows[near].T / (0.5 * fit.scale)
        p = np.exp(s - s.max())
        p /= p.sum()
        right = np.arange(len(near)) < hoods.n_targets[i]
        share = np.where(right, p / p[right].sum(), 0)
        M += step * np.outer(x, (share - p) @ rows[near])
    assert_allclose(fit.learned, M, atol=1e-5)


class recorded:
    """One round of a model's trainer, with what it was made from."""

    def __init__(self, model, Q, D, relevant, weights):
        from nearkin.learning.pair_fit import PairFit
        from nearkin.learning.trainer import Trainer

        data = pair_data(Q, D, relevant)
        fit = PairFit(model, data, None)
        fit._prepare(nearkin.RunFolder.nowhere())
        index = NeighborIndex(D, "exact", metric="dot")
        trainer = fit._trainer(data, index, identity(data), model.step_size, seed=3)
        trainer.weights = (weights / weights.mean()).astype(np.float32)
        self.rows, self.scale = trainer.rows, model.scale_
        self.hoods = trainer.visits.neighborhoods(trainer._impostors(), len(D))
        self.schedule = Trainer(
            trainer.rows, self.hoods, trainer.settings, trainer.matrix, visits=np.arange(len(Q)),
            taken=0, weights=trainer.weights,
        ).schedule()  # fmt: skip
        trainer.round()
        self.learned = trainer.learned


def test_queries_of_another_width():
    Q, D, relevant = corpus(n=600, m=300)
    turned = (Q @ np.random.default_rng(5).normal(size=(24, 30))).astype("f4")
    model, y = SLNE(random_state=0).fit_pairs(turned[:240], D, relevant[:240]), np.arange(300) % 2
    assert model.matrix_.shape == (30, 24)
    asked = model.transform_query(turned[240:])
    assert ndcg(asked, D, relevant[240:] - [240, 0]) > 0.3
    assert_allclose(model.similarity(turned[:5], D[:7]), turned[:5] @ model.matrix_ @ D[:7].T,
                    rtol=1e-4, atol=1e-4)  # fmt: skip
    for call in (
        lambda: model.pair_score(np.zeros((1, 2, 30))),
        lambda: model.objective(turned, y),
    ):
        with pytest.raises(ValueError, match=r"of one width; matrix_ .* of 30 .* of 24"):
            call()
    with pytest.raises(ValueError, match="prepare=Preprocess: queries have 30 columns"):
        SLNE(prepare=Preprocess(unit_length=False)).fit_pairs(turned, D, relevant)


def test_a_sparse_matrix_of_grades_is_the_same(tmp_path):
    Q, D, relevant = corpus()
    grades = sparse.csr_array((np.ones(len(relevant)), relevant.T), shape=(len(Q), len(D)))
    models = [SLNE(random_state=0).fit_pairs(Q, D, given) for given in (relevant, grades)]
    assert_array_equal(models[0].matrix_, models[1].matrix_)
    nearkin.save(models[0], tmp_path / "model.safetensors")
    loaded = nearkin.load(tmp_path / "model.safetensors")
    assert_array_equal(loaded.transform_query(Q), models[0].transform_query(Q))
    assert loaded.pair_choice_ == models[0].pair_choice_


def test_prepared_rows_fold_into_the_query():
    Q, D, relevant = corpus(n=600, m=300)
    model = SLNE(prepare=Preprocess(whitening=0.25, unit_length=False), random_state=0)
    model.fit_pairs(Q, D + 5, relevant)
    by_index = np.argsort(-model.transform_query(Q) @ (D + 5).T, axis=1)[:, 0]
    assert (by_index == model.similarity(Q, D + 5).argmax(axis=1)).mean() > 0.99


def test_a_fit_resumes(tmp_path):
    Q, D, relevant = corpus()
    settings = {"max_epochs": 2, "random_state": 0}
    whole = SLNE(**settings).fit_pairs(Q, D, relevant)
    kept = SLNE(**settings).fit_pairs(Q, D, relevant, folder=tmp_path / "run")
    again = SLNE(**settings).fit_pairs(Q, D, relevant, folder=tmp_path / "run")
    assert_array_equal(whole.matrix_, kept.matrix_)
    assert_array_equal(whole.matrix_, again.matrix_)
    with pytest.raises(ValueError, match="queries differs"):
        SLNE(**settings).fit_pairs(2 * Q, D, relevant, folder=tmp_path / "run")


def test_a_fit_resumes_with_the_lists_that_it_had(tmp_path, monkeypatch):
    """Where searches cost too much, rounds after the second use its lists again."""
    monkeypatch.setattr("nearkin.learning.pair_trainer.SEARCH_COST", 0)
    Q, D, relevant = corpus(n=900, m=300)
    settings = {"max_epochs": 4, "random_state": 0}
    whole = SLNE(**settings).fit_pairs(Q, D, relevant)
    assert whole.n_epochs_ == 4
    SLNE(**settings).fit_pairs(Q, D, relevant, folder=tmp_path / "run")
    for last in tmp_path.glob("run/*round-4*"):
        last.unlink()
    with monkeypatch.context() as only:
        only.setattr("nearkin.learning.pair_trainer.search_visited", None)  # nothing to search
        again = SLNE(**settings).fit_pairs(Q, D, relevant, folder=tmp_path / "run")
    assert_array_equal(whole.matrix_, again.matrix_)


def test_queries_with_a_common_document_are_held_out_together():
    pairs = [[0, 1], [1, 1], [1, 2], [2, 2], [3, 5], [4, 6], [5, 7]]
    data = pair_data(np.zeros((6, 2)), np.zeros((9, 2)), pairs)
    masks = list(held_out_queries(data, seed=0))
    assert len(masks) >= 2
    assert all(len(set(mask[:3])) == 1 for mask in masks)
    assert (np.sum(masks, axis=0) <= 1).all()


def test_single_queries_are_held_out_where_most_are_connected():
    pairs = [[i, 0] for i in range(6)] + [[6, 1], [7, 2]]
    masks = list(held_out_queries(pair_data(np.zeros((8, 2)), np.zeros((9, 2)), pairs), seed=0))
    assert len(masks) == 4
    assert (np.sum(masks, axis=0) == 1).all()


def test_one_query_cannot_be_held_out():
    Q, D, relevant = corpus()
    with pytest.raises(ValueError, match="judges 1 query; at least two"):
        SLNE().fit_pairs(Q, D, relevant[:1])


def test_the_choice_on_a_sample_keeps_judged_documents(monkeypatch):
    monkeypatch.setattr("nearkin.learning.pair_choice.MAX_QUERIES", 20)
    monkeypatch.setattr("nearkin.learning.pair_choice.MAX_DOCUMENTS", 50)
    Q, D, relevant = corpus()
    some = sampled(pair_data(Q, D, relevant), seed=0)
    assert (len(some.queries), len(some.documents), len(some.judged.query)) == (20, 50, 20)
    about = {tuple(q): tuple(D[d]) for q, (_, d) in zip(Q, relevant)}
    for q, d in zip(some.judged.query, some.judged.document):
        assert about[tuple(some.queries[q])] == tuple(some.documents[d])


@pytest.mark.parametrize(
    ("relevant", "problem"),
    [
        ([[0, 400]], "relevant names document 400, and there are 400"),
        ([[120, 0]], "relevant names query 120"),
        ([[0, 1], [0, 1]], "relevant grades document 1 for query 0 twice"),
        ([[0, 1, 0]], "no grade above 0"),
        ([[0.5, 1]], "whole row numbers"),
        ([0, 1], "relevant has shape"),
        ([["a", "b"]], "relevant has shape"),
    ],
)
def test_judgements_that_make_no_sense(relevant, problem):
    Q, D, _ = corpus()
    with pytest.raises(ValueError, match=problem):
        SLNE().fit_pairs(Q, D, relevant)


def test_weights_that_make_no_sense():
    Q, D, relevant = corpus()
    for weights in (np.ones(3), -np.ones(len(Q)), np.zeros(len(Q))):
        with pytest.raises(ValueError, match="sample_weight"):
            SLNE().fit_pairs(Q, D, relevant, sample_weight=weights)


def test_an_ensemble_learns_from_judgements():
    Q, D, relevant = corpus(n=900, m=400)
    learner = SLNE("softmax", n_neighbors=30, max_epochs=2)
    ensemble = SLDE(learner, n_members=2, random_state=0)
    ensemble.fit_pairs(Q[:300], D, relevant[:300])
    judged = relevant[300:] - [300, 0]
    before, after = (ndcg(q, D, judged) for q in (Q[300:], ensemble.transform_query(Q[300:])))
    assert ensemble.pair_choice_["rounds"] > 0
    assert len(ensemble.members_) == 2
    assert after > before + 0.05
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(60, 24)), rng.normal(size=(200, 24))
    ensemble.fit_pairs(*noise, rng.integers(0, 60, (60, 2)) * [1, 3])
    assert_array_equal(ensemble.matrix_, np.eye(24))


@pytest.mark.parametrize("model", [SLNE(), SLDE(n_members=2)])
def test_too_little_memory_is_said_before(model, monkeypatch):
    monkeypatch.setattr("nearkin.validation.memory.available", lambda: 1 << 10)
    with pytest.raises(MemoryError, match="120 queries and 400 documents"):
        model.fit_pairs(*corpus())


def naive_edges(visits, others, n_documents):
    """Targets and impostors of each visit, in ascending order, one dictionary a visit."""
    lists = []
    for visit, query in enumerate(visits.query):
        own = visits.visit == visit
        kinds = {int(d): 1 for d in others[query] if d >= 0}
        kinds |= {int(d): int(not t) for d, t in zip(visits.document[own], visits.target[own])}
        lists.append([sorted(d for d, kind in kinds.items() if kind == of) for of in (0, 1)])
    return lists


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at_once", [3, 1_024])
def test_the_graph_of_visits(seed, at_once, monkeypatch):
    monkeypatch.setattr("nearkin.learning.pairs._VISITS_AT_ONCE", at_once)
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, [17, 40], (90, 2)), axis=0)
    grades = rng.integers(-1, 3, len(pairs))
    grades[0] = 1
    visits = Visits.of(Judgements.of(np.column_stack([pairs, grades]), 17, 40))
    others = rng.integers(-1, 40, (17, 12))
    graph, n = visits.neighborhoods(others, 40), len(visits.query)
    for visit, (targets, impostors) in enumerate(naive_edges(visits, others, 40)):
        assert (graph.targets(visit) - n).tolist() == targets
        assert (graph.impostors(visit) - n).tolist() == impostors
    assert len(graph.degrees) == n + 40
    assert not graph.degrees[n:].any()


def test_queries_without_judgements_are_not_searched():
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(60, 6)).astype(np.float32)
    visits = Visits.of(Judgements.of([[1, 3], [4, 2]], 6, 60))
    index = NeighborIndex(documents, "exact", metric="dot")
    queries, M = rng.normal(size=(6, 6)).astype(np.float32), np.eye(6, dtype=np.float32)
    near = search_visited(index, queries, visits, M, 5)
    expected = np.argsort(-queries @ documents.T, axis=1)[:, :5]
    np.testing.assert_array_equal(near[[1, 4]], expected[[1, 4]])
    assert (near[[0, 2, 3, 5]] == -1).all()
