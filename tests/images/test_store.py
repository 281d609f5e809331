"""The feature file and its journal."""

import json

import numpy as np
import pytest

from nearkin.images import store
from nearkin.images.store import FeatureArray, FeatureFile
from nearkin.io.rows import write_rows

SETTINGS = {"encoder": "toy", "sizes": (1, 2)}
ONES = np.ones((2, 3), dtype=np.float32)


def opened(folder, settings=SETTINGS, shape=(5, 3), dtype="float32"):
    return FeatureFile(folder / "f.npy", shape, dtype, settings)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_from_part_to_whole(tmp_path):
    file = opened(tmp_path)
    assert names(tmp_path) == ["f.npy.journal", "f.npy.part"]
    for start, stop in ((2, 4), (4, 5), (0, 2)):
        write_rows(file.path, start, ONES[: stop - start] * (start + 1))
        file.record(start, stop, {})
    assert file.done.all()
    rows = file.finish()
    assert names(tmp_path) == ["f.npy", "f.npy.journal"]
    assert rows[:, 0].tolist() == [1, 1, 3, 3, 5]
    assert isinstance(rows, np.memmap)
    assert not rows.flags.writeable


def test_the_journal_can_be_read_by_people(tmp_path):
    opened(tmp_path).record(2, 4, {3: "torn"})
    lines = [
        json.loads(line) for line in (tmp_path / "f.npy.journal").read_text().split("\n") if line
    ]
    assert lines[0]["settings"]["sizes"] == [1, 2]
    assert lines[1] == {"rows": [2, 4], "failed": {"3": "torn"}}


def test_resumes_and_later_lines_win(tmp_path):
    file = opened(tmp_path)
    file.record(0, 2, {1: "bad"})
    file.record(2, 4, {})
    assert opened(tmp_path).done.tolist() == [True, False, True, True, False]
    file.record(0, 2, {})
    assert opened(tmp_path).done.tolist() == [True, True, True, True, False]


def test_a_line_cut_short_counts_as_not_written(tmp_path):
    opened(tmp_path).record(0, 2, {})
    with open(tmp_path / "f.npy.journal", "a") as journal:
        journal.write('\n{"rows": [2, 4], "fai')
    again = opened(tmp_path)
    assert again.done.tolist() == [True, True, False, False, False]
    again.record(4, 5, {})
    assert opened(tmp_path).done.tolist() == [True, True, False, False, True]


def test_a_finished_file_is_complete_when_opened_again(tmp_path):
    file = opened(tmp_path)
    file.record(0, 5, {})
    file.finish()
    again = opened(tmp_path)
    assert again.done.all()
    assert again.path == tmp_path / "f.npy"
    assert again.finish().shape == (5, 3)


def test_without_data_the_journal_is_void(tmp_path):
    file = opened(tmp_path)
    file.record(0, 5, {})
    file.part.unlink()
    assert not opened(tmp_path, {"encoder": "other"}).done.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"encoder": "other", "sizes": (1, 2)}}, "encoder: toy then, other now"),
        ({"settings": {"encoder": "toy"}}, r"sizes: \[1, 2\] then, None now"),
        ({"dtype": "float16"}, "dtype: float32 then, float16 now"),
        ({"shape": (6, 3)}, r"shape: \[5, 3\] then, \[6, 3\] now"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_other_settings_are_refused(tmp_path, changes, message, finished):
    file = opened(tmp_path)
    if finished:
        file.finish()
    with pytest.raises(FileExistsError, match=message):
        opened(tmp_path, **changes)


def test_digests_are_not_spelled_out(tmp_path):
    opened(tmp_path, {"images": "a" * 64})
    with pytest.raises(FileExistsError, match=r"\(other images\): delete it to start anew"):
        opened(tmp_path, {"images": "b" * 64})


def test_files_of_others_are_left_alone(tmp_path):
    np.save(tmp_path / "f.npy", ONES)
    with pytest.raises(FileExistsError, match="without its journal"):
        opened(tmp_path)
    assert (np.load(tmp_path / "f.npy") == ONES).all()


def test_bad_places(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.npy"):
        FeatureFile(tmp_path / "features", (5, 3), "float32", {})
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        FeatureFile(tmp_path / "no" / "f.npy", (5, 3), "float32", {})
    with pytest.raises(MemoryError, match=r"free space for out=.*choose another disk"):
        FeatureFile(tmp_path / "f.npy", (5, 10**15), "float16", {})
    assert names(tmp_path) == []


def test_too_much_for_memory():
    with pytest.raises(MemoryError, match=r"memory: pass out='features\.npy'"):
        FeatureArray((5, 10**15), "float32")


def test_memory_of_unknown_size(monkeypatch):
    monkeypatch.delattr(store.os, "sysconf")
    assert FeatureArray((2, 2), "float32").finish().shape == (2, 2)
