"""Rows that are no numbers, or beyond what float32 can square, are refused by everything."""

import datetime

import numpy as np
import pytest

import nearkin
from nearkin import SLDE, SLNE, FourierFeatures, Preprocess, SoftVotingKNN
from nearkin.images import Codebook
from nearkin.neighbors import NeighborIndex, nearest
from nearkin.validation.arrays import refuse_no_numbers
from samples import blobs

ROWS, LABELS = blobs(n=60)
FITS = {
    "SLNE": lambda X: SLNE(n_neighbors=5).fit(X, LABELS),
    "SLNE.partial_fit": lambda X: SLNE(n_neighbors=5).partial_fit(X, LABELS),
    "SLDE": lambda X: SLDE(n_members=2).fit(X, LABELS),
    "plain neighbours": lambda X: SoftVotingKNN(None, n_neighbors=5).fit(X, LABELS),
    "SoftVotingKNN with preprocess": lambda X: SoftVotingKNN(preprocess=Preprocess()).fit(
        X, LABELS
    ),
    "Preprocess": lambda X: Preprocess().fit(X),
    "FourierFeatures": lambda X: FourierFeatures().fit(X),
    "Codebook": lambda X: Codebook(4, 2).fit(X),
    "SoftVotingKNN": lambda X: nearkin.SoftVotingKNN().fit(X, LABELS),
    "nearest": lambda X: nearest(X, 3),
    "queries": lambda X: nearest(ROWS, 3, queries=X),
    "similarity": lambda X: fitted().similarity(X, X),
    "pair_score": lambda X: fitted().pair_score(np.stack([X, X], axis=1)),
    "neighbor_scores": lambda X: fitted().neighbor_scores(ROWS[:1], X, [[0]]),
}


def fitted():
    return SLNE(n_neighbors=5, max_epochs=1, random_state=0).fit(ROWS, LABELS)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(
    ("kind", "message"),
    [("M8[s]", "dates or durations; give numbers"), ("m8[s]", "dates or durations; give numbers"),
     ("c16", "Complex data not supported")],
)  # fmt: skip
def test_dates_and_complex_numbers_are_no_rows(name, kind, message):
    with pytest.raises(ValueError, match=message):
        FITS[name]((100 * ROWS).astype(np.int64).astype(kind))


@pytest.mark.parametrize("name", sorted(FITS.keys() - {"pair_score"}))
def test_masked_rows_are_refused(name):
    with pytest.raises(ValueError, match="has masked entries; drop such rows or fill them"):
        FITS[name](np.ma.masked_array(ROWS, ROWS > 0))


@pytest.mark.parametrize(
    "X",
    [
        [[np.datetime64("2020-01-01")]],
        [[datetime.date(2020, 1, 1)]],
        [[datetime.timedelta(1)]],
        np.array([[datetime.datetime(2020, 1, 1)]], object),
        [[1j]],
        [np.ones(2, complex)],
    ],
)
def test_dates_and_complex_numbers_in_lists(X):
    with pytest.raises(ValueError, match=r"X holds (dates|complex)"):
        refuse_no_numbers(X, "X")


@pytest.mark.parametrize(
    "X", [[[1, 2.5]], [[True]], [], [[]], np.ones((2, 2), np.float16), "a", None]
)
def test_other_rows_are_left_to_other_checks(X):
    refuse_no_numbers(X, "X")


@pytest.mark.parametrize("index", ["exact", "cells", "Flat"])
@pytest.mark.parametrize("factor", [1e20, 1e30, 1e-20, 1e-30])
def test_rows_whose_squares_are_beyond_float32(index, factor):
    X = ROWS / np.abs(ROWS).max() * factor
    message = "its largest number is 1.0e.*beyond float32; divide"
    with pytest.raises(ValueError, match=f"X: {message} X by it"):
        nearest(X, 3, index=index)
    with pytest.raises(ValueError, match=f"queries: {message} queries by it"):
        NeighborIndex(ROWS, index).nearest(3, X)
    with pytest.raises(ValueError, match=message):
        SoftVotingKNN(None, index=index, vote="top").fit(X, LABELS).predict(X)


@pytest.mark.parametrize("index", ["exact", "cells;recall=0.999", "Flat"])
@pytest.mark.parametrize("factor", [2.0**59, 2.0**-49])
def test_lists_are_the_same_up_to_the_limits(index, factor):
    """By a power of two, so that all roundings are the same."""
    X = (ROWS / np.abs(ROWS).max()).astype(np.float32)
    distances, indices = nearest(X, 5, index=index)
    scaled, found = nearest(X * np.float32(factor), 5, index=index)
    np.testing.assert_array_equal(found, indices)
    np.testing.assert_array_equal(scaled, distances * np.float32(factor))
    model = SoftVotingKNN(None, n_neighbors=5, vote="top", index=index)
    expected = model.fit(X, LABELS).predict(X)
    np.testing.assert_array_equal(model.fit(X * factor, LABELS).predict(X * factor), expected)


def test_rows_of_zeros_have_neighbours():
    assert nearest(np.zeros((5, 2)), 2)[0].max() == 0


NO_ROWS = {
    "a dict": {"a": 1},
    "an object": object(),
    "a generator": (x for x in range(3)),
    "text": np.full((60, 6), "cat"),
    "records": np.zeros(60, [("a", "f4"), ("b", "i4")]),
    "ragged lists": [[1.0], [1.0, 2.0]],
    "nothing": (),
    "a complex number": 1j,
}


@pytest.mark.parametrize("what", NO_ROWS)
@pytest.mark.parametrize("name", sorted(FITS.keys() - {"pair_score"}))
def test_what_is_no_array_of_numbers(name, what):
    """The error names the argument; numpy's own words are in brackets."""
    with pytest.raises((TypeError, ValueError), match=r"\b(X|Z|queries|y)\b (must|has|holds)"):
        FITS[name](NO_ROWS[what])


@pytest.mark.parametrize("y", ["x", 5, [[1], [1, 2]], {"a": 1}, object()])
def test_what_is_no_array_of_labels(y):
    for fit in (SLNE().fit, SLNE().partial_fit, SoftVotingKNN().fit, fitted().objective):
        with pytest.raises((TypeError, ValueError), match=r"\by\b"):
            fit(ROWS, y)


def test_similarities_with_rows_that_are_not_finite():
    Z = ROWS.copy()
    for value in (np.nan, np.inf):
        Z[3, 1] = value
        with pytest.raises(ValueError, match="Z contains NaN or infinity"):
            fitted().neighbor_scores(ROWS, Z, np.zeros((60, 1), int))
        with pytest.raises(ValueError, match="Z contains NaN or infinity"):
            fitted().similarity(ROWS, Z)


@pytest.mark.parametrize("factor", [1e30, 1e-30])
def test_rows_whose_products_float32_cannot_hold(factor):
    X, model = ROWS * np.float32(factor), fitted()
    for call in (
        lambda: model.similarity(X, ROWS),
        lambda: model.similarity(ROWS, X),
        lambda: model.pair_score(np.stack([X, X], axis=1)),
        lambda: model.neighbor_scores(ROWS, X, np.zeros((60, 1), int)),
        lambda: model.objective(X, LABELS),
    ):
        with pytest.raises(ValueError, match="beyond float32; divide"):
            call()
