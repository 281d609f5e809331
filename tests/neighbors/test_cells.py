"""Cells reach the recall that is asked for, wherever the rows lie, by distance and dot product."""

import numpy as np
import pytest

from nearkin.native.threads import limited
from nearkin.neighbors import NeighborIndex, nearest
from nearkin.neighbors.cells import Cells

rng = np.random.default_rng(0)


def descriptors(n=3_000, dims=300):
    centres = rng.normal(size=(40, dims))
    noise = rng.normal(size=(n, dims)) * np.arange(1, dims + 1) ** -0.5
    return centres[rng.integers(0, 40, n)] * 0.3 + noise


def towns(n=3_000):
    """Metres: a country across, and people close together."""
    return rng.uniform(0, 1e6, (40, 2))[rng.integers(0, 40, n)] + 500 * rng.normal(size=(n, 2))


def with_outliers():
    rows = descriptors()
    rows[:30] *= 1e6
    return rows


CASES = {
    "descriptors": descriptors(),
    "towns": towns(),
    "outliers": with_outliers(),
    "far from the origin": rng.normal(size=(3_000, 20)) + 1e4,
    "tiny": descriptors() * 1e-14,
    "huge": descriptors() * 1e14,
    "columns of unequal scale": rng.normal(size=(3_000, 12)) * 10.0 ** np.arange(-3, 3, 0.5),
    "few distinct rows": np.repeat(rng.normal(size=(100, 8)), 30, axis=0),
    "lengths that differ": descriptors() * rng.lognormal(0, 1, (3_000, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_recall_by_distance(name):
    rows = CASES[name].astype(np.float32)
    found, _ = nearest(rows, 20, index="cells;recall=0.95")
    true, _ = nearest(rows, 20, index="exact")
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found <= true[:, -1:] * (1 + 1e-5)).mean() > 0.92


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("own", [True, False])
def test_recall_by_dot_product(name, own):
    rows = CASES[name].astype(np.float32)
    queries = None if own else rows[::3] + rows[1::3]
    cells, exact = (
        NeighborIndex(rows, index, metric="dot").nearest(20, queries)[0]
        for index in ("cells;recall=0.95", "exact")
    )
    assert (np.diff(cells, axis=1) <= 0).all()
    last = exact[:, -1:] - 1e-5 * np.abs(exact[:, -1:])
    assert (cells >= last).mean() > (0.92 if own else 0.85)


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
def test_threads_and_batches_do_not_matter(metric):
    rows = CASES["descriptors"].astype(np.float32)
    index = NeighborIndex(rows, "cells", metric=metric)
    together = index.nearest(15, rows[:1_100])
    with limited(1):
        alone = NeighborIndex(rows, "cells", metric=metric).nearest(15, rows[:1_100])
    np.testing.assert_array_equal(together[0], alone[0])
    np.testing.assert_array_equal(together[1], alone[1])
    for at in (0, 500, 1_099):  # BLAS rounds a single row differently
        _, one = index.nearest(15, rows[at : at + 1])
        assert len(np.intersect1d(one, together[1][at])) >= 14


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
def test_a_saved_index_keeps_its_metric(metric, tmp_path):
    rows = CASES["lengths that differ"].astype(np.float32)
    index = Cells(rows, metric=metric)
    index.prepare(9)
    index.save(tmp_path / "index")
    loaded = Cells.load(rows, tmp_path / "index")
    assert loaded.metric == metric
    np.testing.assert_array_equal(loaded.order, index.order)
    np.testing.assert_array_equal(loaded.search(rows[:70], 9), index.search(rows[:70], 9))


def broken(name, change):
    """The arrays of an index, one of them changed."""
    arrays = {key: value.copy() for key, value in KEPT.arrays().items()}
    arrays[name] = change(arrays[name])
    return arrays


def at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


ROWS = descriptors(400, 24).astype(np.float32)
KEPT = Cells(ROWS)
KEPT.prepare(5)


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
def test_a_restored_index_finds_the_same(metric):
    index = Cells(ROWS, "cells;recall=0.9", metric=metric)
    index.prepare(5)
    again = Cells.restored(ROWS, "cells;recall=0.9", index.arrays(), metric)
    assert again.recall == 0.9
    np.testing.assert_array_equal(again.search(ROWS[:50], 5), index.search(ROWS[:50], 5))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("panels", lambda a: a[:-1]),
        ("panels", lambda a: a.astype(np.int8)),
        ("offsets", at(0, -np.inf)),
        ("offsets", at(0, np.nan)),
        ("offsets", at(0, 1e30)),
        ("first", at(1, 0)),
        ("first", at(-1, 10_000)),
        ("first", lambda a: a.astype(np.int32)),
        ("steps", at(0, np.inf)),
        ("centroids", at((0, 0), np.nan)),
        ("centroids", lambda a: a[:, :-1]),
        ("rows_of", at(0, 400)),
        ("rows_of", lambda a: np.roll(a, 1)),
        ("rows_of", lambda a: np.where(a == 3, 4, a)),
        ("rows_of", lambda a: a.astype(np.int64)),
        ("tuned", lambda a: -a),
        ("centre", lambda a: a[:-1]),
        ("directions", at((0, 0), np.inf)),
        ("directions", lambda a: a[:5]),
        ("tuned", lambda a: None),
    ],
)
def test_an_index_that_does_not_fit_is_refused(name, change):
    with pytest.raises(ValueError, match="search_index_ does not belong to 400 rows of 24"):
        NeighborIndex.restored(ROWS, "cells", broken(name, change))


