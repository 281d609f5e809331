"""The shortlist of rows with random features, searched in their linear columns."""

import numpy as np
import pytest

import nearkin
from nearkin import SLNE, FourierFeatures, Preprocess, SoftVotingKNN, Vote
from nearkin.learning.memory import check_classifier
from nearkin.neighbors import nearest
from nearkin.selection import full_size
from nearkin.serve import crossfit
from nearkin.serve.side import Side
from nearkin.voting.parts import Parts
from samples import blobs

N_WAVES, LINEAR_COLUMNS, K = 30, 16, 9


def fitted(X, y, linear=0.5):
    waves = FourierFeatures(
        Preprocess(LINEAR_COLUMNS, unit_length=False), n_features=N_WAVES, linear=linear
    )
    learner = SLNE(n_neighbors=10, random_state=0)
    return SoftVotingKNN(
        learner, preprocess=waves, n_neighbors=K, vote="power", random_state=0
    ).fit(X, y)


@pytest.fixture(scope="module")
def data():
    X, y = blobs(n=200, dims=18)
    return X[:150], y[:150], X[150:]


def by_hand(rows, queries, k=K):
    """The k nearest rows of each query, nearest first."""
    return np.argsort(((queries[:, None] - rows) ** 2).sum(axis=2), axis=1)[:, :k]


def test_the_shortlist_is_nearest_in_the_linear_columns(data):
    X, y, Q = data
    model = fitted(X, y)
    queries = model.prepared(Q)
    rows, asked = model.database_[:, 2 * N_WAVES :], queries[:, 2 * N_WAVES :]
    assert rows.shape[1] == LINEAR_COLUMNS
    near = by_hand(rows, asked)
    assert (np.sort(model.kneighbors(Q)[1], axis=1) == np.sort(near, axis=1)).all()
    # … though all columns, which are scored, have others
    assert (np.sort(by_hand(model.database_, queries), axis=1) != np.sort(near, axis=1)).any()
    lists = np.argsort(((rows[:, None] - rows) ** 2).sum(axis=2), axis=1)[:, 1:11]
    again = SLNE(n_neighbors=10, prepare=None).set_params(
        random_state=model.similarity_.random_state
    )
    again.fit(model.database_, y, neighbors=lists)
    np.testing.assert_array_equal(again.matrix_, model.similarity_.matrix_)


def test_a_shortlist_by_cells_survives_saving(data, tmp_path):
    X, y, Q = data
    model = fitted(X, y).set_params(index="cells")
    model._cached_index = None
    model.add(X[:20] + 0.01, y[:20]).save(tmp_path / "model")
    again = nearkin.load(tmp_path / "model")
    assert again.search_index_ is not None
    queries = model.prepared(Q)
    rows, asked = model.database_[:, 2 * N_WAVES :], queries[:, 2 * N_WAVES :]
    expected = nearest(np.ascontiguousarray(rows), K, queries=asked, index="cells")[1]
    for one in (model, again):
        found = np.sort(one.kneighbors(Q)[1], axis=1)
        np.testing.assert_array_equal(found, np.sort(expected, axis=1))


def test_memory_for_the_columns_that_are_searched_is_checked(data, monkeypatch):
    X, stages = data[0], {}
    monkeypatch.setattr(
        "nearkin.validation.memory.check", lambda _, needed, __: stages.update(needed)
    )
    needed = []
    for share in (0.4, 0.5):  # below half a share all columns are searched
        waves = FourierFeatures(Preprocess(LINEAR_COLUMNS), n_features=N_WAVES, linear=share)
        check_classifier(X, Parts(SLNE(), waves, K, Vote("softmax")), "auto", False)
        needed.append(dict(stages))
    for stage, before in needed[0].items():
        assert needed[1][stage] == before + 4 * len(X) * LINEAR_COLUMNS


def test_settling_asks_the_rows_that_queries_get(data):
    X, y, _ = data
    model, at = fitted(X, y), np.array([3, 8, 100])
    rows = model.database_[:, 2 * N_WAVES :]
    near = by_hand(rows, rows[at], 101)
    assert (full_size._nearest_others(model, at) == near[:, 1:]).all()


def test_a_model_learned_again_for_a_review_searches_the_same_columns(data):
    X, y, _ = data
    model = fitted(X, y)
    held = np.arange(len(y)) < 30
    again = crossfit.without(model, held, K)
    rows = model.database_[:, 2 * N_WAVES :]
    found = again.kneighbors(np.ascontiguousarray(model.database_[held]))[1]
    near = by_hand(rows[~held], rows[held])
    assert (np.sort(found, axis=1) == np.sort(near, axis=1)).all()


def test_without_linear_columns_all_are_searched(data):
    X, y, Q = data
    model = fitted(X, y, linear=0.0)
    near = by_hand(model.database_, model.prepared(Q))
    assert (np.sort(model.kneighbors(Q)[1], axis=1) == np.sort(near, axis=1)).all()


def test_a_saved_model_finds_the_same(data, tmp_path):
    X, y, Q = data
    model = fitted(X, y).add(X[:20] + 0.01, y[:20])
    model.save(tmp_path / "model")
    again = nearkin.load(tmp_path / "model")
    for one in (again, again.on_prepared_rows()):
        asked = Q if one is again else model.prepared(Q)
        for a, b in zip(model.kneighbors(Q), one.kneighbors(asked)):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(model.predict_proba(Q), one.predict_proba(asked))


def test_a_file_from_before_searches_all_columns(data, tmp_path):
    X, y, Q = data
    model = fitted(X, y)
    del model.n_search_columns_, model.preprocess_.n_search_columns_
    model.save(tmp_path / "old")
    again = nearkin.load(tmp_path / "old")
    near = by_hand(again.database_, again.prepared(Q))
    assert (np.sort(again.kneighbors(Q)[1], axis=1) == np.sort(near, axis=1)).all()


def test_the_service_finds_the_same(data):
    X, y, Q = data
    side = Side(fitted(X, y))  # whose shortlist has one row more
    rows = side.searched
    assert rows.shape[1] == LINEAR_COLUMNS
    queries = side.model.prepared(Q)[:, 2 * N_WAVES :]
    assert (side.near_vectors(Q).indices == by_hand(rows, queries, K + 1)).all()
    assert (side.near_stored(np.arange(9)).indices[:, 0] == np.arange(9)).all()
