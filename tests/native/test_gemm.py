"""Packed matrix products against numpy's."""

import numpy as np
import pytest

from nearkin.native.gemm import (
    TILE_COLUMNS,
    TILE_ROWS,
    add_product,
    multiply,
    pack,
    pack_rows,
    unpack,
)


def packed_rows(A):
    """Slices of A, and the panels of its transpose."""
    n, depth = A.shape
    slices = np.zeros((n // TILE_ROWS, depth, TILE_ROWS), np.float32)
    columns = np.zeros((-(-n // TILE_COLUMNS), depth, TILE_COLUMNS), np.float32)
    for s in range(len(slices)):
        pack_rows(A, np.arange(s * TILE_ROWS, (s + 1) * TILE_ROWS), s, slices, columns)
    return slices, columns


def packed(B):
    panels = np.zeros((-(-B.shape[1] // TILE_COLUMNS), len(B), TILE_COLUMNS), np.float32)
    pack(B, panels)
    return panels


@pytest.mark.parametrize("depth", [1, 7, 100])
@pytest.mark.parametrize("columns", [1, TILE_COLUMNS, 2 * TILE_COLUMNS + 5])
@pytest.mark.parametrize("keep", [False, True])
def test_products(depth, columns, keep):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3 * TILE_ROWS, depth)).astype(np.float32)
    B = rng.normal(size=(depth, columns)).astype(np.float32)
    panels = packed(B)
    out = np.ones((len(A), len(panels) * TILE_COLUMNS), np.float32)
    for p in range(len(panels)):
        multiply(out, packed_rows(A)[0], panels, 1, 3, p, depth, keep)
    expected = A @ B + keep
    np.testing.assert_allclose(out[TILE_ROWS:, :columns], expected[TILE_ROWS:], atol=1e-5)
    assert (out[:TILE_ROWS] == 1).all()  # rows of other slices


def test_products_of_rows_with_each_other():
    A = np.random.default_rng(0).normal(size=(2 * TILE_COLUMNS, 33)).astype(np.float32)
    slices, columns = packed_rows(A)
    out = np.empty((len(A), len(A)), np.float32)
    for p in range(2):
        multiply(out, slices, columns, 0, len(slices), p, 33, False)
    np.testing.assert_allclose(out, A @ A.T, atol=1e-4)


def test_a_product_added_to_a_packed_matrix():
    rng = np.random.default_rng(0)
    M = rng.normal(size=(2 * TILE_ROWS, TILE_COLUMNS + 3)).astype(np.float32)
    A = rng.normal(size=(2 * TILE_ROWS, 9)).astype(np.float32)
    B = rng.normal(size=(9, TILE_COLUMNS + 3)).astype(np.float32)
    panels, right = packed(M), packed(B)
    for p in range(len(panels)):
        add_product(panels, packed_rows(A)[0], right, p, 5)  # the first five of nine entries
    out = np.empty_like(M)
    unpack(out, panels)
    np.testing.assert_allclose(out, M + A[:, :5] @ B[:5], atol=1e-5)
