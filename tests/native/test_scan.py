"""The best rows of some cells, by products of bytes, against plain numpy."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.byte_products import PANEL_ROWS, TILE_QUERIES
from nearkin.native.jit import target_features
from nearkin.native.scan import QUERIES_AT_ONCE, best_slots, code_cells, decode_rows
from nearkin.native.threads import limited
from other_instructions import digest_compiled_for

PATHS = {  # features to compile for, if this machine has them
    "avx512": "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx2,+avx,+fma,+sse4.2",
    "avx2": "+avx2,+avx,+fma,+sse4.2",
    "plain": "",
}


def case(n=900, dims=20, cells=12, queries=70, probes=5, seed=0):
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, dims)) * rng.uniform(0.01, 1, dims)).astype(np.float32)
    cell = rng.integers(0, cells, n)
    asked = rng.normal(size=(queries, dims)).astype(np.float32)
    used = len(np.unique(cell))
    visits = rng.permuted(np.tile(np.arange(used), (queries, 1)), axis=1)[:, :probes]
    return rows, cell, asked, visits


def naive_values(coded, queries, visits, by_products):
    """Values of all slots for each query, from the codes; infinity in cells that it skips."""
    panels = coded.panels.reshape(len(coded.panels), -1, PANEL_ROWS, 4).astype(int) - 64
    codes = panels.transpose(0, 2, 1, 3).reshape(len(coded.offsets), -1)
    values = np.full((len(queries), len(codes)), np.inf)
    for q, cells, out in zip(queries.astype(float), visits, values):
        q = np.pad(q, (0, codes.shape[1] - len(q)))
        for cell in cells:
            part = slice(PANEL_ROWS * coded.first[cell], PANEL_ROWS * coded.first[cell + 1])
            origin = coded.centroids[cell]
            asked = q if by_products else q - origin
            step = np.abs(asked).max() / 127
            products = codes[part] @ np.rint(asked / step) * step * coded.steps[cell]
            base = -q @ origin if by_products else asked @ asked
            out[part] = base + coded.offsets[part] - (1 if by_products else 2) * products
    return values


@pytest.mark.parametrize("by_products", [False, True])
@pytest.mark.parametrize("dims", [1, 20, 100, 300])
@pytest.mark.parametrize("wanted", [1, 9, 60, 900])
def test_the_best_of_the_visited_cells(by_products, dims, wanted):
    rows, cell, queries, visits = case(dims=dims)
    coded, *_ = code_cells(rows, cell, by_products)
    values, slots = best_slots(coded, queries, visits, wanted, by_products)
    expected = naive_values(coded, queries, visits, by_products)
    filled = slots >= 0
    np.testing.assert_array_equal(filled.sum(1), np.minimum(np.isfinite(expected).sum(1), wanted))
    assert np.isinf(values[~filled]).all()
    scale = np.abs(expected[np.isfinite(expected)]).max()
    # A query's code may be rounded the other way in float32.
    tolerance = 2e-2 * scale / np.sqrt(dims)
    found = np.take_along_axis(expected, slots.astype(int), axis=1)
    np.testing.assert_allclose(found[filled], values[filled], atol=tolerance)
    best = np.sort(expected, axis=1)[:, :wanted]
    finite = np.isfinite(best)
    np.testing.assert_allclose(np.sort(values, axis=1)[finite], best[finite], atol=tolerance)
    assert np.median(np.abs(np.sort(values, axis=1)[finite] - best[finite])) < 1e-5 * scale


@pytest.mark.parametrize("queries", range(1, TILE_QUERIES + 2))
def test_tiles_of_every_width(queries):
    """The last tile of a cell is as narrow as its queries allow."""
    rows, cell, asked, visits = case(dims=50, queries=TILE_QUERIES + 1)
    coded, *_ = code_cells(rows, cell, False)
    values, slots = best_slots(coded, asked, visits, 9, False)
    few = best_slots(coded, asked[:queries], visits[:queries], 9, False)
    for found, all_of_them in zip(few, (values, slots)):
        np.testing.assert_array_equal(np.sort(found), np.sort(all_of_them[:queries]))


@pytest.mark.parametrize("by_products", [False, True])
def test_coded_values_are_near_the_true_ones(by_products):
    rows, cell, queries, visits = case(n=500, dims=100, cells=7, probes=7)
    coded, rows_of, _ = code_cells(rows, cell, by_products)
    values, slots = best_slots(coded, queries, visits, 500, by_products)
    true = -queries @ rows.T
    if not by_products:
        true = np.square(queries[:, None].astype(float) - rows[None]).sum(axis=2)
    found = np.take_along_axis(true, rows_of[slots].astype(int), axis=1)
    spread = true.std(axis=1, keepdims=True)
    assert (np.abs(found - values) < 0.15 * spread).all()
    assert np.sqrt(np.mean(((found - values) / spread) ** 2)) < 0.03


def test_slots_hold_every_row_once():
    rows, cell, *_ = case(n=333)
    _, rows_of, _ = code_cells(rows, cell, False)
    np.testing.assert_array_equal(np.sort(rows_of[rows_of >= 0]), np.arange(333))
    np.testing.assert_array_equal(rows_of[rows_of >= 0], np.argsort(cell, kind="stable"))


@pytest.mark.parametrize("zero", [64, 128])
@pytest.mark.parametrize("dims", [1, 20, 60])
def test_decoded_rows_are_off_by_half_a_step(zero, dims):
    rows, cell, *_ = case(n=333, dims=dims)
    coded, rows_of, (error, _) = code_cells(rows, cell, False, zero=zero)
    slots = np.flatnonzero(rows_of >= 0)[::-1]
    decoded = decode_rows(coded, slots, dims, zero=zero)
    errors = decoded - rows[rows_of[slots]]
    steps = coded.steps[np.unique(cell, return_inverse=True)[1][rows_of[slots]]]
    assert (np.abs(errors) <= 0.501 * steps[:, None]).all()
    assert np.linalg.norm(errors, axis=1).max() == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize(("slots", "dims"), [([-1], 4), ([10**6], 4), ([0], 17)])
def test_no_row_beyond_the_codes_is_decoded(slots, dims):
    rows, cell, *_ = case(n=50, dims=16)
    coded, *_ = code_cells(rows, cell, False)
    with pytest.raises(ValueError, match=r"slots|dims"):
        decode_rows(coded, np.array(slots), dims)


@settings(deadline=None, max_examples=25)  # the first call compiles
@given(st.integers(1, 400), st.integers(1, 40), st.integers(1, 9), st.integers(0, 2**31))
def test_many_equal_values(n, wanted, distinct, seed):
    """Of equal values the first slots win, in whatever order cells are visited."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, distinct, (n, 2)).astype(np.float32)
    coded, *_ = code_cells(rows, np.zeros(n, int), False)
    queries = rng.integers(0, distinct, (30, 2)).astype(np.float32)
    once = np.zeros((30, 1), int)
    every, all_slots = best_slots(coded, queries, once, n, False)
    _, slots = best_slots(coded, queries, once, wanted, False)
    order = np.lexsort((all_slots, every), axis=1)[:, :wanted]
    expected = np.sort(np.take_along_axis(all_slots, order, axis=1), axis=1)
    found = np.sort(slots, axis=1)[:, max(0, wanted - n) :]
    np.testing.assert_array_equal(found, expected)


