"""Exact search is exact, wherever the rows lie."""

import numpy as np
import pytest

from nearkin.neighbors import NeighborIndex, nearest, recall
from nearkin.neighbors.exact import Exact
from nearkin.neighbors.lists import row_neighbors

rng = np.random.default_rng(0)


def far_apart(distance, n=400, dims=8):
    rows = rng.normal(size=(n, dims))
    rows[n // 2 :] += distance
    return rows


def towns(n=400):
    """Metres: a country across, and people close together."""
    return rng.uniform(0, 1e6, (20, 2))[rng.integers(0, 20, n)] + 500 * rng.normal(size=(n, 2))


def with_an_outlier():
    rows = rng.normal(size=(400, 8))
    rows[3] = 1e8
    return rows


CASES = {
    "blobs, 100 apart": far_apart(100),
    "blobs, 3,000 apart": far_apart(3_000),
    "towns": towns(),
    "an outlier": with_an_outlier(),
    "far from the origin": rng.normal(size=(400, 20)) + 1e4,
    "many equal distances": rng.integers(0, 2, (400, 10)),
    "few distinct rows": np.repeat(rng.normal(size=(10, 4)), 40, axis=0),
    "long tails": rng.lognormal(0, 3, (400, 30)),
    "very long rows": rng.normal(size=(400, 5)) * 1e18,
    "nothing but zeros": np.zeros((400, 3)),
}


def naive(rows, queries):
    return np.linalg.norm(queries[:, None].astype(float) - rows[None].astype(float), axis=2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 20, 395])
@pytest.mark.parametrize("block_bytes", [4 * 5 * 150, 1 << 20])  # several blocks, and one
def test_no_nearer_row_is_left_out(name, k, block_bytes):
    rows = CASES[name].astype(np.float32)
    index = Exact(rows, block_bytes=block_bytes)
    distances, indices = row_neighbors(index, rows, np.arange(len(rows)), k)
    far = naive(rows, rows)
    np.fill_diagonal(far, np.inf)
    np.testing.assert_allclose(distances, np.sort(far, axis=1)[:, :k], rtol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(far, indices, axis=1), distances, rtol=1e-5)
    assert all(len(set(near)) == k for near in indices.tolist())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 20, 395])
@pytest.mark.parametrize("block_bytes", [4 * 5 * 150, 1 << 20])
def test_no_larger_product_is_left_out(name, k, block_bytes):
    rows = CASES[name].astype(np.float32)
    index = Exact(rows, metric="dot", block_bytes=block_bytes)
    products, indices = row_neighbors(index, rows, np.arange(len(rows)), k)
    true = rows.astype(float) @ rows.astype(float).T
    np.fill_diagonal(true, -np.inf)
    lengths = np.linalg.norm(rows.astype(float), axis=1)
    rounding = 1e-6 * lengths[:, None] * lengths.max()  # of products that nearly cancel
    best = -np.sort(-true, axis=1)[:, :k]
    assert (np.abs(products - best) <= rounding).all()
    assert (np.abs(np.take_along_axis(true, indices, axis=1) - best) <= rounding).all()
    assert all(len(set(near)) == k for near in indices.tolist())


def test_products_with_queries_of_their_own():
    rows = (far_apart(30) * rng.uniform(0.1, 9, (400, 1))).astype(np.float32)
    queries = rng.normal(size=(70, 8)).astype(np.float32)
    products, indices = NeighborIndex(rows, "exact", metric="dot").nearest(9, queries)
    true = queries.astype(float) @ rows.T
    np.testing.assert_array_equal(indices, np.argsort(-true, axis=1)[:, :9])
    np.testing.assert_allclose(products, -np.sort(-true, axis=1)[:, :9], rtol=1e-4)


def test_an_index_that_knows_distances_only():
    with pytest.raises(ValueError, match="'HNSW8' does not search by metric='dot'"):
        NeighborIndex(towns(), "HNSW8", metric="dot")
    with pytest.raises(ValueError, match="metric='cosine' must be"):
        NeighborIndex(towns(), metric="cosine")


def test_queries_of_their_own():
    rows = far_apart(3_000).astype(np.float32)
    queries = rows[::7] + np.float32(0.1)
    distances, _ = nearest(rows, 9, queries=queries, index="exact")
    np.testing.assert_allclose(distances, np.sort(naive(rows, queries), axis=1)[:, :9], rtol=1e-5)


def test_products_alone_lose_neighbours():
    rows = far_apart(3_000, n=600).astype(np.float32)
    _, by_products = Exact(rows).topk(rows, 6)
    without_self = np.array([[j for j in near if j != i][:5] for i, near in enumerate(by_products)])
    assert recall(rows, without_self) < 0.9
    assert recall(rows, nearest(rows, 5)[1]) == 1


@pytest.mark.parametrize("dims", [3, 100, 1_000])
@pytest.mark.parametrize("shift", [0, 50])
def test_the_error_bound_holds(dims, shift):
    rows = rng.exponential(size=(300, dims)).astype(np.float32)
    index = Exact(rows)
    index.centre = index.centre - np.float32(shift)  # as if the rows were far from it
    squared, near = index.topk(rows[:50], 300)
    true = np.take_along_axis(naive(rows, rows[:50]) ** 2, near, axis=1)
    for place in range(0, 300, 7):
        bound = index.error_bound(rows[:50], squared[:, place])
        assert (np.abs(squared[:, place] - true[:, place]) <= bound / 5).all()
