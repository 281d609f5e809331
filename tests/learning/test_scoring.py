"""Scores of a neighbourhood: quantised scores give the exact extremes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin import SLNE, Execution
from nearkin.learning import trainer
from nearkin.learning.sampling import RULES
from nearkin.learning.scoring import score
from nearkin.native.barrier import TeamThread, barrier_state
from nearkin.native.intrinsics import CACHE_LINE
from nearkin.native.quantize import (
    no_quantized_rows,
    quantize_query,
    quantize_rows,
    quantized_dot,
    score_error_bound,
)
from nearkin.native.threads import limited
from nearkin.native.vectors import dot, read_only
from nearkin.neighbors import nearest
from samples import blobs, slne


def uneven_rows(rng, n, dims, exponent):
    """Rows of very different lengths, some duplicated, with columns of very different scales."""
    X = rng.standard_normal((n, dims)) * 10 ** rng.uniform(-2, 2, dims) * rng.random((n, 1))
    X[n // 2 : n // 2 + n // 4] = X[: n // 4]
    return (10.0**exponent * X).astype(np.float32)


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 30), st.integers(1, 2_000), st.integers(-12, 12), st.integers(0, 2**31))
def test_errors_of_quantised_scores_are_within_the_bound(n, dims, exponent, seed):
    rng = np.random.default_rng(seed)
    X = uneven_rows(rng, n, dims, exponent)
    q = uneven_rows(rng, 1, dims, -exponent)[0]
    rows, query_codes = quantize_rows(X), np.zeros(-(-dims // CACHE_LINE) * CACHE_LINE, np.int16)
    if seed % 2:  # the worst case: a query along the error of a row
        q = X[0] - rows.codes[0, :dims] * rows.scales
    step = quantize_query(q, rows.scales, query_codes)
    scores = np.array([step * np.float32(quantized_dot(query_codes, row)) for row in rows.codes])
    errors = np.abs(scores - X.astype(np.float64) @ q)
    assert errors.max() <= score_error_bound(dot(q, q), step, rows)


def scored(X, rows, near, n_targets, required, q, offsets, threads):
    X, near, n_targets = read_only(X), read_only(near), np.int32(n_targets)  # as in a block step
    scores = np.empty(len(near), np.float32)
    query_codes = np.zeros(rows.codes.shape[1], np.int16)
    for number in range(threads):
        thread = TeamThread(number, threads, barrier_state(threads))
        score(X, rows, near, n_targets, required, q, 0.7, offsets, scores, query_codes, thread)
    return scores


@settings(deadline=None)  # the first call compiles
@given(
    st.integers(2, 40), st.integers(1, 300), st.booleans(), st.integers(1, 3),
    st.sampled_from([0, 0, -12, 12, -22, 17, -36, -42]), st.sampled_from([0, 0, -12, -20, 15]),
    st.integers(0, 2**31),
)  # fmt: skip
def test_extremes_equal_those_of_the_float32_rows(
    n, dims, with_offsets, threads, row_exponent, query_exponent, seed
):
    rng = np.random.default_rng(seed)
    X = uneven_rows(rng, n, dims, row_exponent)
    near = rng.integers(0, n, rng.integers(2, 60)).astype(np.int32)  # with repetitions
    n_targets = int(rng.integers(1, len(near)))
    q = uneven_rows(rng, 1, dims, query_exponent)[0]
    offsets = rng.standard_normal(len(near) * with_offsets).astype(np.float32)
    expected = scored(X, no_quantized_rows(), near, n_targets, (0, 0), q, offsets, 1)
    for required in [(0, n_targets), (n_targets - 1, n_targets)]:
        found = scored(X, quantize_rows(X), near, n_targets, required, q, offsets, threads)
        targets, wanted = found[slice(*required)], expected[slice(*required)]
        assert targets.argmin() == wanted.argmin()
        assert targets.min() == wanted.min()
        assert found[n_targets:].argmax() == expected[n_targets:].argmax()
        assert found[n_targets:].max() == expected[n_targets:].max()


def test_few_exact_scores_are_computed():
    X, _ = blobs(n=500, dims=200, spread=2)
    near = np.arange(1, 500, dtype=np.int32)
    found = scored(X, quantize_rows(X), near, 250, (0, 250), X[0], np.empty(0, np.float32), 1)
    assert 2 <= np.isfinite(found).sum() < 50


def test_nan_scores_are_not_excluded():
    X, _ = blobs(n=20)
    near, q = np.arange(20, dtype=np.int32), np.full(X.shape[1], np.nan, np.float32)
    found = scored(X, quantize_rows(X), near, 10, (0, 10), q, np.empty(0, np.float32), 1)
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("rule", "symmetric", "normalize", "threads"),
    list(itertools.product(["hardest", "random_target"], [False, True], [False, True], [1, 2])),
)
def test_quantisation_does_not_change_extreme_rules(
    monkeypatch, rule, symmetric, normalize, threads
):
    monkeypatch.setattr(trainer, "NEIGHBORS_A_THREAD", 1)
    monkeypatch.setattr(trainer, "NUMBERS_A_THREAD", 1)
    X, y = blobs(n=300, dims=70, spread=2)
    lists = nearest(X, 20)[1]

    def learned(rounded):
        model = slne(rule=rule, symmetric=symmetric, normalize=normalize, quantize=rounded,
                     max_epochs=2, tol=0, random_state=0)  # fmt: skip
        with limited(threads):
            return model.fit(X, y, neighbors=lists)

    plain, quantized = learned(False), learned(True)
    assert plain.history_[-1]["violation_rate"] > 0
    np.testing.assert_array_equal(quantized.matrix_, plain.matrix_)
    assert quantized.history_[-1]["loss"] == plain.history_[-1]["loss"]


def test_quantisation_is_the_default_where_the_result_stays_the_same():
    def quantizes(rule, rows, quantize="auto"):
        return Execution(quantize=quantize).quantizes(rule.extreme, rows, 1_000)

    assert quantizes(RULES["hardest"], 20_000)
    assert not quantizes(RULES["hardest"], 1_000)  # fits the cache
    assert not quantizes(RULES["hardest"], 100_000)  # the codes are larger than many matrices
    extreme = ["hardest", "random_target"]
    assert [name for name, rule in RULES.items() if quantizes(rule, 20_000)] == extreme
    assert quantizes(RULES["all"], 10, quantize=True)
    assert not quantizes(RULES["hardest"], 20_000, quantize=False)
    with pytest.raises(ValueError, match="quantize='always'"):
        SLNE.paper(execution=Execution(quantize="always")).fit(*blobs())
