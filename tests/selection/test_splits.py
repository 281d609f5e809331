"""Rows held out, their neighbours, and what learners share of the others."""

import numpy as np
import pytest

from nearkin import FourierFeatures, Preprocess
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import NeighborIndex
from nearkin.selection.candidates import Starts
from nearkin.selection.splits import Graphs, Split
from samples import blobs


def split(n=120, held=30):
    X, y = blobs(n=n, dims=5)
    return Split(X, y, np.arange(n) < held, 4)


def nearest_by_hand(rows, queries=None):
    distances = np.linalg.norm((rows if queries is None else queries)[:, None] - rows, axis=2)
    if queries is None:
        np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1)


def test_lists_are_searched_for_once(monkeypatch):
    searched, lists = [], NeighborIndex.lists
    monkeypatch.setattr(
        NeighborIndex, "lists", lambda self, k: searched.append(k) or lists(self, k)
    )
    X, y = blobs(n=60, dims=5)
    graphs = Graphs(NeighborIndex(X), y)
    assert not searched
    for k in (10, 20, 5, 20, 59, 100):
        expected = nearest_by_hand(X)[:, : min(k, 59)]
        np.testing.assert_array_equal(graphs.lists(k), expected)
    assert searched == [10, 20, 59]


def test_graphs_are_those_of_the_lists():
    X, y = blobs(n=60, dims=5)
    graphs = Graphs(NeighborIndex(X), y)
    for k in (5, 20, 20, 5):
        graph = graphs.graph(k)
        expected = neighborhoods(nearest_by_hand(X)[:, :k], y, hub_limit=10)
        for name in ("indptr", "indices", "n_targets"):
            np.testing.assert_array_equal(getattr(graph, name), getattr(expected, name))


def test_neighbours_in_the_linear_columns_of_fourier_features():
    X, y = blobs(n=120, dims=18)
    waves = FourierFeatures(Preprocess(16, unit_length=False), n_features=20, linear=0.5)
    of_many_columns = Split(X, y, np.arange(120) < 30, 4)
    prepared = of_many_columns.prepare(waves.set_params(random_state=0), 10)
    rows, queries = prepared.rows[:, 40:], prepared.queries[:, 40:]
    assert rows.shape[1] == 16
    np.testing.assert_array_equal(prepared.near, nearest_by_hand(rows, queries)[:, :10])
    np.testing.assert_array_equal(
        prepared.of_length(30).near, nearest_by_hand(rows, queries)[:, :30]
    )
    np.testing.assert_array_equal(prepared.graphs.lists(10), nearest_by_hand(rows)[:, :10])


def test_more_and_fewer_neighbours_of_prepared_rows():
    prepared = split().prepare(None, 10)
    near = nearest_by_hand(prepared.rows, prepared.queries)
    for k in (10, 20, 3, 90, 500):
        other = prepared.of_length(k)
        np.testing.assert_array_equal(other.near, near[:, :k])
        assert other.graphs is prepared.graphs
        again = split().prepare(None, k)
        np.testing.assert_allclose(other.distances(), again.distances(), rtol=1e-4)


@pytest.mark.parametrize(("rows", "features"), [(100, 50), (600, 150), (9_000, 160)])
def test_half_of_the_random_features_until_the_last(rows, features):
    starts = Starts(blobs(dims=5)[0], rows, seed=0, wide=False)
    found = starts.fourier(Preprocess(5))
    assert [start.n_features for start in found] == [features // 2]
    others = starts.bandwidths(found[0])
    assert {start.n_features for start in others} == {features // 2}
    assert [(start.bandwidth, start.linear) for start in others] == [
        (1.2, 0.5),
        (2.5, 0.5),
        (2.5, 0),
    ]
    assert not starts.bandwidths(Preprocess(5))
    finer = starts.finer(found[0])
    assert isinstance(finer, FourierFeatures)
    assert finer.n_features == features
    assert repr(finer.set_params(n_features=features // 2)) == repr(found[0])
    assert starts.finer(finer.set_params(n_features=500)).n_features == 500
    assert repr(starts.finer(Preprocess(5))) == repr(Preprocess(5))
