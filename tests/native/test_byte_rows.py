"""The nearest of some candidates by bytes, against distances of all of them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.native.byte_rows import check_byte_rows, code_rows, nearest_of_candidates
from nearkin.native.listed_scores import pair_squared_distances
from nearkin.native.threads import limited
from other_instructions import digest_compiled_for

rng = np.random.default_rng(0)

CASES = {
    "normal": rng.normal(size=(900, 200)),
    "two columns": rng.normal(size=(900, 2)),
    "one column": rng.normal(size=(900, 1)),
    "falling spectrum": rng.normal(size=(900, 130)) * np.arange(1, 131) ** -0.7,
    "far from the origin": rng.normal(size=(900, 64)) + 1e4,
    "columns of unequal scale": rng.normal(size=(900, 12)) * 10.0 ** np.arange(-6, 6),
    "outliers": rng.normal(size=(900, 100)) * np.where(np.arange(900) < 9, 1e6, 1)[:, None],
    "huge": rng.normal(size=(900, 70)) * 1e15,
    "tiny": rng.normal(size=(900, 70)) * 1e-17,
    "a constant column": np.column_stack([np.ones(900), rng.normal(size=(900, 5))]),
    "all rows equal": np.ones((900, 7)),
    "on a grid": rng.integers(0, 3, (900, 6)).astype(float),
    "clusters": np.repeat(rng.normal(size=(30, 80)), 30, axis=0)
    + 1e-3 * rng.normal(size=(900, 80)),
}


def case(rows, candidates=60, queries=100, seed=1):
    """Rows, the rows of all places, queries, candidates of each (places), own rows."""
    rng = np.random.default_rng(seed)
    rows = np.ascontiguousarray(rows, np.float32)
    row_of = np.full(len(rows) + 20, -1, np.int32)  # 19 places are empty, and the end
    held = np.sort(rng.permutation(len(row_of) - 1)[: len(rows)])
    row_of[held] = rng.permutation(len(rows))
    own = rng.integers(0, len(rows), queries)
    near = np.stack([rng.permutation(held)[:candidates] for _ in range(queries)]).astype(np.int32)
    near[::3, ::7] = -1
    return rows, row_of, np.ascontiguousarray(rows[own]), near, own


def naive(rows, row_of, queries, near, own, k):
    """The same rows by true distances, nearest first; of equal ones the first row."""
    listed = row_of[near]
    listed[listed == own[:, None]] = -1
    squares = pair_squared_distances(queries, rows, listed)
    order = np.lexsort((np.where(listed < 0, len(rows), listed), squares), axis=1)[:, :k]
    return np.take_along_axis(listed, order, axis=1)


def found(rows, row_of, queries, near, own, k):
    coded = code_rows(rows, row_of[:-1], rows.mean(axis=0, dtype=np.float64).astype(np.float32))
    return nearest_of_candidates(coded, rows, row_of, queries, near, own, k)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [1, 10, 50, 60])
def test_the_same_rows_as_by_distance(name, k):
    rows, row_of, queries, near, own = case(CASES[name])
    lists = found(rows, row_of, queries, near, own, k)
    expected = naive(rows, row_of, queries, near, own, k)
    np.testing.assert_array_equal(np.sort(lists, axis=1), np.sort(expected, axis=1))
    if name in ("normal", "falling spectrum"):  # nearest first, but for what bytes cannot tell
        squares = pair_squared_distances(queries, rows, lists)
        with np.errstate(invalid="ignore"):
            assert not (squares[:, 1:] < 0.97 * squares[:, :-1]).any()


@settings(deadline=None, max_examples=25)  # the first call compiles
@given(st.integers(1, 40), st.integers(1, 60), st.integers(1, 5), st.integers(0, 2**31))
def test_many_equal_distances(k, candidates, distinct, seed):
    rows = np.random.default_rng(seed).integers(0, distinct, (80, 3))
    given = case(rows, max(k, candidates), 20, seed)
    lists, expected = found(*given, k), naive(*given, k)
    np.testing.assert_array_equal(np.sort(lists, axis=1), np.sort(expected, axis=1))


def test_threads_and_other_queries_do_not_matter():
    rows, row_of, queries, near, own = case(CASES["normal"], queries=300)
    coded = code_rows(rows, row_of[:-1], rows.mean(axis=0))
    together = nearest_of_candidates(coded, rows, row_of, queries, near, own, 20)
    with limited(1):
        again = code_rows(rows, row_of[:-1], rows.mean(axis=0))
        alone = nearest_of_candidates(again, rows, row_of, queries, near, own, 20)
    for one, other in zip(coded, again):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(together, alone)
    for i in (0, 150, 299):
        part = slice(i, i + 1)
        single = nearest_of_candidates(
            coded, rows, row_of, queries[part], near[part, ::-1].copy(), own[part], 20
        )
        np.testing.assert_array_equal(single[0], together[i])


def test_codes_are_what_they_say():
    rows, row_of, *_ = case(CASES["falling spectrum"])
    centre = rows.mean(axis=0)
    coded = code_rows(rows, row_of[:-1], centre)
    held = row_of[:-1] >= 0
    assert not coded.codes[~held].any()
    assert not coded.codes[:, rows.shape[1] :].any()
    assert np.abs(coded.codes.astype(int)).max() == 127
    near = coded.codes[held, : rows.shape[1]] * coded.scales.astype(float)
    centred = rows[row_of[:-1][held]] - centre
    assert (np.abs(near - centred) <= 0.501 * coded.scales).all()
    errors = np.linalg.norm(near - centred, axis=1)
    np.testing.assert_allclose(coded.errors[held], errors, rtol=1e-5)
    np.testing.assert_allclose(coded.squares[held], (near**2).sum(1) + errors**2, rtol=1e-9)


def test_arrays_that_do_not_belong_together_are_refused():
    rows, row_of, *_ = case(CASES["normal"])
    coded = code_rows(rows, row_of[:-1], rows.mean(axis=0))
    check_byte_rows(coded, len(row_of) - 1, rows.shape[1])
    for name in coded._fields:
        shorter = coded._replace(**{name: getattr(coded, name)[:-1]})
        other = coded._replace(**{name: getattr(coded, name).astype(np.int64)})
        for wrong in (shorter, other):
            with pytest.raises(ValueError, match=name):
                check_byte_rows(wrong, len(row_of) - 1, rows.shape[1])


def digest() -> str:
    """Of lists: what decides is exact, or a distance, of which none is nearly equal here."""
    total = hashlib.sha256()
    for name in ("normal", "falling spectrum", "far from the origin"):
        total.update(found(*case(CASES[name]), 20).tobytes())
    return total.hexdigest()


# Compiled anew, seconds each.
@pytest.mark.slow
@pytest.mark.parametrize("features", ["+avx2,+avx,+fma,+sse4.2", ""])
def test_other_instructions_give_the_same_lists(features, tmp_path):
    assert digest_compiled_for(features, Path(__file__), tmp_path) == digest()
