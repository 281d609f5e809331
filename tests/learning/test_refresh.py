"""Neighbourhoods searched again under the learned similarity."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from nearkin import SLDE, SLNE, Execution
from nearkin.learning.refresh import refreshed
from nearkin.neighborhoods import as_graph
from nearkin.neighbors import nearest
from samples import blobs


@pytest.mark.parametrize("graph", [False, True])
def test_lists_by_the_naive_form(graph, monkeypatch):
    monkeypatch.setattr("nearkin.learning.refresh._BLOCK", 37)
    X, _ = blobs(n=100, dims=5)
    M = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)
    lists = nearest(X, 4)[1]
    found = refreshed(as_graph(lists, 100) if graph else lists, X, M, 6, "exact")
    scores = X.astype(float) @ M @ X.T
    np.fill_diagonal(scores, -np.inf)
    for i in range(100):
        best = np.argsort(-scores[i])[:6]
        assert_array_equal(found[i, :6], best)
        assert set(found[i, 6:]) - {-1} == set(lists[i]) - set(best)


def settings(refresh, **others):
    execution = Execution(refresh=refresh, index="exact")
    return {"n_neighbors": 10, "max_epochs": 2, "random_state": 0, "execution": execution} | others


def test_a_round_is_a_fit_on_the_lists_that_were_found():
    X, y = blobs(n=300, dims=6, spread=1.0)
    once = SLNE("softmax", prepare=None, **settings(0)).fit(X, y)
    lists = refreshed(nearest(X, 10)[1], X, once.matrix_, 10, "exact")
    by_hand = SLNE("softmax", prepare=None, **settings(0)).fit(X, y, neighbors=lists)
    assert_array_equal(
        SLNE("softmax", prepare=None, **settings(1)).fit(X, y).matrix_, by_hand.matrix_
    )


def test_far_rows_no_longer_become_similar():
    """On rows that are not centred, learning near rows only makes far ones similar."""
    X, y = load_digits(return_X_y=True)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    X, Q, y, truth = X[:800], X[800:1200], y[:800], y[800:1200]

    def precision(refresh):
        model = SLNE(prepare=None, random_state=0, execution=Execution(refresh=refresh)).fit(X, y)
        found = np.argsort(-model.transform_query(Q) @ X.T, axis=1)[:, :10]
        return (y[found] == truth[:, None]).mean()

    assert precision(1) > precision(0) + 0.02


def test_a_round_that_held_out_rows_lose_by_is_dropped():
    X, y = blobs(n=300, dims=6, spread=1.5)
    for seed in range(5):
        also = {"validation_fraction": 0.3, "random_state": seed}
        scores = [
            max(h["validation"] for h in SLNE("softmax", **settings(r, **also)).fit(X, y).history_)
            for r in (0, 1)
        ]
        assert scores[1] >= scores[0]


def test_a_killed_fit_resumes_in_its_round(tmp_path):
    X, y = blobs(n=200, dims=6)
    whole = SLNE("softmax", **settings(1)).fit(X, y)
    kept = SLNE("softmax", **settings(1)).fit(X, y, folder=tmp_path / "run")
    again = SLNE("softmax", **settings(1)).fit(X, y, folder=tmp_path / "run")
    assert_array_equal(whole.matrix_, kept.matrix_)
    assert_array_equal(whole.matrix_, again.matrix_)


def test_an_ensemble_does_not_search_again():
    with pytest.raises(ValueError, match="refresh=1: members share one graph"):
        SLDE(SLNE(**settings(1)), n_members=2).fit(*blobs(n=100, dims=6))


def test_an_index_that_cannot_search_again_is_refused_before_anything_is_learned():
    epochs = []
    execution = Execution(refresh=1, index="LSH", callback=lambda epoch, _: epochs.append(epoch))
    with pytest.raises(ValueError, match="index='LSH' does not search by metric='dot'"):
        SLNE(execution=execution).fit(*blobs(n=100, dims=6))
    assert not epochs
