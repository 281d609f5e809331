"""Where rows of features go."""

import numpy as np
import pytest

from nearkin import RunFolder
from nearkin.images import store
from nearkin.images.store import open_store

SETTINGS = {"encoder": "toy", "sizes": (1, 2)}


def make(folder=None, out=None, todo=range(0, 6, 2), settings=SETTINGS, shape=(5, 3), fail=()):
    """Write chunks of two rows, each filled with its number; return the rows and what was done."""
    place = RunFolder.nowhere() if folder is None else RunFolder(folder)
    with open_store(out, place, shape, "float32", 2, settings) as target:
        before, failures = target.done.copy(), {}
        for start in todo:
            if not target.done[start : start + 2].all():
                stop = min(start + 2, shape[0])
                values = np.repeat(np.arange(start, stop, dtype=np.float32), 3).reshape(-1, 3)
                failed = {row: "torn" for row in fail if start <= row < stop}
                failures |= failed
                if target.sink is not None:
                    target.sink.write(start, values, failed)
                target.record(start, stop, None if target.sink else values)
        if len(todo) < 3:
            raise KeyboardInterrupt
        target.finish(failures)
    return target.rows, before.tolist()


def test_all_stores_return_the_same_rows(tmp_path):
    expected = np.repeat(np.arange(5.0), 3).reshape(5, 3)
    for place in ({}, {"out": tmp_path / "f.npy"}, {"folder": tmp_path / "run"}):
        rows, before = make(**place)
        np.testing.assert_array_equal(rows, expected)
        assert not any(before)
        assert isinstance(rows, np.memmap) == bool(place)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".nearkin-tmp", "nearkin-folder.json", "features.npy", "complete.safetensors"}
    assert [path.name for path in (tmp_path / "run" / ".nearkin-tmp").iterdir()] == ["lock"]


def test_a_folder_resumes_and_finds_what_is_complete(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, todo=[2])
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, todo=[4])
    rows, before = make(tmp_path)
    assert before == [False, False, True, True, True]
    rows, before = make(tmp_path)
    assert all(before)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_an_interrupted_file_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(out=tmp_path / "f.npy", todo=[2])
    assert not list(tmp_path.iterdir())


def test_failed_rows_are_tried_again(tmp_path):
    first, _ = make(tmp_path, fail=[3])
    kept = np.array(first)
    assert make(tmp_path, fail=[3])[1] == [True, True, True, False, True]
    assert make(tmp_path)[1] == [True, True, True, False, True]
    assert make(tmp_path)[1] == [True] * 5
    np.testing.assert_array_equal(first, kept)


def test_damaged_rows_are_made_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, todo=[0, 2])
    (scratch,) = tmp_path.rglob("scratch-*/features.npy")
    data = bytearray(scratch.read_bytes())
    data[-3 * 4 * 3] ^= 1  # the third row from the end
    scratch.write_bytes(data)
    with pytest.warns(UserWarning, match="rows from 2 on are damaged and made again"):
        rows, before = make(tmp_path)
    assert before == [True, True, False, False, False]
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_damaged_result_is_made_again(tmp_path):
    make(tmp_path)
    data = bytearray((tmp_path / "features.npy").read_bytes())
    data[-1] ^= 1
    (tmp_path / "features.npy").write_bytes(data)
    with pytest.warns(UserWarning, match=r"features\.npy was changed or damaged"):
        rows, before = make(tmp_path)
    assert not any(before)
    assert rows[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"encoder": "other", "sizes": (1, 2)}}, "encoder is 'toy' there and 'other'"),
        ({"settings": {"encoder": "toy"}}, "sizes differs"),
        ({"shape": (6, 3)}, r"shape is \(5, 3\) there and \(6, 3\) here"),
    ],
)
def test_other_settings_are_refused(tmp_path, changes, message):
    make(tmp_path)
    with pytest.raises(ValueError, match=message):
        make(tmp_path, **changes)


def test_bad_places(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.npy"):
        make(out=tmp_path / "features")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        make(out=tmp_path / "no" / "f.npy")
    with pytest.raises(OSError, match="the disk is full"):
        make(out=tmp_path / "f.npy", shape=(5, 10**15))
    with pytest.raises(ValueError, match="give out= to write a file, or folder="):
        make(tmp_path, out=tmp_path / "f.npy")
    assert not list(tmp_path.iterdir())


def test_too_much_for_memory():
    with pytest.raises(MemoryError, match=r"memory: pass out='features\.npy'"):
        make(shape=(5, 10**15))


def test_memory_of_unknown_size(monkeypatch):
    monkeypatch.delattr(store.os, "sysconf")
    assert make()[0].shape == (5, 3)
