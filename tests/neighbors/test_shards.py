"""Large searches: cells that reach their recall, shards that survive an interruption."""

import numpy as np
import pytest

import kill_points
from nearkin import RunFolder
from nearkin.native.threads import limited
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
    distances, indices = nearest(rows, 8, index=index, folder=tmp_path / "near")
    assert isinstance(indices, np.memmap)
    assert sorted(p.name for p in (tmp_path / "near").iterdir()) == [
        ".nearkin-tmp", "lists.safetensors", "nearkin-folder.json",
    ]  # fmt: skip
    whole = nearest(rows, 8, index=index)
    assert (indices == whole[1]).mean() > (0.99 if index == "HNSW16" else 0.9999)
    np.testing.assert_allclose(distances, np.asarray(whole[0]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("index", ["exact", "cells", "IVF8,Flat"])
def test_shards_without_distances(rows, tmp_path, small_shards, index):
    given = {"index": index, "folder": tmp_path / "near"}
    lists = nearest(rows, 8, return_distance=False, **given)
    assert isinstance(lists, np.memmap)
    names = [".nearkin-tmp", "lists.safetensors", "nearkin-folder.json"]
    assert sorted(p.name for p in (tmp_path / "near").iterdir()) == names
    np.testing.assert_array_equal(lists, nearest(rows, 8, index=index, return_distance=False))
    whole = nearest(rows, 8, **given)  # distances are wanted after all
    np.testing.assert_array_equal(whole[1], nearest(rows, 8, index=index)[1])
    again = nearest(rows, 8, return_distance=False, **given)  # which are kept with distances
    np.testing.assert_array_equal(again, whole[1])
    assert sorted(p.name for p in (tmp_path / "near").iterdir()) == names


def test_shards_begun_with_distances_serve_lists_without(rows, tmp_path, small_shards):
    register("counting", Counting)
    Counting.searched, Counting.fail_at = 0, 1_400
    with pytest.raises(KeyboardInterrupt):
        nearest(rows, 8, index="counting", folder=tmp_path / "near")
    Counting.searched, Counting.fail_at = 0, None
    lists = nearest(rows, 8, index="counting", folder=tmp_path / "near", return_distance=False)
    true = nearest(rows, 8, index="cells")[1]
    np.testing.assert_array_equal(np.sort(lists, axis=1), np.sort(true, axis=1))
    left = sorted(p.name for p in (tmp_path / "near").iterdir())
    assert left == [".nearkin-tmp", "lists.safetensors", "nearkin-folder.json"]


class Counting(Cells):
    """Counts the rows that are searched, and can be told to fail."""

    searched, fail_at = 0, None

    def search_rows(self, at, k):
        if Counting.searched == Counting.fail_at:
            raise KeyboardInterrupt
        Counting.searched += len(at)
        return super().search_rows(at, k)


def test_a_second_call_finds_the_missing_shards_only(rows, tmp_path, small_shards):
    register("counting", Counting)
    out = tmp_path / "near"
    Counting.fail_at = 1_400
    with pytest.raises(KeyboardInterrupt):
        nearest(rows, 8, index="counting", folder=out)
    assert len(list(out.glob("shard-*"))) == 2
    assert not (out / "lists.safetensors").exists()
    Counting.searched, Counting.fail_at = 0, None
    _, indices = nearest(rows, 8, index="counting", folder=out)
    assert Counting.searched == len(rows) - 1_400
    np.testing.assert_array_equal(indices, nearest(rows, 8, index="cells")[1])


def test_workers_share_the_shards(rows, tmp_path, small_shards):
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    mapped = np.load(path, mmap_mode="r")
    one = nearest(mapped, 8, index="cells", folder=tmp_path / "one")
    two = nearest(mapped, 8, index="cells", folder=tmp_path / "two", n_jobs=2)
    np.testing.assert_array_equal(one[1], two[1])


def test_a_folder_of_another_search_is_refused(rows, tmp_path):
    nearest(rows, 4, folder=tmp_path / "near")
    with pytest.raises(ValueError, match="other data or settings: k is 4 there and 5 here"):
        nearest(rows, 5, folder=tmp_path / "near")
    other = rows.copy()
    other[len(rows) // 3, 2] += 1
    with pytest.raises(ValueError, match="other data or settings: X differs"):
        nearest(other, 4, folder=tmp_path / "near")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(ValueError, match=r"files that are not nearkin's \(cat\.jpg\)"):
        nearest(rows, 4, folder=tmp_path / "photos")


def test_damage_to_the_finished_lists_is_noticed(rows, tmp_path, small_shards):
    few = rows[:900]
    whole = [np.array(part) for part in nearest(few, 2, folder=tmp_path)]
    path = tmp_path / "lists.safetensors"
    intact = path.read_bytes()
    for at in np.linspace(0, len(intact) - 1, 60).astype(int):
        damaged = bytearray(intact)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        with pytest.warns(UserWarning, match=r"lists\.safetensors is made again"):
            again = nearest(few, 2, folder=tmp_path)
        for one, two in zip(whole, again):
            np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_killed_at_every_file_operation_a_search_resumes(rows, quick_path, small_shards):
    few, path, points = rows[:800], quick_path / "near", 0
    expected = nearest(few, 3, index="exact")

    def search():
        return nearest(few, 3, index="exact", folder=path)

    with limited(1):  # no pool of threads, which would not survive a fork
        for _ in kill_points.every_point(search):
            np.testing.assert_array_equal(search()[1], expected[1])
            left = [p.name for p in path.iterdir() if p.is_file()]
            assert sorted(left) == ["lists.safetensors", "nearkin-folder.json"]
            RunFolder(path).discard()
            points += 1
    assert points > 30


@pytest.mark.parametrize("index", ["cells;recall=2", "cells;probe=3", "cells;recall=much"])
def test_bad_recall(rows, index):
    with pytest.raises(ValueError, match="a recall between 0 and 1"):
        nearest(rows, 4, index=index)


def test_queries_have_no_folder(rows, tmp_path):
    with pytest.raises(ValueError, match="leave out queries"):
        nearest(rows, 4, queries=rows[:2], folder=tmp_path)
