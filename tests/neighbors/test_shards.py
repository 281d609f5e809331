"""Large searches: cells that reach their recall, shards that survive an interruption."""

import numpy as np
import pytest

from nearkin.neighbors import nearest, recall, register
from nearkin.neighbors.cells import Cells


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 200))
    noise = rng.normal(size=(3_000, 200)) * np.arange(1, 201) ** -0.5
    return (centres[rng.integers(0, 40, 3_000)] * 0.3 + noise).astype(np.float32)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr("nearkin.neighbors.shards.SHARD_ROWS", 700)


@pytest.mark.parametrize("wanted", [0.7, 0.95])
def test_cells_reach_their_recall(rows, wanted):
    distances, indices = nearest(rows, 20, index=f"cells;recall={wanted}")
    assert recall(rows, indices, sample=3_000) > wanted - 0.03
    true = np.linalg.norm(rows[:, None][:50] - rows[indices[:50]], axis=2)
    np.testing.assert_allclose(distances[:50], true, rtol=1e-4)
    assert (np.diff(distances, axis=1) >= 0).all()


def test_cells_probe_less_for_less_recall(rows):
    low, high = (Cells(rows, f"cells;recall={recall}") for recall in (0.6, 0.99))
    low.prepare(20)
    high.prepare(20)
    assert low.tuned[1] < high.tuned[1]
    assert low.tuned[2] <= high.tuned[2]


@pytest.mark.parametrize("index", ["exact", "cells", "IVF8,Flat", "HNSW16"])
def test_shards_make_the_same_lists(rows, tmp_path, small_shards, index):
    distances, indices = nearest(rows, 8, index=index, out=tmp_path / "near")
    assert isinstance(indices, np.memmap)
    assert sorted(p.name for p in (tmp_path / "near").iterdir()) == [
        "distances.npy", "indices.npy", "search.json",
    ]  # fmt: skip
    whole = nearest(rows, 8, index=index)
    assert (indices == whole[1]).mean() > (0.99 if index == "HNSW16" else 0.9999)
    np.testing.assert_allclose(distances, np.asarray(whole[0]), rtol=1e-3, atol=1e-4)


class Counting(Cells):
    """Counts the rows that are searched, and can be told to fail."""

    searched, fail_at = 0, None

    def search(self, queries, k):
        if Counting.searched == Counting.fail_at:
            raise KeyboardInterrupt
        Counting.searched += len(queries)
        return super().search(queries, k)


def test_a_second_call_finds_the_missing_shards_only(rows, tmp_path, small_shards):
    register("counting", Counting)
    out = tmp_path / "near"
    Counting.fail_at = 1_400
    with pytest.raises(KeyboardInterrupt):
        nearest(rows, 8, index="counting", out=out)
    assert len(list(out.glob("shard-*"))) == 2
    assert not (out / "indices.npy").exists()
    Counting.searched, Counting.fail_at = 0, None
    _, indices = nearest(rows, 8, index="counting", out=out)
    assert Counting.searched == len(rows) - 1_400
    np.testing.assert_array_equal(indices, nearest(rows, 8, index="cells")[1])


def test_workers_share_the_shards(rows, tmp_path, small_shards):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    mapped = np.load(path, mmap_mode="r")
    one = nearest(mapped, 8, index="cells", out=tmp_path / "one")
    two = nearest(mapped, 8, index="cells", out=tmp_path / "two", n_jobs=2)
    np.testing.assert_array_equal(one[1], two[1])


def test_a_folder_of_another_search_is_refused(rows, tmp_path):
    nearest(rows, 4, out=tmp_path / "near")
    with pytest.raises(FileExistsError, match="another search: k is 4 there and 5 here"):
        nearest(rows, 5, out=tmp_path / "near")
    other = rows.copy()
    other[len(rows) // 3, 2] += 1
    with pytest.raises(FileExistsError, match="another search: rows differs"):
        nearest(other, 4, out=tmp_path / "near")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(FileExistsError, match="other things"):
        nearest(rows, 4, out=tmp_path / "photos")


@pytest.mark.parametrize("index", ["cells;recall=2", "cells;probe=3", "cells;recall=much"])
def test_bad_recall(rows, index):
    with pytest.raises(ValueError, match="a recall between 0 and 1"):
        nearest(rows, 4, index=index)


def test_queries_have_no_folder(rows, tmp_path):
    with pytest.raises(ValueError, match="leave out queries"):
        nearest(rows, 4, queries=rows[:2], out=tmp_path)
