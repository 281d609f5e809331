"""The objective (Eq. 6) against a sum over all triplets."""

import numpy as np
import pytest

import oracle
from nearkin.learning.objective import edge_scores, objective
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from samples import blobs


@pytest.mark.parametrize("margin", [0.0, 0.02, 0.5])
def test_objective_is_the_sum_over_all_triplets(margin):
    X, y = blobs(n=90)
    lists = nearest(X, 9)[1]
    M = np.random.default_rng(0).normal(size=(X.shape[1],) * 2).astype(np.float32)
    graph = neighborhoods(lists, y).arrays
    expected = oracle.objective(M.astype(float), X, y, lists, margin)
    assert objective(graph, edge_scores(X, graph, M), margin) == pytest.approx(expected, rel=1e-4)
