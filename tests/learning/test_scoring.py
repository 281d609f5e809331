"""Scores of a neighbourhood: a rule that looks at extremes gets by bytes what it gets without."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin import SLNE, Execution
from nearkin.learning import trainer
from nearkin.learning.sampling import EXTREME_RULES, RULES
from nearkin.learning.scoring import score
from nearkin.learning.trainer import compares_bytes
from nearkin.native.barrier import Member
from nearkin.native.intrinsics import LINE
from nearkin.native.quantize import doubt, no_rows, round_query, rounded, whole_dot
from nearkin.native.threads import limited
from nearkin.native.vectors import read_only
from nearkin.neighbors import nearest
from samples import blobs, slne


def rough(rng, n, dims, exponent):
    """Rows of very different lengths, some of them twice, columns of very different sizes."""
    X = rng.standard_normal((n, dims)) * 10 ** rng.uniform(-2, 2, dims) * rng.random((n, 1))
    X[n // 2 : n // 2 + n // 4] = X[: n // 4]
    return (10.0**exponent * X).astype(np.float32)


@settings(deadline=None)  # the first call compiles
@given(st.integers(1, 30), st.integers(1, 2_000), st.integers(-12, 12), st.integers(0, 2**31))
def test_no_product_is_further_off_than_the_doubt(n, dims, exponent, seed):
    rng = np.random.default_rng(seed)
    X = rough(rng, n, dims, exponent)
    q = rough(rng, 1, dims, -exponent)[0]
    rows, words = rounded(X), np.zeros(-(-dims // LINE) * LINE, np.int16)
    if seed % 2:  # along one row's rounding, by which a product is as far off as can be
        q = X[0] - rows.codes[0, :dims] * rows.scales
    worth = round_query(q, rows.scales, words)
    by_bytes = np.array([worth * np.float32(whole_dot(words, codes)) for codes in rows.codes])
    off = np.abs(by_bytes - X.astype(np.float64) @ q)
    assert off.max() <= doubt(q, worth, rows)


def scored(X, rows, near, n_targets, lowest, q, offsets, members):
    X, near, n_targets = read_only(X), read_only(near), np.int32(n_targets)  # as in a walk
    scores = np.empty(len(near), np.float32)
    words = np.zeros(rows.codes.shape[1], np.int16)
    for number in range(members):
        member = Member(number, members, np.zeros((members + 1, 16), np.int64))
        score(X, rows, near, n_targets, lowest, q, 0.7, offsets, scores, words, member)
    return scores


@settings(deadline=None)  # the first call compiles
@given(
    st.integers(2, 40), st.integers(1, 300), st.booleans(), st.integers(1, 3),
    st.sampled_from([0, 0, -12, 12, -22, 17, -36, -42]), st.sampled_from([0, 0, -12, -20, 15]),
    st.integers(0, 2**31),
)  # fmt: skip
def test_extremes_are_those_of_the_rows_themselves(
    n, dims, with_offsets, members, row_exponent, query_exponent, seed
):
    rng = np.random.default_rng(seed)
    X = rough(rng, n, dims, row_exponent)
    near = rng.integers(0, n, rng.integers(2, 60)).astype(np.int32)  # with repetitions
    n_targets = int(rng.integers(1, len(near)))
    q = rough(rng, 1, dims, query_exponent)[0]
    offsets = rng.standard_normal(len(near) * with_offsets).astype(np.float32)
    expected = scored(X, no_rows(), near, n_targets, (0, 0), q, offsets, 1)
    places = [(0, n_targets), (n_targets - 1, n_targets)]
    for lowest in places:
        found = scored(X, rounded(X), near, n_targets, lowest, q, offsets, members)
        targets, wanted = found[slice(*lowest)], expected[slice(*lowest)]
        assert targets.argmin() == wanted.argmin()
        assert targets.min() == wanted.min()
        assert found[n_targets:].argmax() == expected[n_targets:].argmax()
        assert found[n_targets:].max() == expected[n_targets:].max()


def test_few_rows_are_looked_at():
    X, _ = blobs(n=500, dims=200, spread=2)
    near = np.arange(1, 500, dtype=np.int32)
    found = scored(X, rounded(X), near, 250, (0, 250), X[0], np.empty(0, np.float32), 1)
    assert 2 <= np.isfinite(found).sum() < 50


def test_what_is_no_number_is_not_ruled_out():
    X, _ = blobs(n=20)
    near, q = np.arange(20, dtype=np.int32), np.full(X.shape[1], np.nan, np.float32)
    found = scored(X, rounded(X), near, 10, (0, 10), q, np.empty(0, np.float32), 1)
    assert np.isnan(found).all()


@pytest.mark.parametrize(
    ("rule", "symmetric", "normalize", "batch_size", "threads"),
    list(itertools.product(EXTREME_RULES, [False, True], [False, True], [1, 9], [1, 2])),
)
def test_bytes_change_nothing(monkeypatch, rule, symmetric, normalize, batch_size, threads):
    monkeypatch.setattr(trainer, "WORTH_A_MEMBER", (1, 1))
    X, y = blobs(n=300, dims=70, spread=2)
    lists = nearest(X, 20)[1]

    def learned(rounded):
        model = slne(
            rule, max_epochs=2, tol=0, random_state=0, symmetric=symmetric, normalize=normalize,
            quantize=rounded,
        )  # fmt: skip
        with limited(threads):
            return model.fit(X, y, neighbors=lists)

    bare, by_bytes = learned(False), learned(True)
    assert bare.history_[-1]["violation_rate"] > 0
    np.testing.assert_array_equal(by_bytes.matrix_, bare.matrix_)
    assert by_bytes.history_[-1]["loss"] == bare.history_[-1]["loss"]


def test_bytes_are_used_unasked_where_nothing_changes_by_it():
    assert compares_bytes("auto", "hardest", 20_000, 1_000)
    assert not compares_bytes("auto", "hardest", 1_000, 1_000)  # fits the cache
    assert not compares_bytes("auto", "hardest", 100_000, 1_000)  # many matrices' worth of memory
    assert [rule for rule in RULES if compares_bytes("auto", rule, 20_000, 1_000)] == [
        "hardest", "random_target",
    ]  # fmt: skip
    assert compares_bytes(True, "all", 10, 10)
    assert not compares_bytes(False, "hardest", 20_000, 1_000)
    with pytest.raises(ValueError, match="rounded='always'"):
        SLNE(execution=Execution(quantize="always")).fit(*blobs())
