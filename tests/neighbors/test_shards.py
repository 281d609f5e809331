"""Large searches: cells that keep the recall they promise, shards that survive."""

import numpy as np
import pytest

import kill_points
from nearkin import RunFolder
from nearkin.native.threads import limited
from nearkin.neighbors import NeighborIndex, nearest, recall, shards


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, 200))
    noise = rng.normal(size=(3_000, 200)) * np.arange(1, 201) ** -0.5
    return (centres[rng.integers(0, 40, 3_000)] * 0.3 + noise).astype(np.float32)


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "SHARD_ROWS", 700)


@pytest.mark.parametrize("wanted", [0.7, 0.95])
def test_cells_keep_the_recall_they_promise(rows, wanted):
    distances, indices = nearest(rows, 20, index=f"cells;recall={wanted}")
    assert recall(rows, indices, sample=3_000) > wanted - 0.03
    true = np.linalg.norm(rows[:, None][:50] - rows[indices[:50]], axis=2)
    np.testing.assert_allclose(distances[:50], true, rtol=1e-4)
    assert (np.diff(distances, axis=1) >= 0).all()


def test_cells_look_at_fewer_rows_for_less_recall(rows):
    plans = []
    for wanted in (0.6, 0.99):
        index = NeighborIndex(rows, f"cells;recall={wanted}")
        index.nearest(20)
        plans.append(index._back_end.plan)
    assert plans[0][1] < plans[1][1]
    assert plans[0][2] <= plans[1][2]


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


def test_a_second_call_finds_the_missing_shards_only(rows, tmp_path, small_shards, monkeypatch):
    out, kept, done = tmp_path / "near", nearest(rows, 8, index="cells"), []
    find = shards.find_shard

    def dies(shards, n, threads):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(n)
        find(shards, n, threads)

    monkeypatch.setattr(shards, "find_shard", dies)
    with pytest.raises(KeyboardInterrupt):
        nearest(rows, 8, index="cells", folder=out)
    assert len(list(out.glob("shard-*"))) == 2
    assert not (out / "lists.safetensors").exists()

    asked = []
    monkeypatch.setattr(shards, "find_shard", lambda s, n, t: (asked.append(n), find(s, n, t)))
    _, indices = nearest(rows, 8, index="cells", folder=out)
    assert not set(asked) & set(done)
    np.testing.assert_array_equal(indices, kept[1])


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