def test_a_query_does_not_depend_on_the_others():
    rows, cell, queries, visits = case(n=5_000, cells=40, queries=2 * QUERIES_AT_ONCE + 3, probes=9)
    coded, *_ = code_cells(rows, cell, False)
    _, together = best_slots(coded, queries, visits, 30, False)
    with limited(1):
        _, alone = best_slots(coded, queries, visits, 30, False)
    np.testing.assert_array_equal(together, alone)
    for i in (0, 1, QUERIES_AT_ONCE, len(queries) - 1):
        _, one = best_slots(coded, queries[i : i + 1], visits[i : i + 1, ::-1], 30, False)
        np.testing.assert_array_equal(np.sort(one[0]), np.sort(together[i]))


def test_queries_that_overflow_find_nothing():
    rows, cell, queries, visits = case()
    coded, *_ = code_cells(rows, cell, False)
    queries[::2] *= np.float32(1e30)
    _, slots = best_slots(coded, queries, visits, 5, False)
    assert (slots[::2] == -1).all()
    assert (slots[1::2] >= 0).all()


def digest() -> str:
    """Of values and slots: integers and plain float32 operations, the same on every processor."""
    total = hashlib.sha256()
    for by_products in (False, True):
        rows, cell, queries, visits = case(dims=60)
        coded, *_ = code_cells(rows, cell, by_products)
        for array in best_slots(coded, queries, visits, 40, by_products):
            total.update(np.sort(array, axis=1).tobytes())
    return total.hexdigest()


# Compiled anew, seconds each.
@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_other_instructions_give_the_same_bits(path, tmp_path):
    features = PATHS[path]
    if not {name.lstrip("+") for name in features.split(",") if name} <= target_features():
        pytest.skip(f"this processor has no {path}")
    assert digest_compiled_for(features, Path(__file__), tmp_path) == digest()
