"""Coding and pooling against the formulas, one descriptor at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.images.llc_coding import codes, max_pool, nearest_words, pyramid_cells


def unit_rows(seed, n, dim=128):
    rows = np.abs(np.random.default_rng(seed).normal(size=(n, dim))).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def plain_code(x, words, k, beta):
    """min ‖x − cB‖² with Σc = 1 over the k nearest words, as Wang et al. solve it."""
    nearest = np.argsort(((words - x) ** 2).sum(axis=1), kind="stable")[:k]
    shifted = words[nearest].astype(np.float64) - x
    C = shifted @ shifted.T
    C += np.eye(k) * beta * np.trace(C)
    c = np.linalg.solve(C, np.ones(k))
    return nearest, c / c.sum()


@pytest.mark.parametrize(("n_words", "k"), [(1, 1), (5, 5), (31, 5), (64, 3), (777, 5), (2048, 5)])
def test_codes_against_the_formula(n_words, k):
    x, words = unit_rows(0, 300), unit_rows(1, n_words)
    nearest = nearest_words(x, words, k)
    weights = codes(x, words, nearest, 1e-4)
    assert weights.dtype == np.float32
    for i in range(len(x)):
        expected, code = plain_code(x[i], words, k, 1e-4)
        assert nearest[i].tolist() == expected.tolist()
        np.testing.assert_allclose(weights[i], code, atol=1e-4)


def test_nearest_are_sorted_and_distinct_among_equal_words():
    words = np.repeat(unit_rows(0, 3), 20, axis=0)
    nearest = nearest_words(unit_rows(1, 50), words, 5)
    assert all(len(set(row)) == 5 for row in nearest.tolist())


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    k=st.integers(1, 8),
    dim=st.integers(1, 40),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_codes_sum_to_one(seed, k, dim, scale):
    random = np.random.default_rng(seed)
    x, words = (random.normal(size=(n, dim)).astype(np.float32) * scale for n in (20, 12))
    weights = codes(x, words, nearest_words(x, words, k), 1e-4)
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_codes_do_not_change_with_the_origin(seed):
    random = np.random.default_rng(seed)
    x, words = (random.normal(size=(n, 16)).astype(np.float32) for n in (10, 30))
    shift = random.normal(size=16).astype(np.float32)
    nearest = nearest_words(x, words, 5)
    np.testing.assert_allclose(
        codes(x, words, nearest, 1e-4), codes(x + shift, words + shift, nearest, 1e-4), atol=1e-2
    )


def test_a_descriptor_that_is_a_word_has_nearly_its_code():
    words = unit_rows(0, 100)
    nearest = nearest_words(words, words, 5)
    assert (nearest[:, 0] == np.arange(100)).all()
    assert (codes(words, words, nearest, 1e-4)[:, 0] > 0.99).all()


def test_all_words_the_same_share_the_weight():
    words = np.ones((5, 4), dtype=np.float32)
    weights = codes(words[:1], words, nearest_words(words[:1], words, 5), 1e-4)
    np.testing.assert_allclose(weights, 0.2)


def test_pooling_against_loops():
    random = np.random.default_rng(0)
    shape, pyramid = (90, 121), (1, 2, 3, 4)
    centres = (random.random((400, 2)) * shape).astype(np.float32)
    nearest = random.integers(0, 50, (400, 5)).astype(np.int32)
    weights = random.normal(size=(400, 5)).astype(np.float32)
    pooled = np.zeros((30, 50), dtype=np.float32)
    max_pool(weights, nearest, pyramid_cells(centres, shape, pyramid), pooled)
    expected, offset = np.zeros((30, 50), dtype=np.float32), 0
    for grid in pyramid:
        for i in range(grid):
            for j in range(grid):
                for (y, x), words, row in zip(centres, nearest, weights):
                    if i <= y * grid / shape[0] < i + 1 and j <= x * grid / shape[1] < j + 1:
                        for word, weight in zip(words, row):
                            cell = expected[offset + i * grid + j]
                            cell[word] = max(cell[word], weight)
        offset += grid * grid
    assert (pooled == expected).all()


def test_cells_number_every_level():
    centres = np.array([[1, 1], [99, 199], [50, 100]], dtype=np.float32)
    cells = pyramid_cells(centres, (100, 200), (1, 2, 4))
    assert cells.tolist() == [[0, 1, 5], [0, 4, 20], [0, 4, 15]]


def test_no_descriptors():
    none, words = np.empty((0, 128), np.float32), unit_rows(0, 10)
    nearest = nearest_words(none, words, 5)
    assert codes(none, words, nearest, 1e-4).shape == (0, 5)
    assert pyramid_cells(np.empty((0, 2), np.float32), (9, 9), (1, 2)).shape == (0, 2)


def test_read_only_words():
    x, words = unit_rows(0, 10), unit_rows(1, 40)
    expected = codes(x, words, nearest_words(x, words, 5), 1e-4)
    words.flags.writeable = x.flags.writeable = False
    assert (codes(x, words, nearest_words(x, words, 5), 1e-4) == expected).all()
