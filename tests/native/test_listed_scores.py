"""Scores and distances of listed pairs against numpy's."""

import numpy as np
import pytest

from nearkin.native.listed_scores import pair_closeness, pair_scores, pair_squared_distances


@pytest.fixture
def listed():
    rng = np.random.default_rng(0)
    Q, Z = rng.normal(size=(40, 7)).astype(np.float32), rng.normal(size=(9, 7)).astype(np.float32)
    return Q, Z, rng.integers(-1, 9, (40, 5)).astype(np.int32)


def test_scores(listed):
    Q, Z, indices = listed
    expected = np.where(indices < 0, -np.inf, np.einsum("nd,nkd->nk", Q, Z[indices]))
    np.testing.assert_allclose(pair_scores(Q, Z, indices), expected, rtol=1e-4, atol=1e-5)


def test_views_and_other_types(listed):
    """Columns of wider arrays, transposed ones, other widths of numbers."""
    Q, Z, indices = listed
    expected = pair_scores(Q, Z, indices)
    wide, long = np.c_[Z, Z], np.c_[indices, indices].astype(np.int64)
    np.testing.assert_array_equal(pair_scores(Q, wide[:, :7], long[:, :5]), expected)
    np.testing.assert_array_equal(pair_scores(np.asfortranarray(Q), Z, indices), expected)
    np.testing.assert_array_equal(pair_scores(Q.astype(float), Z, indices), expected)


def test_squared_distances_and_closeness(listed):
    Q, Z, indices = listed
    expected = np.where(indices < 0, np.inf, ((Q[:, None] - Z[indices]) ** 2).sum(axis=2))
    np.testing.assert_allclose(pair_squared_distances(Q, Z, indices), expected, rtol=1e-4)
    np.testing.assert_allclose(pair_closeness(Q, Z, indices, 2.0), 2 - expected / 2, rtol=1e-4,
                               atol=1e-5)  # fmt: skip


@pytest.mark.parametrize(
    ("width", "indices"),
    [(3, [[10**6]]), (3, [[-2]]), (2, [[0]]), (3, [[0], [0]])],
    ids=["beyond", "below", "narrow", "long"],
)
def test_no_pair_beyond_the_arrays(width, indices):
    Q, Z = np.ones((1, 3), np.float32), np.ones((4, width), np.float32)
    with pytest.raises(ValueError, match="indices"):
        pair_scores(Q, Z, np.array(indices, np.int32))


@pytest.mark.parametrize("n_rows", [30, 100_000])  # rows that queries share, and not
def test_many_lists(n_rows):
    rng = np.random.default_rng(0)
    Q, Z = (rng.normal(size=(n, 3)).astype(np.float32) for n in (1_500, n_rows))
    near = rng.integers(-1, n_rows, (1_500, 7)).astype(np.int32)
    expected = np.where(near < 0, -np.inf, np.einsum("nd,nkd->nk", Q, Z[near]))
    np.testing.assert_allclose(pair_scores(Q, Z, near), expected, atol=1e-5)
    expected = np.where(near < 0, np.inf, np.square(Q[:, None] - Z[near]).sum(axis=2))
    np.testing.assert_allclose(pair_squared_distances(Q, Z, near), expected, rtol=1e-5)
