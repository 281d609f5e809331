"""Matrix products in place against numpy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.blas import multiply_into, project_rows

SIZES = st.integers(0, 9)


@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.integers(1, 5))
@settings(deadline=None, max_examples=200)
def test_products_of_any_shape(m, n, depth, left, right, panel):
    """Also with rows picked by a mask, whose strides numpy leaves undefined if they are few."""
    rng = np.random.default_rng(m + 10 * n + 100 * depth)
    A, B, out = (rng.normal(size=size).astype(np.float32)
                 for size in ((m, depth), (depth, n), (m, n)))  # fmt: skip
    expected = 2 * A @ B - 3 * out
    if left:
        A = np.concatenate([A.T, A.T])[np.arange(2 * depth) < depth]
    if right:
        B = np.concatenate([B.T, B.T])[np.arange(2 * n) < n]
    multiply_into(
        out, A, B, scale=2, keep=-3, left_transposed=left, right_transposed=right, panel=panel
    )
    np.testing.assert_allclose(out, expected, atol=1e-4)


def test_empty_factors_cause_no_blas_errors(capfd):
    out = np.zeros((3, 3), np.float32)
    multiply_into(out, np.ones((0, 3), np.float32), np.ones((0, 3), np.float32), keep=1,
                  left_transposed=True)  # fmt: skip
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dims", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_projected_rows(n, dims):
    rng = np.random.default_rng(0)
    rows, directions = rng.normal(size=(20, dims)), rng.normal(size=(n, dims))
    found = project_rows(rows.astype(np.float32), directions.astype(np.float32))
    np.testing.assert_allclose(found, rows @ directions.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 4), (5, 3)), ((2, 3), (9, 4), (4, 3)), ((2, 3), (2, 4), (4, 9))]
)
def test_shapes_that_do_not_match(shapes):
    out, A, B = (np.ones(shape, np.float32) for shape in shapes)
    with pytest.raises(ValueError, match="have shapes"):
        multiply_into(out, A, B)


@pytest.mark.parametrize("n", [0, 49, 100, 200, 477, 509, 511, 512, 513, 514, 1_023, 1_025])
def test_a_projected_row_does_not_depend_on_the_others(n):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1_030, 33)).astype(np.float32)
    directions = rng.normal(size=(20, 33)).astype(np.float32)
    whole = project_rows(rows, directions)
    np.testing.assert_array_equal(project_rows(rows[:n], directions), whole[:n])
