"""Neighbours found by a retrieval of their own, apart from what is learned on."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import nearkin
from nearkin import (
    SLDE,
    SLNE,
    Execution,
    Preprocess,
    Retrieval,
    SoftVotingKNN,
    WithinClassWhitening,
)
from nearkin.neighbors import nearest
from samples import blobs

ROOTS = Preprocess(4, power=0.5, whitening=1)


@pytest.fixture(scope="module")
def data():
    X, y = blobs(n=400, dims=8, spread=1.5)
    return X[:300], y[:300], X[300:], y[300:]


def naive(X, k, queries=None):
    """Lists by distances of all pairs, in double precision."""
    asked = X if queries is None else queries
    d = ((asked[:, None].astype(float) - X[None]) ** 2).sum(axis=2)
    if queries is None:
        np.fill_diagonal(d, np.inf)
    return np.argsort(d, axis=1, kind="stable")[:, :k]


def by_products(X):
    """A function that ranks by dot products of two columns."""
    return lambda rows, k: np.argsort(-(rows[:, :2] @ X[:, :2].T), axis=1, kind="stable")[:, :k]


def retrieval_of(kind, X):
    other = np.abs(X[:, :3]) ** 2
    return {
        "given": Retrieval(),
        "transformer": Retrieval(ROOTS),
        "fitted": Retrieval(clone(ROOTS).fit(X)),
        "vectors": Retrieval(other),
        "function": Retrieval(by_products(X)),
    }[kind]


def lists_by_hand(kind, X, k, queries=None):
    if kind == "function":
        asked = X if queries is None else queries
        products = asked[:, :2] @ X[:, :2].T
        if queries is None:
            np.fill_diagonal(products, -np.inf)
        return np.argsort(-products, axis=1, kind="stable")[:, :k]
    made = {
        "given": lambda rows: rows,
        "transformer": clone(ROOTS).fit(X).transform,
        "fitted": clone(ROOTS).fit(X).transform,
        "vectors": lambda rows: np.abs(rows[:, :3]) ** 2,
    }[kind]
    return naive(made(X), k, None if queries is None else made(queries))


KINDS = ["given", "transformer", "fitted", "vectors", "function"]


@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_those_of_the_naive_form(data, kind):
    X, _, Q, _ = data
    found = retrieval_of(kind, X).fit(X)
    asked = np.abs(Q[:, :3]) ** 2 if kind == "vectors" else Q
    assert_array_equal(found.lists(7), lists_by_hand(kind, X, 7))
    assert_array_equal(found.lists(7, asked), lists_by_hand(kind, X, 7, Q))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prepare", [None, "auto"])
def test_a_similarity_is_that_of_ready_made_lists(data, kind, prepare):
    X, y, _, _ = data
    settings = {"prepare": prepare, "n_neighbors": 12, "max_epochs": 2, "random_state": 0}
    by_itself = SLNE(execution=Execution(index=retrieval_of(kind, X)), **settings).fit(X, y)
    by_lists = SLNE(**settings).fit(X, y, neighbors=lists_by_hand(kind, X, 12))
    plain = SLNE(**settings).fit(X, y)
    assert_array_equal(by_itself.matrix_, by_lists.matrix_)
    assert kind == "given" or not np.array_equal(by_itself.matrix_, plain.matrix_)
    assert isinstance(by_itself.retrieval_, Retrieval)
    assert plain.retrieval_ is None


def test_an_ensemble_is_that_of_ready_made_lists(data):
    X, y, _, _ = data
    settings = {"prepare": None, "n_neighbors": 12, "max_epochs": 2}
    found = Execution(index=Retrieval(ROOTS))
    by_itself = SLDE(SLNE(execution=found, **settings), n_members=2, random_state=0).fit(X, y)
    lists = lists_by_hand("transformer", X, 12)
    by_lists = SLDE(SLNE(**settings), n_members=2, random_state=0).fit(X, y, neighbors=lists)
    assert_array_equal(by_itself.matrix_, by_lists.matrix_)
    assert by_itself.objective(X, y) == pytest.approx(by_lists.objective(X, y, neighbors=lists))


def classifier(index="auto", vote="auto", **settings):
    learner = SLNE(n_neighbors=20, max_epochs=2)
    given = {"n_neighbors": 20, "vote": vote, "index": index, "random_state": 0} | settings
    return SoftVotingKNN(learner, **given)


@pytest.mark.parametrize("kind", ["given", "transformer", "function"])
@pytest.mark.parametrize("vote", ["auto", "power"])
def test_a_classifier_is_that_of_ready_made_lists(data, kind, vote):
    """Rows and queries, and the tenth of the rows that a vote is chosen on."""
    X, y, Q, _ = data
    model = classifier(retrieval_of(kind, X), vote).fit(X, y)
    by_lists = classifier(vote=vote).fit(X, y, neighbors=lists_by_hand(kind, X, 20))
    near = lists_by_hand(kind, X, 20, Q)
    assert model.vote_ == by_lists.vote_
    assert_array_equal(model.similarity_.matrix_, by_lists.similarity_.matrix_)
    for method in ("predict", "predict_proba", "novelty_score"):
        found = getattr(model, method)(Q)
        assert_array_equal(found, getattr(by_lists, method)(Q, neighbors=near))
    assert_array_equal(model.kneighbors(Q, rerank=False)[1], near)
    for found, expected in zip(model.kneighbors(Q, 5), by_lists.kneighbors(Q, 5, neighbors=near)):
        assert_array_equal(found, expected)


def test_queries_of_other_vectors_need_theirs(data):
    X, y, Q, _ = data
    model = classifier(retrieval_of("vectors", X), "power").fit(X, y)
    for ask in (model.predict, model.kneighbors, model.novelty_score):
        with pytest.raises(ValueError, match=r"neighbors=model\.retrieval_\.lists\(20, vectors"):
            ask(Q)
    lists = model.retrieval_.lists(20, np.abs(Q[:, :3]) ** 2)
    assert_array_equal(lists, lists_by_hand("vectors", X, 20, Q))
    by_lists = classifier(vote="power").fit(X, y, neighbors=lists_by_hand("vectors", X, 20))
    assert_array_equal(model.predict(Q, neighbors=lists), by_lists.predict(Q, neighbors=lists))


@pytest.mark.parametrize("kind", ["given", "transformer", "vectors"])
def test_a_model_and_its_retrieval_survive_saving(data, kind, tmp_path):
    X, y, Q, _ = data
    model = classifier(retrieval_of(kind, X), "power").fit(X, y)
    near = lists_by_hand(kind, X, 20, Q) if kind == "vectors" else None
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = nearkin.load(path)
    assert_array_equal(loaded.predict_proba(Q, neighbors=near), model.predict_proba(Q, near))
    asked = np.abs(Q[:, :3]) ** 2 if kind == "vectors" else Q
    assert_array_equal(loaded.retrieval_.lists(9, asked), lists_by_hand(kind, X, 9, Q))
    if kind == "vectors":  # a parameter and a fitted part, written once
        plain = classifier(vote="power").fit(X, y)
        plain.save(tmp_path / "plain.safetensors")
        more = path.stat().st_size - (tmp_path / "plain.safetensors").stat().st_size
        assert more < 2 * 4 * 3 * len(X)


def test_a_file_brings_the_index_of_its_retrieval_along(data, tmp_path, monkeypatch):
    X, y, Q, _ = data
    model = classifier(Retrieval(ROOTS, "cells;recall=0.9"), "power").fit(X, y)
    model.save(tmp_path / "model.safetensors")
    monkeypatch.setattr("nearkin.neighbors.cells.Partition.__init__", None)  # nothing is built
    loaded = nearkin.load(tmp_path / "model.safetensors")
    assert loaded.search_index_ is not None
    assert_array_equal(loaded.predict_proba(Q), model.predict_proba(Q))


def test_a_similarity_and_its_retrieval_survive_saving(data, tmp_path):
    X, y, Q, t = data
    model = SLNE(n_neighbors=9, execution=Execution(index=Retrieval(ROOTS)), random_state=0)
    model.fit(X, y)
    nearkin.save(model, tmp_path / "model.safetensors")
    loaded = nearkin.load(tmp_path / "model.safetensors")
    made = model.retrieval_.transformer_.transform(Q)
    expected = model.objective(Q, t, neighbors=naive(made, 9))
    assert loaded.objective(Q, t) == model.objective(Q, t) == pytest.approx(expected)
    assert not hasattr(loaded.retrieval_, "vectors_")  # the rows are not the model's


def test_a_function_cannot_be_saved(data, tmp_path):
    X, y, _, _ = data
    model = classifier(Retrieval(by_products(X)), "power").fit(X, y)
    with pytest.raises(TypeError, match=r"source is a function, whose code .* transformer or vec"):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["transformer", "vectors", "function"])
def test_a_fit_resumes_and_refuses_another_retrieval(data, kind, tmp_path):
    X, y, _, _ = data

    def model(index, epochs):
        return SLNE(n_neighbors=9, max_epochs=epochs, tol=0, random_state=0,
                    execution=Execution(index=index))  # fmt: skip

    model(retrieval_of(kind, X), 1).fit(X, y, folder=tmp_path)
    resumed = model(retrieval_of(kind, X), 3).fit(X, y, folder=tmp_path)
    assert_array_equal(resumed.matrix_, model(retrieval_of(kind, X), 3).fit(X, y).matrix_)
    with pytest.raises(ValueError, match=r"index is .* there and .* here|X differs"):
        model(Retrieval(X[:, ::-1] * np.arange(8)), 3).fit(X, y, folder=tmp_path)


def test_rows_that_join_are_found_by_the_same_retrieval(data):
    X, y, Q, t = data
    model = classifier(Retrieval(ROOTS), "power").fit(X, y)
    fitted, similarity = model.retrieval_.transformer_, model.similarity_
    model.add(Q, t)
    everything, labels = np.concatenate([X, Q]), np.concatenate([y, t])
    preprocess = model.preprocess_
    whole = SoftVotingKNN(similarity, preprocess=preprocess, n_neighbors=20, vote="power",
                          index=Retrieval(fitted), random_state=0)  # fmt: skip
    whole.fit(everything, labels)
    assert_array_equal(model.predict_proba(Q), whole.predict_proba(Q))
    for kind in ("vectors", "function"):
        model = classifier(retrieval_of(kind, X), "power").fit(X, y)
        with pytest.raises(ValueError, match="cannot find the neighbours of new rows; fit again"):
            model.add(Q, t)


def test_partial_fit_searches_by_the_retrieval(data):
    X, y, Q, t = data
    settings = {"prepare": None, "n_neighbors": 9, "max_epochs": 1, "random_state": 0}
    model = SLNE("softmax", execution=Execution(index=Retrieval(ROOTS)), **settings).fit(X, y)
    made = model.retrieval_.transformer_.transform(np.concatenate([X, Q]))
    model.partial_fit(Q, t)
    seen = model._cached_seen.neighbors
    for i in range(300, 400):
        assert set(seen[[i]].indices) == set(naive(made, 9)[i])
    for kind in ("vectors", "function"):
        other = SLNE(execution=Execution(index=retrieval_of(kind, X)), **settings).fit(X, y)
        with pytest.raises(ValueError, match=r"cannot find .* fit on all rows"):
            other.partial_fit(Q, t)


def test_refreshed_rounds_start_from_the_retrieval(data):
    X, y, _, _ = data
    settings = {"prepare": None, "n_neighbors": 9, "max_epochs": 1, "random_state": 0}
    found = Execution(index=Retrieval(ROOTS), refresh=1)
    by_itself = SLNE(execution=found, **settings).fit(X, y)
    lists = lists_by_hand("transformer", X, 9)
    by_lists = SLNE(execution=Execution(refresh=1), **settings).fit(X, y, neighbors=lists)
    assert_array_equal(by_itself.matrix_, by_lists.matrix_)


def test_memory_maps_are_searched_in_place(data, tmp_path):
    X, *_ = data
    np.save(tmp_path / "vectors.npy", np.ascontiguousarray(X[:, :3]))
    vectors = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    found = clone(Retrieval(vectors)).fit(X)
    assert np.shares_memory(found.vectors_, vectors)
    assert_array_equal(found.lists(5), naive(X[:, :3], 5))


def test_the_choice_among_candidates_may_have_a_retrieval(data):
    X, y, Q, t = data
    model = SoftVotingKNN(index=Retrieval(ROOTS), random_state=0).fit(X, y)
    k = model.shortlist_length
    near = nearest(
        model.retrieval_.vectors_, k, queries=model.retrieval_.transformer_.transform(Q)
    )[1]
    assert_array_equal(model.predict(Q), model.predict(Q, neighbors=near))
    assert model.score(Q, t) > 0.5


def labelled():
    return Retrieval(WithinClassWhitening())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SLNE(validation_fraction=0.2, execution=Execution(index=labelled())), "learns from label"),
        (classifier(labelled(), preprocess=None), "vote='auto' chooses on held-out rows, and"),
        (SLDE(SLNE(execution=Execution(index=labelled())), weights="accuracy"), "learns from"),
        (SoftVotingKNN(SLNE(execution=Execution(index=Retrieval()))), "searches for its learner"),
        (SLNE(execution=Execution(index=Retrieval("roots"))), r"index.source='roots' must be a tr"),
        (SLNE(execution=Execution(index=Retrieval(Preprocess))), "not a class: give Preprocess()"),
        (SLNE(execution=Execution(index=Retrieval(index=3))), "index.index=3 must be a string"),
        (SLNE(execution=Execution(index=3)), r"execution.index=3 must be a string.*or Retrieval"),
        (classifier(Retrieval(Preprocess(power=-1))), "index.source.power=-1 must be"),
        (classifier(Retrieval(np.zeros((5, 2)))), "source has 5 rows and X has 300"),
        (classifier(Retrieval(lambda rows, k: rows)), "source returned float32 for 300 rows"),
        (
            classifier(Retrieval(lambda rows, k: [1, 2])),
            r"an array of shape \(2,\)",
        ),
    ],
)
def test_what_cannot_be_is_refused(data, model, message):
    X, y, _, _ = data
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_judgements_are_searched_under_the_similarity(data):
    X, _, Q, _ = data
    pairs = [[0, 1], [2, 3]]
    for model in (SLNE(execution=Execution(index=Retrieval())),
                  SLDE(SLNE(execution=Execution(index=Retrieval())))):  # fmt: skip
        with pytest.raises(ValueError, match="no effect: fit_pairs searches under M"):
            model.fit_pairs(Q, X, pairs)


def test_short_lists_of_a_function_are_padded(data):
    X, *_ = data
    found = Retrieval(lambda rows, k: np.tile([0, 1, -1], (len(rows), 1))).fit(X)
    assert_array_equal(
        found.lists(4)[[0, 1, 2]], [[1, -1, -1, -1], [0, -1, -1, -1], [0, 1, -1, -1]]
    )
