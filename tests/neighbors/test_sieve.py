"""The sieve of exact search never rules out one of the nearest rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.jit import target_features
from nearkin.native.threads import limited
from nearkin.neighbors import nearest
from nearkin.neighbors.exact import SIEVE_QUERIES, Exact
from nearkin.neighbors.lists import query_neighbors
from nearkin.neighbors.sieve import ByteSieve
from nearkin.neighbors.sizes import has_sieve

pytestmark = pytest.mark.skipif(
    "avx512vnni" not in target_features(), reason="without VNNI exact search has no sieve"
)
N, DIMS = 3_000, 70
rng = np.random.default_rng(0)


def blobs(distance):
    return rng.normal(size=(N, DIMS)) + distance * rng.integers(0, 3, (N, 1))


def with_an_outlier():
    rows = rng.normal(size=(N, DIMS))
    rows[3] = 1e6
    return rows


CASES = {
    "normal": rng.normal(size=(N, DIMS)),
    "blobs": blobs(50),
    "sorted blobs": np.sort(blobs(50), axis=0),
    "far from the origin": rng.normal(size=(N, DIMS)) + 1e3,
    "an outlier": with_an_outlier(),
    "many equal distances": rng.integers(0, 2, (N, DIMS)),
    "few distinct rows": np.repeat(rng.normal(size=(10, DIMS)), N // 10, axis=0),
    "long tails": rng.lognormal(0, 2, (N, DIMS)),
    "uneven columns": rng.normal(size=(N, DIMS)) * np.logspace(-4, 4, DIMS),
    "long": rng.normal(size=(N, DIMS)) * 1e15,
    "short": rng.normal(size=(N, DIMS)) * 1e-15,
    "zeros": np.zeros((N, DIMS)),
}


def values(rows, queries, metric):
    """Small for near rows, in double precision."""
    Z, Q = rows.astype(float), queries.astype(float)
    if metric == "dot":
        return -Q @ Z.T
    return np.array([np.square(Z - q).sum(axis=1) for q in Q])


def sieve_of(rows, metric="euclidean"):
    index = Exact(rows, metric=metric)
    return index, ByteSieve(rows, index.centre, index._blocks, metric)


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
@pytest.mark.parametrize("k", [1, 20, 200])
@pytest.mark.parametrize("name", CASES)
def test_what_is_sure_holds_the_nearest(name, k, metric):
    rows = CASES[name].astype(np.float32)
    queries = np.ascontiguousarray(rows[::30] + np.float32(1e-3) * rows[1::30])
    index, sieve = sieve_of(rows, metric)
    near, sure = sieve.search(queries, index._centred(queries), k)
    true = values(rows, queries, metric)
    for found, own in zip(near[sure], true[sure]):
        kept = np.zeros(N, bool)
        kept[found[found >= 0]] = True
        assert own[~kept].min() >= np.sort(own)[k - 1]


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_surely_nearest_is(name, metric):
    rows, k = CASES[name].astype(np.float32), 7
    queries = np.ascontiguousarray(rows[::30] + np.float32(1e-3) * rows[1::30])
    index, sieve = sieve_of(rows, metric)
    near, sure = sieve.nearest(queries, index._centred(queries), k, 300)
    true = values(rows, queries, metric)[sure]
    lengths = (
        np.linalg.norm(queries[sure].astype(float), axis=1) * np.linalg.norm(rows, axis=1).max()
    )
    found = np.take_along_axis(true, near[sure], axis=1).max(axis=1)
    assert (found <= np.sort(true, axis=1)[:, k - 1] + 1e-6 * np.maximum(lengths, found)).all()
    assert sure.any() or name not in ("normal", "long", "far from the origin")


@pytest.mark.parametrize("name", ["normal", "uneven columns", "long", "far from the origin"])
def test_the_sieve_decides(name):
    """Otherwise it would be slower than without it."""
    rows = CASES[name].astype(np.float32)
    index, sieve = sieve_of(rows)
    near, sure = sieve.search(rows, index._centred(rows), 20)
    assert sure.mean() > 0.95
    assert (near >= 0).sum(axis=1).mean() < 124


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
@pytest.mark.parametrize("name", CASES)
def test_lists_are_those_without_a_sieve(name, metric):
    rows, k = CASES[name].astype(np.float32), 15
    many, few = Exact(rows, metric=metric), Exact(rows, metric=metric)
    queries = rows[: 2 * SIEVE_QUERIES]
    sieved = query_neighbors(many, rows, queries, k)
    blocks = [query_neighbors(few, rows, queries[lo : lo + 64], k) for lo in range(0, 448, 64)]
    assert many._sieve is not None
    assert few._sieve is None
    for found, plain in zip(sieved, zip(*blocks)):
        np.testing.assert_array_equal(found[:448], np.concatenate(plain))


@settings(deadline=None, max_examples=20)
@given(
    st.integers(2_048, 5_000), st.integers(64, 90), st.integers(1, 60), st.floats(-8, 8),
    st.integers(0, 2**31),
)  # fmt: skip
def test_any_rows(n, dims, k, exponent, seed):
    draw = np.random.default_rng(seed)
    scales = 10**exponent * draw.lognormal(0, 2, dims)
    rows = (draw.normal(size=(n, dims)) * scales).astype(np.float32)
    rows[draw.integers(0, n, 99)] = rows[0]  # equal ones
    distances, indices = nearest(rows, k, index="exact")
    at = draw.integers(0, n, 40)
    true = values(rows, rows[at], "euclidean")
    true[np.arange(40), at] = np.inf
    expected = np.sqrt(np.sort(true, axis=1)[:, :k])
    np.testing.assert_allclose(distances[at], expected, rtol=1e-4)
    np.testing.assert_allclose(
        np.sqrt(np.take_along_axis(true, indices[at], axis=1)), expected, rtol=1e-4
    )


def test_the_same_bits_for_any_number_of_threads():
    rows = CASES["normal"].astype(np.float32)
    together = nearest(rows, 30, index="exact")
    with limited(1):
        alone = nearest(rows, 30, index="exact")
    for one, other in zip(together, alone):
        np.testing.assert_array_equal(one, other)


def test_rows_are_not_coded_for_few_queries():
    rows = CASES["normal"].astype(np.float32)
    index = Exact(rows)
    index.search(rows[:10], 5)
    assert index._sieve is None
    assert not has_sieve(1_000, DIMS, 5)
    assert not has_sieve(N, DIMS, 500)
    assert not has_sieve(N, 70_000, 5)  # sums would overflow
    assert has_sieve(N, DIMS, 20)


def test_a_sieve_that_does_not_decide_is_left_out():
    rows = CASES["zeros"].astype(np.float32)
    index = Exact(rows)
    for _ in range(2):
        index.search(rows[:SIEVE_QUERIES], 5)
    assert index._sieve_for(1, 5) is None
