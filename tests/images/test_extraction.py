"""Extraction: any number of processes, interruptions of every kind, bad files."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from nearkin.images import UnreadableImages
from nearkin.images.extraction import ImageEncoder, fingerprint
from nearkin.io.fingerprint import Fingerprint
from nearkin.io.run_folder import RunFolder


class Toy(ImageEncoder):
    """The length of each file; an empty one cannot be used. Logs what it was asked for."""

    def __init__(self, log: Path, delay: float = 0.0, words: int = 8) -> None:
        self.log, self.delay, self.words = log, delay, words

    def fit(self, images, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def chunk_shape(self):
        return 4, 3

    def inputs(self):
        return {"words": self.words}

    def encode(self, sources):
        time.sleep(self.delay)
        with open(self.log, "a") as log:
            log.write("".join(f"{Path(source).name}\n" for source in sources))
        sizes = [Path(source).stat().st_size for source in sources]
        rows = np.outer(sizes, [1, 2, 3]).astype(np.float32)
        return rows, {i: "empty" for i, size in enumerate(sizes) if not size}

    def asked(self):
        return self.log.read_text().split()


def files(folder, sizes):
    paths = []
    for i, size in enumerate(sizes):
        paths.append(str(folder / f"{i:02d}.bin"))
        Path(paths[-1]).write_bytes(b"x" * size)
    return paths


def run(toy, paths, folder=None, **options):
    return toy.transform(paths, folder=folder, **options), toy.failed_


@pytest.fixture
def toy(tmp_path):
    return Toy(tmp_path / "log")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("where", [{}, {"out": "f.npy"}, {"folder": "work"}])
def test_rows_are_in_order(tmp_path, toy, n_jobs, where):
    paths = files(tmp_path, range(1, 12))
    place = {option: tmp_path / name for option, name in where.items()}
    features, failed = run(toy, paths, n_jobs=n_jobs, **place)
    assert failed == []
    assert features[:, 2].tolist() == [3 * size for size in range(1, 12)]
    assert isinstance(features, np.memmap) == bool(where)


def test_half_precision(tmp_path, toy):
    paths = files(tmp_path, [3, 5])
    assert run(toy, paths, dtype="float16")[0].dtype == np.float16
    assert run(toy, paths, out=tmp_path / "f.npy", dtype="float16")[0].dtype == np.float16


def test_finished_rows_are_not_encoded_again(tmp_path, toy):
    paths = files(tmp_path, range(1, 8))
    run(toy, paths, tmp_path / "work")
    again, _ = run(toy, paths, tmp_path / "work")
    assert len(toy.asked()) == 7
    assert again[:, 0].tolist() == list(range(1, 8))


@pytest.mark.parametrize("to_file", [False, True])
def test_unreadable_files_raise_at_the_end(tmp_path, toy, to_file):
    paths = files(tmp_path, [5, 0, 5, 5, 5, 0])
    with pytest.raises(UnreadableImages, match="2 of 6 images could not be used") as caught:
        run(toy, paths, out=tmp_path / "f.npy" if to_file else None)
    assert caught.value.failed == [(paths[1], "empty"), (paths[5], "empty")]
    assert f"{paths[5]}: empty" in str(caught.value)
    assert len(toy.asked()) == 6
    assert not (tmp_path / "f.npy").exists()


def test_only_chunks_of_repaired_files_are_encoded_again(tmp_path, toy):
    paths = files(tmp_path, [5, 5, 5, 5, 5, 0, 5, 5, 5])
    with pytest.raises(UnreadableImages, match="the other rows are kept"):
        run(toy, paths, tmp_path / "work")
    Path(paths[5]).write_bytes(b"fixed!")
    toy.log.unlink()
    features, _ = run(toy, paths, tmp_path / "work")
    assert toy.asked() == ["04.bin", "05.bin", "06.bin", "07.bin"]  # its chunk
    assert features[:, 0].tolist() == [5, 5, 5, 5, 5, 6, 5, 5, 5]


def test_skipped_files_leave_zeros_and_can_be_repaired_later(tmp_path, toy):
    paths = files(tmp_path, [5, 0, 5])
    with pytest.warns(UserWarning, match="1 of 3 images could not be used and have rows of zeros"):
        features, failed = run(toy, paths, tmp_path / "work", on_error="skip")
    assert features[:, 0].tolist() == [5, 0, 5]
    assert failed == [(paths[1], "empty")]
    with pytest.raises(UnreadableImages):
        run(toy, paths, tmp_path / "work")
    Path(paths[1]).write_bytes(b"ok")
    assert run(toy, paths, tmp_path / "work")[0][:, 0].tolist() == [5, 2, 5]


def test_long_lists_are_cut_in_the_message_only(tmp_path, toy):
    with pytest.raises(UnreadableImages, match="… and 10 more") as caught:
        run(toy, files(tmp_path, [0] * 30))
    assert len(caught.value.failed) == 30


def test_other_images_or_settings_are_refused(tmp_path, toy):
    paths = files(tmp_path, [1, 2, 3])
    run(toy, paths, tmp_path / "work")
    with pytest.raises(ValueError, match="words is 8 there and 9 here"):
        run(Toy(toy.log, words=9), paths, tmp_path / "work")
    with pytest.raises(ValueError, match="images differs"):
        run(toy, paths[::-1], tmp_path / "work")


def test_fingerprint_is_of_absolute_paths_and_of_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def print_of(*sources):
        return str(fingerprint(sources))

    assert print_of("a") == print_of(tmp_path / "a")
    assert print_of("a", "b") != print_of("b", "a") != print_of("ab")
    assert print_of(b"a") != print_of(b"b")
    assert print_of("\udcff")


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_extraction import Toy, run
folder, n_jobs = Path(sys.argv[2]), int(sys.argv[3])
paths = sorted(str(path) for path in folder.glob("*.bin"))
run(Toy(folder / "log", delay=0.15), paths, folder / "work", n_jobs=n_jobs)
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_killed_and_resumed(tmp_path, n_jobs):
    paths = files(tmp_path, range(1, 41))
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)]
    process = subprocess.Popen(
        [*command, str(tmp_path), str(n_jobs)], start_new_session=True, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(tmp_path.glob("work/chunk-*"))) < 3:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = len(list(tmp_path.glob("work/chunk-*")))
    assert 3 <= done < 10
    toy = Toy(tmp_path / "log after")
    features, _ = run(toy, paths, tmp_path / "work")
    assert len(toy.asked()) == 40 - 4 * done
    assert features[:, 1].tolist() == [2 * size for size in range(1, 41)]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"dtype": "float64"}, "dtype='float64'"), ({"on_error": "ignore"}, "on_error='ignore'")],
)
def test_bad_options(tmp_path, toy, options, message):
    with pytest.raises(ValueError, match=f"{message} must be one of"):
        run(toy, files(tmp_path, [1]), **options)


def test_importing_the_package_imports_no_library():
    code = (
        "import sys, nearkin.images; dir(nearkin.images);"
        "print([m for m in ('numba', 'sklearn', 'PIL', 'numpy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_unknown_names():
    import nearkin.images

    with pytest.raises(AttributeError, match="has no attribute 'LLB'"):
        nearkin.images.LLB  # noqa: B018


def replace_silently(path):
    """By other bytes, of the same number and with the same time."""
    status, data = path.stat(), path.read_bytes()
    path.write_bytes(bytes(byte ^ 1 for byte in data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_replaced_images_are_encoded_again(tmp_path):
    sources = []
    for n in range(8):
        sources.append(tmp_path / f"{n}.png")
        sources[-1].write_bytes(bytes(10 + n))
    toy, log = Toy(tmp_path / "log"), tmp_path / "log"

    def encoded():
        log.write_text("")
        rows = toy.transform(sources, folder=tmp_path / "run")
        assert rows[:, 0].tolist() == list(range(10, 18))
        return log.read_text().split()

    assert len(encoded()) == 8
    assert encoded() == []
    replace_silently(sources[5])
    with pytest.warns(UserWarning, match="images have changed, .* encoded again"):
        assert len(encoded()) == 8
    assert encoded() == []


def test_images_replaced_before_extraction_is_complete(tmp_path):
    sources = []
    for n in range(8):
        sources.append(tmp_path / f"{n}.png")
        sources[-1].write_bytes(bytes(10 + n) if n != 6 else b"")
    toy, log = Toy(tmp_path / "log"), tmp_path / "log"
    with pytest.raises(UnreadableImages):
        toy.transform(sources, folder=tmp_path / "run")
    replace_silently(sources[1])
    sources[6].write_bytes(bytes(16))
    log.write_text("")
    with pytest.warns(UserWarning, match="images from 0 on have changed, .* encoded again") as told:
        toy.transform(sources, folder=tmp_path / "run")
    assert len(told) == 1
    assert len(log.read_text().split()) == 8


def test_an_extraction_of_an_older_version_is_made_again(tmp_path):
    sources = files(tmp_path, [10, 11, 0, 13, 14])
    toy, log = Toy(tmp_path / "log"), tmp_path / "log"
    with pytest.raises(UnreadableImages):
        toy.transform(sources, folder=tmp_path / "run")
    run = RunFolder(tmp_path / "run")
    with run.claim("transform"):  # records without digests of what the images held
        for name in ("chunk-000000000", "chunk-000000004"):
            notes = run.read(name, None)[1]
            del notes["contents"]
            run.write(name, Fingerprint(run._root.claimed().inputs[""]), {}, notes)
    Path(sources[2]).write_bytes(bytes(12))
    log.write_text("")
    with pytest.warns(UserWarning, match="from 4 on have changed, or an older version"):
        rows = toy.transform(sources, folder=tmp_path / "run")
    assert rows[:, 0].tolist() == [10, 11, 12, 13, 14]
    assert len(toy.asked()) == 5


def test_workers_that_began_in_another_folder(tmp_path, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        names = [Path(p).name for p in files(Path(), [3, 4, 5] if name == "first" else [6, 7, 8])]
        rows = Toy(tmp_path / "log").transform(names, out="rows.npy", n_jobs=2)
        assert rows[:, 0].tolist() == ([3, 4, 5] if name == "first" else [6, 7, 8])
