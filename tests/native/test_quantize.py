"""Rows rounded to bytes, and products of whole numbers with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin import SLNE, Execution
from nearkin.native.intrinsics import LINE
from nearkin.native.quantize import add_rounded, round_query, rounded, whole_dot
from nearkin.neighbors import nearest
from samples import blobs


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 40), st.integers(1, 200), st.floats(-20, 30), st.integers(0, 2**31))
def test_every_number_is_half_a_unit_off_at_most(n, dims, exponent, seed):
    rng = np.random.default_rng(seed)
    X = (10**exponent * rng.standard_normal((n, dims)) ** 3).astype(np.float32)
    X[:, rng.random(dims) < 0.1] = 0
    codes, scales, _, _ = rounded(X)
    assert codes.shape == (n, -(-dims // LINE) * LINE)
    assert codes.ctypes.data % LINE == 0
    assert not codes[:, dims:].any()
    off = np.abs(codes[:, :dims] * scales - X)
    assert (off <= 0.501 * scales).all()


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 5_000), st.floats(-30, 30), st.booleans(), st.integers(0, 2**31))
def test_products_of_whole_numbers(dims, exponent, extreme, seed):
    rng = np.random.default_rng(seed)
    width = -(-dims // LINE) * LINE
    codes = rng.integers(-127, 128, width).astype(np.int8)
    scales = rng.random(dims).astype(np.float32)
    q = (10**exponent * rng.standard_normal(dims)).astype(np.float32)
    if extreme:  # every sum as large as it can get
        scales[:] = 1
        q[:] = 10**exponent
        codes[:] = 127
    codes[dims:] = 0
    words = np.zeros(width, np.int16)
    worth = round_query(q, scales, words)
    total = whole_dot(words, codes)
    assert total == int(words.astype(np.int64) @ codes.astype(np.int64))
    np.testing.assert_allclose(words[:dims] * worth, q * scales, atol=0.51 * worth, rtol=1e-5)
    terms = (q * scales).astype(np.float64) * codes[:dims]
    assert abs(total * float(worth) - terms.sum()) <= 1e-2 * np.abs(terms).max() * dims**0.5


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 300), st.integers(1, 60), st.integers(0, 4), st.integers(0, 2**31))
def test_sums_of_rows_in_some_columns(dims, n_near, first_line, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, dims)).astype(np.float32)
    rows = rounded(X)
    near = rng.integers(0, 20, n_near).astype(np.int32)
    weights = rng.standard_normal(n_near).astype(np.float32) * (rng.random(n_near) < 0.7)
    first = min(first_line, dims // LINE) * LINE
    last = min(first + LINE * int(rng.integers(1, 4)), dims)
    out = np.ones(dims, np.float32)
    add_rounded(out, weights, rows, near, first, last)
    expected = np.ones(dims)
    whole = (rows.codes[:, :dims] * rows.scales.astype(np.float64))[near]
    expected[first:last] += (weights.astype(np.float64) @ whole)[first:last]
    np.testing.assert_allclose(out, expected, atol=1e-4)


@pytest.mark.parametrize(("value", "worth"), [(0, 0), (np.inf, np.nan), (np.nan, np.nan)])
def test_queries_without_a_scale(value, worth):
    words = np.ones(LINE, np.int16)
    q = np.array([1, value, 1], np.float32) * (value != 0)
    np.testing.assert_equal(round_query(q, np.ones(3, np.float32), words), np.float32(worth))
    assert not words.any()


def test_a_step_size_that_diverges_is_named():
    X, y = blobs(n=300)
    model = SLNE(step_size=1e38, tol=0, random_state=0, execution=Execution(quantize=True))
    with pytest.raises((FloatingPointError, ValueError), match="step_size"):
        model.fit(X, y, neighbors=nearest(X, 8)[1])


@pytest.mark.parametrize("rule", ["uniform", "all", "softmax"])
def test_what_rounded_scores_teach_serves_as_well(rule):
    X, y = blobs(n=600, dims=30, spread=2)
    lists = nearest(X, 20)[1]

    def left(rounded):
        model = SLNE(
            rule, max_epochs=3, tol=0, random_state=0, execution=Execution(quantize=rounded)
        )
        return model.fit(X, y, neighbors=lists).objective(X, y, neighbors=lists)

    exact, by_bytes = left(False), left(True)
    assert exact != by_bytes == pytest.approx(exact, rel=0.1)