@pytest.mark.parametrize("metric", ["euclidean", "dot"])
@pytest.mark.parametrize("name", ["descriptors", "far from the origin", "lengths that differ"])
def test_rows_find_from_their_codes_what_they_find_as_queries(name, metric):
    rows, at = CASES[name].astype(np.float32), np.arange(7, 3_000, 11)
    index = Cells(rows, metric=metric)
    index.prepare(20)
    near, own = index.search(rows[at], 21), index.search_rows(at, 21)
    same = np.mean([len(np.intersect1d(a, b)) for a, b in zip(near, own)])
    assert same > (0.95 if metric == "euclidean" else 0.9999) * near.shape[1]


@pytest.mark.parametrize("name", CASES)
def test_lists_without_distances_hold_the_same_rows(name):
    rows = CASES[name].astype(np.float32)
    index = NeighborIndex(rows, "cells;recall=0.95")
    lists, (_, true) = index.lists(20), index.nearest(20)
    same = [len(np.intersect1d(a, b)) for a, b in zip(lists, true)]
    assert np.mean(same) >= 19.99  # where bytes leave a doubt that is smaller than their error
    assert (lists != np.arange(len(rows))[:, None]).all()
    np.testing.assert_array_equal(nearest(rows, 20, index="cells", return_distance=False), lists)
    assert index._back_end._bytes is None  # as large as a quarter of the rows


def test_lists_without_distances_by_dot_product_and_of_other_queries():
    rows = CASES["descriptors"].astype(np.float32)
    index = NeighborIndex(rows, "cells", metric="dot")
    np.testing.assert_array_equal(index.lists(9), index.nearest(9)[1])
    for name in ("cells", "exact", "HNSW16"):
        alone = nearest(rows, 9, queries=rows[:50], index=name, return_distance=False)
        np.testing.assert_array_equal(alone, nearest(rows, 9, queries=rows[:50], index=name)[1])
    np.testing.assert_array_equal(
        nearest(rows, 9, index="exact", return_distance=False), nearest(rows, 9, index="exact")[1]
    )


def test_an_index_for_lists_is_saved_with_its_bytes(tmp_path):
    rows = CASES["descriptors"].astype(np.float32)
    index = Cells(rows)
    index.prepare(9)
    index.prepare_lists()
    index.save(tmp_path / "index")
    loaded, at = Cells.load(rows, tmp_path / "index"), np.arange(100, 300)
    assert isinstance(loaded._bytes.codes, np.memmap)
    np.testing.assert_array_equal(loaded.row_lists(at, 9), index.row_lists(at, 9))
    assert not any(name.startswith("bytes") for name in index.arrays())
