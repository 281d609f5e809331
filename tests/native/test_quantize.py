"""int8 quantisation of rows, and integer products with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin import SLNE, Execution
from nearkin.native.intrinsics import CACHE_LINE
from nearkin.native.quantize import add_quantized, quantize_query, quantize_rows, quantized_dot
from nearkin.neighbors import nearest
from samples import blobs


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 40), st.integers(1, 200), st.floats(-20, 30), st.integers(0, 2**31))
def test_entries_are_off_by_half_a_scale_at_most(n, dims, exponent, seed):
    rng = np.random.default_rng(seed)
    X = (10**exponent * rng.standard_normal((n, dims)) ** 3).astype(np.float32)
    X[:, rng.random(dims) < 0.1] = 0
    codes, scales, _, _ = quantize_rows(X)
    assert codes.shape == (n, -(-dims // CACHE_LINE) * CACHE_LINE)
    assert codes.ctypes.data % CACHE_LINE == 0
    assert not codes[:, dims:].any()
    error = np.abs(codes[:, :dims] * scales - X)
    assert (error <= 0.501 * scales).all()


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 5_000), st.floats(-30, 30), st.booleans(), st.integers(0, 2**31))
def test_integer_products(dims, exponent, extreme, seed):
    rng = np.random.default_rng(seed)
    width = -(-dims // CACHE_LINE) * CACHE_LINE
    codes = rng.integers(-127, 128, width).astype(np.int8)
    scales = rng.random(dims).astype(np.float32)
    q = (10**exponent * rng.standard_normal(dims)).astype(np.float32)
    if extreme:  # the largest possible sum
        scales[:] = 1
        q[:] = 10**exponent
        codes[:] = 127
    codes[dims:] = 0
    query_codes = np.zeros(width, np.int16)
    step = quantize_query(q, scales, query_codes)
    total = quantized_dot(query_codes, codes)
    assert total == int(query_codes.astype(np.int64) @ codes.astype(np.int64))
    np.testing.assert_allclose(query_codes[:dims] * step, q * scales, atol=0.51 * step, rtol=1e-5)
    terms = (q * scales).astype(np.float64) * codes[:dims]
    assert abs(total * float(step) - terms.sum()) <= 1e-2 * np.abs(terms).max() * dims**0.5


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 300), st.integers(1, 60), st.integers(0, 4), st.integers(0, 2**31))
def test_weighted_sums_of_rows_in_some_columns(dims, n_near, first_line, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, dims)).astype(np.float32)
    rows = quantize_rows(X)
    near = rng.integers(0, 20, n_near).astype(np.int32)
    weights = rng.standard_normal(n_near).astype(np.float32) * (rng.random(n_near) < 0.7)
    first = min(first_line, dims // CACHE_LINE) * CACHE_LINE
    last = min(first + CACHE_LINE * int(rng.integers(1, 4)), dims)
    out = np.ones(dims, np.float32)
    add_quantized(out, weights, rows, near, first, last)
    expected = np.ones(dims)
    whole = (rows.codes[:, :dims] * rows.scales.astype(np.float64))[near]
    expected[first:last] += (weights.astype(np.float64) @ whole)[first:last]
    np.testing.assert_allclose(out, expected, atol=1e-4)


@pytest.mark.parametrize(("value", "step"), [(0, 0), (np.inf, np.nan), (np.nan, np.nan)])
def test_queries_of_zeros_and_non_finite_ones(value, step):
    query_codes = np.ones(CACHE_LINE, np.int16)
    q = np.array([1, value, 1], np.float32) * (value != 0)
    np.testing.assert_equal(
        quantize_query(q, np.ones(3, np.float32), query_codes), np.float32(step)
    )
    assert not query_codes.any()


def test_the_error_of_a_divergent_fit_names_the_step_size():
    X, y = blobs(n=300)
    model = SLNE.paper(step_size=1e38, tol=0, random_state=0, execution=Execution(quantize=True))
    with pytest.raises((FloatingPointError, ValueError), match="step_size"):
        model.fit(X, y, neighbors=nearest(X, 8)[1])


@pytest.mark.parametrize("rule", ["uniform", "all", "softmax"])
def test_learning_from_quantised_scores_reaches_a_similar_objective(rule):
    X, y = blobs(n=600, dims=30, spread=2)
    lists = nearest(X, 20)[1]

    def objective(rounded):
        model = SLNE.paper(
            rule, max_epochs=3, tol=0, random_state=0, execution=Execution(quantize=rounded)
        )
        return model.fit(X, y, neighbors=lists).objective(X, y, neighbors=lists)

    exact, quantized = objective(False), objective(True)
    assert exact != quantized == pytest.approx(exact, rel=0.1)
