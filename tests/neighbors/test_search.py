"""What `nearest` and `recall` promise, whatever the back end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.topk import smallest
from nearkin.neighbors import nearest, recall


def naive(X, queries, k, own=None):
    d = np.linalg.norm(queries[:, None].astype(float) - X[None], axis=2)
    if own is not None:
        d[np.arange(len(own)), own] = np.inf
    return np.sort(d, axis=1)[:, :k]


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(400, 9)).astype(np.float32)


def test_hashing_is_approximate_but_its_distances_are_true(rows):
    distances, indices = nearest(rows, 5, index="LSH")
    true = np.linalg.norm(rows[:, None] - rows[indices], axis=2)
    np.testing.assert_allclose(distances, true, rtol=1e-4)
    assert 0 < recall(rows, indices) < 1


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 1000), st.integers(1, 4))
@settings(deadline=None, max_examples=30)
def test_duplicates_keep_themselves_out(n, k, seed, distinct):
    rows = np.random.default_rng(seed).integers(0, distinct, size=(n, 2)).astype(np.float32)
    k = min(k, n - 1)
    distances, indices = nearest(rows, k)
    assert (indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in indices.tolist())
    np.testing.assert_allclose(distances, naive(rows, rows, k, np.arange(n)), atol=1e-6)


def test_far_from_the_origin():
    """|x|² + |z|² − 2xz would lose these distances in float32."""
    rows = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32) + 1_000
    _, indices = nearest(rows, 5)
    assert recall(rows - 1_000, indices) > 0.999


@pytest.mark.parametrize("n", [4_096, 4_097, 9_000])
def test_blocks_of_queries_are_joined(n):
    rows = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    some = np.array([0, 4_094, 4_095, n // 2, n - 2, n - 1])
    distances, _ = nearest(rows, 3)
    np.testing.assert_allclose(distances[some], naive(rows, rows[some], 3, some), rtol=1e-4)
    distances, _ = nearest(rows, 3, queries=rows)
    np.testing.assert_allclose(distances[some], naive(rows, rows[some], 3), rtol=1e-4)


def test_read_only_memory_map(rows, tmp_path):
    np.save(tmp_path / "x.npy", rows)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(nearest(mapped, 4)[1], nearest(rows, 4)[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k=0 must be a whole number >= 1"),
        ({"k": 2.5}, r"k=2\.5 must be a whole number >= 1"),
        ({"k": 400}, "between 1 and 399"),
        ({"k": 3, "index": "nonsense"}, "index='nonsense' is not known; use 'auto'"),
        ({"k": 3, "index": 7}, "index=7 must be"),
        ({"k": 3, "index": "IVF4096,Flat"}, "cannot be trained on 400 rows"),
        ({"k": 3, "index": "IVF10,Flat;foo=3"}, "settings 'foo=3': after the semicolon"),
        ({"k": 3, "index": "IVF10,Flat;nprobe"}, "settings 'nprobe': after the semicolon"),
        ({"k": 3, "index": "IVF10,Flat;nprobe=0"}, "nprobe=0 must lie between 1 and 1048576"),
        ({"k": 3, "index": "IDMap,Flat"}, "index='IDMap,Flat' is not known"),
        (
            {"k": 3, "index": "HNSW8;nprobe=2"},
            r"'nprobe=2' \(could not set.*nprobe\); after",
        ),
        ({"k": 3, "index": "exact;foo"}, "'exact' takes no settings"),
        ({"k": 3, "index": "auto;foo=1"}, "'auto' takes one setting, a recall"),
        ({"k": 3, "index": "auto;recall=1.5"}, "'auto' takes one setting, a recall between 0 and"),
        ({"k": 3, "index": "cells;recall"}, "such as 'cells;recall=0.9'"),
        ({"k": 3, "queries": np.zeros((2, 5))}, "queries has 5 columns where 9"),
        ({"k": 3, "queries": [[np.nan] * 9]}, "queries contains NaN"),
    ],
)
def test_bad_input(rows, arguments, message):
    with pytest.raises(ValueError, match=message):
        nearest(rows, **arguments)


@pytest.mark.parametrize("index", [7, "exact;foo", "cells;recall=2"])
def test_no_folder_for_a_bad_index(rows, index, tmp_path):
    with pytest.raises(ValueError, match="index="):
        nearest(rows, 3, index=index, folder=tmp_path / "lists")
    assert not (tmp_path / "lists").exists()


def test_one_row_has_no_neighbours():
    with pytest.raises(ValueError, match=r"X has one row.*at least two rows"):
        nearest([[1.0, 2.0]], 1)
    assert nearest([[1.0, 2.0]], 1, queries=[[0.0, 0.0]])[1].tolist() == [[0]]


@pytest.mark.parametrize("X", [np.zeros(3), np.zeros((0, 3)), np.zeros((3, 0)), [["a"], ["b"]]])
def test_bad_rows(X):
    with pytest.raises(ValueError, match="X "):
        nearest(X, 1)


@given(st.integers(1, 300), st.integers(1, 60), st.integers(0, 2**32 - 1), st.booleans())
@settings(deadline=None, max_examples=60)
def test_smallest_is_a_sort_cut_short(n, wanted, seed, ties):
    rng = np.random.default_rng(seed)
    D, offsets = (rng.normal(size=size).astype(np.float32) for size in ((5, n), n))
    if ties:
        D, offsets = np.round(D), np.round(offsets)
    wanted = min(wanted, n)
    values, columns = smallest(D, offsets, wanted)
    np.testing.assert_array_equal(values, np.sort(D + offsets, axis=1)[:, :wanted])
    np.testing.assert_array_equal(np.take_along_axis(D + offsets, columns, axis=1), values)
    assert all(len(set(row)) == wanted for row in columns)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ((np.zeros((400, 3), int), np.zeros((400, 3))), "is a pair.*give its second part"),
        (np.zeros((399, 3), int), r"shape \(399, 3\).*with n=400, one list for each row"),
        (np.zeros(400, int), r"shape \(400,\)"),
        (np.zeros((400, 3)), "type float64"),
        (np.zeros((400, 400), int), "lists 400 neighbours a row.*between 1 and 399"),
        (np.zeros((400, 0), int), "lists 0 neighbours a row"),
        ([[1, 2], [0]] * 200, "different lengths"),
        (np.full((400, 3), 400), "holds rows 400 to 400.*between 0 and 399"),
        (np.full((400, 3), -2), "holds rows -2 to -2"),
        (np.ma.masked_equal(np.zeros((400, 3), int), 0), r"masked array; give indices\.filled"),
    ],
)
def test_recall_of_what_is_no_list(rows, indices, message):
    with pytest.raises(ValueError, match=f"indices .*{message}"):
        recall(rows, indices)


def test_recall_on_a_whole_number_of_rows(rows):
    with pytest.raises(ValueError, match=r"sample=2\.5 must be a whole number"):
        recall(rows, nearest(rows, 3)[1], sample=2.5)
