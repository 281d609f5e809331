"""Weights of rows, and rows with several labels: the same steps on another graph."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from nearkin import SLNE, Execution, WithinClassWhitening
from nearkin.neighborhoods import neighborhoods, split_by_shared_labels
from nearkin.neighbors import nearest
from samples import blobs


def given(**settings):
    """Rows in their own order, so that the naive form needs no random numbers."""
    settings = {"n_neighbors": 8, "max_epochs": 1, "tol": 0, "random_state": 0} | settings
    return SLNE.paper("all", execution=Execution(order="given"), **settings)


def naive(X, splits, weights, step_size=0.2, margin=0.02):
    """An epoch of the rule "all", a row at a time."""
    M, scale = np.eye(X.shape[1]), np.square(X).sum(axis=1).mean()
    for t, (x, (targets, impostors)) in enumerate(zip(X, splits)):
        if len(targets) and len(impostors):
            s_t, s_i = x @ M @ X[targets].T, x @ M @ X[impostors].T
            c_t, c_i, _ = oracle.weights("all", s_t, s_i, margin * scale, None, None)
            step = weights[t] * step_size / scale / np.sqrt(t / len(X) + 1)
            M = M + step * np.outer(x, c_t @ X[targets] + c_i @ X[impostors])
    return M


def test_weighted_steps_by_the_naive_form():
    X, y = blobs(n=150, dims=5)
    weights = np.random.default_rng(0).random(150)
    model = given().fit(X, y, sample_weight=weights)
    splits = oracle.split(oracle.symmetrised(nearest(X, 8)[1]), y)
    expected = naive(X.astype(float), splits, weights / weights.mean())
    assert_allclose(model.matrix_, expected, atol=1e-4)
    assert_array_equal(given().fit(X, y, sample_weight=np.full(150, 7.0)).matrix_,
                       given().fit(X, y).matrix_)  # fmt: skip


def shared(near, Y):
    return [
        ([j for j in row if (Y[i] & Y[j]).any()], [j for j in row if not (Y[i] & Y[j]).any()])
        for i, row in enumerate(near)
    ]


def test_rows_that_share_a_label_are_targets(monkeypatch):
    monkeypatch.setattr("nearkin.neighborhoods._SPLIT_ROWS", 40)
    X, _ = blobs(n=150, dims=5)
    Y = np.random.default_rng(0).random((150, 4)) < 0.3
    lists = nearest(X, 8)[1]
    expected = shared(oracle.symmetrised(lists), Y)
    graph = split_by_shared_labels(neighborhoods(lists, np.zeros(150, int)), Y)
    for i, (targets, impostors) in enumerate(expected):
        assert sorted(graph.targets(i)) == targets
        assert sorted(graph.impostors(i)) == impostors
    model = given().fit(X, Y.astype(int), neighbors=lists)
    assert_allclose(model.matrix_, naive(X.astype(float), expected, np.ones(150)), atol=1e-4)


def test_one_label_a_row_is_the_same_as_classes():
    X, y = blobs(n=150, dims=5)
    one = given().fit(X, y)
    assert_array_equal(one.matrix_, given().fit(X, np.eye(4, dtype=int)[y]).matrix_)


def test_what_needs_one_label_is_refused():
    X, y = blobs(n=150, dims=5)
    Y = np.eye(4, dtype=int)[y]
    with pytest.raises(ValueError, match=r"validation_fraction=0.2 .* y has several"):
        SLNE(validation_fraction=0.2).fit(X, Y)
    with pytest.raises(ValueError, match="prepare=WithinClassWhitening needs one label per row"):
        SLNE(prepare=WithinClassWhitening(unit_length=False)).fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit"):
        given().fit(X, Y).partial_fit(X, y)
