import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import kill_points
import nearkin
from nearkin import RunFolder
from nearkin.io import safetensors
from nearkin.io.fingerprint import Digest, FileDigest, Fingerprint
from nearkin.io.local_storage import TEMPORARIES, LocalStorage
from nearkin.io.marker import NAME, Marker
from nearkin.io.run_folder import as_run_folder
from samples import in_memory

A = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}


def contents(path):
    """Every file below a folder, but for the lock and the marker."""
    return {
        p.relative_to(path).as_posix(): p.read_bytes()
        for p in sorted(Path(path).rglob("*"))
        if p.is_file() and p.name not in ("lock", NAME)
    }


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


def test_a_part_is_found_again(folder):
    with folder.claim("test"):
        assert folder.read("x", {"k": 1}) is None
        folder.write("x", {"k": 1}, A, {"epoch": 3})
    with RunFolder(folder.path).claim("test") as again:
        arrays, notes = again.read("x", {"k": 1})
        np.testing.assert_array_equal(arrays["a"], A["a"])
        assert notes == {"epoch": 3}
        with pytest.raises(ValueError, match="other data or settings: k is 1 there and 2 here"):
            again.read("x", {"k": 2})
        assert again.read("x", {"k": 2}, stale="replace") is None


def test_parts_are_ordinary_safetensors_files(folder):
    library = pytest.importorskip("safetensors.numpy")
    with folder.claim("test"):
        folder.write("x", {}, A)
    np.testing.assert_array_equal(library.load_file(folder.path / "x.safetensors")["a"], A["a"])


def test_part_and_file_are_made_once(folder):
    made = []

    def part():
        made.append("part")
        return A

    def file(path):
        made.append("file")
        path.write_text("report")

    for _ in range(2):
        with folder.claim("test"):
            np.testing.assert_array_equal(folder.part("x", {"k": 1}, part)["a"], A["a"])
            assert folder.file("r.html", {"k": 1}, file).read_text() == "report"
    assert made == ["part", "file"]
    with folder.claim("test"):
        with pytest.raises(ValueError, match="k is 1 there and 2 here"):
            folder.file("r.html", {"k": 2}, file)
        folder.file("r.html", {"k": 2}, file, stale="replace")
        folder.part("x", {"k": 2}, part, stale="replace")
    assert made == ["part", "file"] * 2 or made == ["part", "file", "file", "part"]


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with (
        pytest.raises(ValueError, match=r"not nearkin's \(thesis\.txt\); give a new or an empty"),
        RunFolder(tmp_path).claim("test"),
    ):
        pass
    RunFolder(tmp_path).discard()
    assert os.listdir(tmp_path) == ["thesis.txt"]
    (tmp_path / "thesis.txt").unlink()
    (tmp_path / "photos").mkdir()
    with pytest.raises(ValueError, match="photos"), RunFolder(tmp_path).claim("test"):
        pass
    assert os.listdir(tmp_path) == ["photos"]


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(FileExistsError, match="file' is not a folder"),
        RunFolder(tmp_path / "file").claim("test"),
    ):
        pass


def test_names_that_others_use(folder, tmp_path):
    """What is not ours is neither used nor replaced nor removed, whatever its name."""
    with folder.claim("test"):
        pass
    elsewhere = RunFolder(tmp_path / "elsewhere")
    with elsewhere.claim("test"):
        elsewhere.write("copied", {}, A)
    (tmp_path / "target").write_text("mine")
    (folder.path / "text.safetensors").write_text("mine")
    (folder.path / "empty.safetensors").touch()
    (folder.path / "link.safetensors").symlink_to(tmp_path / "target")
    (folder.path / "dir.safetensors").mkdir()
    os.link(elsewhere.path / "copied.safetensors", folder.path / "copied.safetensors")
    (folder.path / "report.html").write_text("mine")
    before = contents(folder.path)
    with folder.claim("test"):
        for name in ("text", "empty", "link", "dir", "copied"):
            for use in (lambda n: folder.read(n, {}), lambda n: folder.write(n, {}, A)):
                with pytest.raises(FileExistsError, match=rf"{name}\.safetensors is needed by"):
                    use(name)
            folder.remove(name)
        with pytest.raises(FileExistsError, match=r"report\.html is needed by nearkin"):
            folder.file("report.html", {}, lambda path: path.write_text("ours"))
    folder.discard()
    assert contents(folder.path) == before
    assert (tmp_path / "target").read_text() == "mine"


def test_a_planted_folder_of_temporaries_is_not_followed(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".nearkin-tmp").symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError, match="is not a folder"):
        RunFolder(tmp_path / "run").claim("test").__enter__()
    assert not os.listdir(tmp_path / "outside")


def test_a_planted_scratch_folder_is_not_followed(folder, tmp_path):
    (tmp_path / "mine").mkdir()
    with folder.claim("test"):
        path = folder.scratch("rows", {"k": 1})
        path.rmdir()
        path.symlink_to(tmp_path / "mine")
        with pytest.raises(FileExistsError, match="is a link, but nearkin needs a folder"):
            folder.scratch("rows", {"k": 1})


def test_a_planted_lock_is_not_followed(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "run" / ".nearkin-tmp").mkdir(parents=True)
    (tmp_path / "run" / ".nearkin-tmp" / "lock").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="lock"):
        RunFolder(tmp_path / "run").claim("test").__enter__()
    assert (tmp_path / "target").read_text() == "mine"


def test_discard_removes_ours_alone(folder):
    with folder.claim("test"):
        folder.write("x", {}, A)
        folder.sub("a").sub("b").write("y", {}, A)
        folder.file("kept.txt", {}, lambda path: path.write_text("ours"))
        folder.sub("a").file("edited.txt", {}, lambda path: path.write_text("ours"))
    (folder.path / "a").mkdir()
    (folder.path / "a" / "model.safetensors").write_text("mine")
    (folder.path / "a.edited.txt").write_text("edited by hand")
    others = {"a/model.safetensors": b"mine", "a.edited.txt": b"edited by hand"}
    folder.discard()
    assert contents(folder.path) == others
    folder.discard()  # nothing there
    assert contents(folder.path) == others


def test_discard_removes_the_folder_if_nothing_is_left(folder):
    with folder.claim("test"):
        folder.sub("a").write("y", {}, A)
    folder.discard()
    assert not folder.path.exists()


def test_discarding_a_section(folder):
    with folder.claim("test"):
        folder.write("x", {}, A)
        folder.sub("a").write("y", {}, A)
        folder.sub("a").discard()
        assert list(contents(folder.path)) == ["x.safetensors"]
        assert folder.read("x", {}) is not None


def test_begin_records_what_all_is_made_from(folder):
    X = np.zeros(3)
    with folder.claim("test"):
        folder.begin({"k": 1, "X": Digest(X)})
        folder.write("x", {}, A)
    with folder.claim("test"):
        folder.begin({"k": 1, "X": Digest(X)})
        with pytest.raises(ValueError, match=r"X differs; k is 1 there and 2 here\. Nothing in it"):
            folder.begin({"k": 2, "X": Digest(X + 1)})
        assert folder.read("x", {}) is not None
        folder.begin({"k": 2, "X": Digest(X)}, stale="replace")
        assert folder.read("x", {}) is None


def test_another_purpose_is_refused(folder):
    with folder.claim("SLNE.fit"), folder.sub("a").claim("SLDE.fit"):
        pass
    with pytest.raises(ValueError, match=r"belongs to SLNE\.fit and cannot serve nearest; give"):
        folder.claim("nearest").__enter__()
    with pytest.raises(ValueError, match=r"belongs to SLDE\.fit and cannot serve SLNE"):
        folder.sub("a").claim("SLNE.fit").__enter__()
    with folder.claim("SLNE.fit"):  # a refused claim has released the lock
        pass


def test_a_seed_is_drawn_once(folder):
    with folder.claim("test"):
        drawn = folder.seed(None)
        assert folder.seed(7) == 7
    with RunFolder(folder.path).claim("test") as again:
        assert again.seed(None) == again.sub("a").seed(None) == drawn
    assert isinstance(drawn, int)


def test_use_without_a_claim_is_an_error(folder):
    for use in (lambda: folder.write("x", {}, A), lambda: folder.seed(None), folder.worker):
        with pytest.raises(RuntimeError, match=r"outside of 'with folder\.claim"):
            use()


def test_due(tmp_path):
    assert RunFolder(tmp_path, minutes=0).due
    assert RunFolder(tmp_path, minutes=0).sub("a").due
    assert not RunFolder(tmp_path).due
    with pytest.raises(ValueError, match="minutes=-1"):
        RunFolder(tmp_path, minutes=-1)


def test_nowhere_keeps_nothing():
    folder = as_run_folder(None)
    assert not folder.durable
    with folder.claim("test"), folder.sub("a").claim("other"):
        folder.begin({})
        folder.write("x", {}, A)
        assert folder.read("x", {}) is None
        assert folder.part("x", {}, lambda: A) is A
        assert folder.seed(None) is None
        assert not folder.due
    folder.remove("x")
    folder.discard()
    assert not pickle.loads(pickle.dumps(folder.worker())).durable


def test_a_temporary_folder(tmp_path):
    with RunFolder.temporary() as folder, folder.claim("test"):
        folder.write("x", {}, A)
        assert not folder.durable
        assert not pickle.loads(pickle.dumps(folder.sub("a"))).durable
        assert folder.read("x", {}) is not None
    assert not folder.path.exists()


def test_the_argument(tmp_path):
    assert as_run_folder(str(tmp_path)).path == as_run_folder(tmp_path).path == tmp_path
    folder = RunFolder(tmp_path)
    assert as_run_folder(folder) is folder
    for wrong in (3, "", ["a"]):
        with pytest.raises(ValueError, match=r"must be the path of a folder, a nearkin\.RunFolder"):
            as_run_folder(wrong)
    for wrong in ("", "..", "a/b", "a.b"):
        with pytest.raises(ValueError, match="must consist of letters"):
            folder.sub(wrong)


# Ownership


HOLD = """
import sys
from nearkin import RunFolder
with RunFolder(sys.argv[1]).claim("test") as folder:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(folder):
    """A second process that owns the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder.path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_one_owner_at_a_time(folder, holder):
    with pytest.raises(RuntimeError, match=r"run' is in use by another process") as told:
        folder.claim("test").__enter__()
    assert "\n" not in str(told.value)
    with pytest.raises(RuntimeError, match="is in use"):
        folder.discard()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with folder.claim("test"):
        pass


def test_a_folder_that_is_claimed_while_it_is_looked_at(folder, monkeypatch):
    """By another process, between the question for its marker and that for its files."""
    names = LocalStorage.names

    def claimed_meanwhile(storage):
        monkeypatch.undo()
        with RunFolder(folder.path).claim("test"):
            pass
        return names(storage)

    monkeypatch.setattr(LocalStorage, "names", claimed_meanwhile)
    with folder.claim("test"):
        pass


def test_a_folder_that_is_removed_while_it_is_claimed(folder, monkeypatch):
    make = os.mkdir

    def removed_meanwhile(path, *rest):
        make(path, *rest)
        if str(path).endswith(TEMPORARIES):
            monkeypatch.undo()
            shutil.rmtree(folder.path)

    monkeypatch.setattr(os, "mkdir", removed_meanwhile)
    with folder.claim("test"):
        folder.write("x", {}, A)
    assert (folder.path / "x.safetensors").exists()
    storage = LocalStorage(folder.path)
    RunFolder(folder.path).discard()
    release = storage.lock()
    assert release is not None
    release()


def test_one_thread_at_a_time(folder):
    errors = []

    def second(other):
        try:
            other.claim("test").__enter__()
        except RuntimeError as error:
            errors.append(str(error))

    with folder.claim("test"):
        for other in (folder, RunFolder(folder.path), folder.sub("a")):
            thread = threading.Thread(target=second, args=[other])
            thread.start()
            thread.join()
    assert len(errors) == 3


def test_workers_write_parts_and_take_no_lock(folder):
    code = (
        "import pickle, sys, numpy as np\n"
        "folder = pickle.load(sys.stdin.buffer)\n"
        "with folder.claim('test'):\n"
        "    folder.write('member', {'n': 1}, {'a': np.ones(3)})\n"
        "    folder.sub('unfinished').write('state', {}, {'a': np.ones(3)})\n"
        "    assert folder.read('member', {'n': 1}) is not None\n"
        "    folder.sub('unfinished').discard()\n"
    )
    with folder.claim("test"):
        subprocess.run([sys.executable, "-c", code], input=pickle.dumps(folder), check=True)
        np.testing.assert_array_equal(folder.read("member", {"n": 1})[0]["a"], np.ones(3))
        assert list(contents(folder.path)) == ["member.safetensors"]
        worker = folder.worker()
        errors = []
        thread = threading.Thread(target=lambda: worker.write("by-thread", {}, A))
        thread.start()
        thread.join()
        assert not errors
        assert folder.read("by-thread", {}) is not None


def test_temporaries_of_a_killed_writer_are_removed_by_the_next_owner(folder):
    with folder.claim("test"):
        left = folder.path / ".nearkin-tmp" / f".nearkin-{'0' * 32}.tmp.npy"
        left.write_text("half")
        (folder.path / ".nearkin-tmp" / "mine").write_text("mine")
        (folder.path / ".my.partners.db").write_text("mine")
    with folder.claim("test"):
        assert not left.exists()
    assert (folder.path / ".my.partners.db").exists()
    folder.discard()
    assert list(contents(folder.path)) == [".my.partners.db", ".nearkin-tmp/mine"]


# Damage


def test_damaged_parts_are_made_again(folder):
    with folder.claim("test"):
        folder.write("x", {"k": 1}, A, {"n": 1})
        path = folder.path / "x.safetensors"
        whole = path.read_bytes()
        for at in range(len(whole)):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << at % 8
            path.write_bytes(damaged)
            with pytest.warns(UserWarning, match=r"x\.safetensors is made again"):
                assert folder.read("x", {"k": 1}) is None
        for size in (1_000, len(whole) - 1):
            path.write_bytes(whole[:size] if size < len(whole) else whole + b"x")
            with pytest.warns(UserWarning, match="is made again"):
                assert folder.read("x", {"k": 1}) is None
        folder.write("x", {"k": 1}, A, {"n": 1})
        assert path.read_bytes() == whole
        os.replace(path, folder.path / "y.safetensors")
        with pytest.warns(UserWarning, match="is made again: a copy of"):
            assert folder.read("y", {"k": 1}) is None


def test_changed_files_are_set_aside_and_made_again(folder):
    def make():
        return folder.file("report.html", {"k": 1}, lambda path: path.write_text("ours"))

    with folder.claim("test"):
        path = make()
        for n, text in enumerate(["ourz", "edited by hand"]):
            path.write_text(text)
            with pytest.warns(UserWarning, match=r"report\.html was changed or damaged since"):
                assert make().read_text() == "ours"
            assert (folder.path / f"report.html.changed{n or ''}").read_text() == text
        assert make().read_text() == "ours"


@pytest.mark.parametrize("change", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": "x"}', "flip"])
def test_a_damaged_marker_has_one_clear_error(folder, change):
    with folder.claim("test"):
        folder.write("x", {}, A)
    path = folder.path / NAME
    if change == "flip":
        text = json.loads(path.read_text())
        change = json.dumps(text | {"seed": text["seed"] ^ 1}).encode()
    path.write_bytes(change)
    for use in (lambda: folder.claim("test").__enter__(), folder.discard):
        with pytest.raises(ValueError, match=r"nearkin-folder\.json in folder=.* is damaged"):
            use()
    assert (folder.path / "x.safetensors").exists()


@pytest.mark.parametrize(
    "change",
    [{"seed": "x"}, {"id": 5}, {"files": {"a": [{}]}}, {"inputs": {"": 3}}, {"purposes": []},
     {"files": {"a": 1}}, {"more": 1}, {"purposes": {"": 4}}],
)  # fmt: skip
def test_a_marker_that_is_not_ours_but_has_a_checksum(change):
    content = json.loads(Marker().encode()) | change
    del content["crc32"]
    checksum = f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
    with pytest.raises(ValueError, match=r"nearkin-folder\.json in folder='f' is damaged"):
        Marker.decode(json.dumps(content | {"crc32": checksum}).encode(), "f")


def test_a_newer_format_is_named(folder):
    with folder.claim("test"):
        pass
    path = folder.path / NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(ValueError, match="has format 99, this version of nearkin reads format 1"):
        folder.claim("test").__enter__()


# Kills and full disks


def some_work(path):
    """All that a run folder does, in the order in which a fit or a run does it."""
    inputs = {"k": 1}
    with RunFolder(path).claim("test") as folder:
        folder.begin(inputs)
        lists = folder.part("lists", inputs, lambda: {"i": np.full(5, folder.seed(None) % 2)})
        for epoch in range(2):
            kept = folder.sub("learner").read("state", inputs)
            done = kept[1]["done"] if kept else 0
            if done <= epoch:
                state = {"done": epoch + 1}
                folder.sub("learner").write("state", inputs, {"M": np.ones(3) * epoch}, state)
        folder.file("split.bin", inputs, lambda p: p.write_bytes(lists["i"].tobytes()))
        folder.file("report.txt", {"page": 2}, lambda p: p.write_text("two"), stale="replace")
        if not (folder.path / "done.safetensors").exists():
            folder.write("done", inputs, {}, {})
        folder.remove("lists")


def earlier_work(path):
    with RunFolder(path).claim("test") as folder:
        folder.file("report.txt", {"page": 1}, lambda p: p.write_text("one"))


def test_killed_at_every_file_operation_it_ends_with_the_same_bytes(quick_path):
    begun, whole, cut = (quick_path / name for name in ("begun", "whole", "cut"))
    earlier_work(begun)
    (begun / "mine.txt").write_text("mine")
    shutil.copytree(begun, whole)
    some_work(whole)
    expected, points = contents(whole), 0
    shutil.copytree(begun, cut)
    for _ in kill_points.every_point(lambda: some_work(cut)):
        some_work(cut)
        assert contents(cut) == expected
        shutil.rmtree(cut)
        shutil.copytree(begun, cut)
        points += 1
    assert points > 40


def test_killed_while_it_claims_or_discards(quick_path):
    """A new claim succeeds and a discard leaves nothing, whenever the kill comes."""
    path, points = quick_path / "run", 0

    def work():
        folder = RunFolder(path)
        with folder.claim("test"):
            folder.write("x", {}, A)
            folder.sub("a").write("y", {}, A)
            folder.file("f.txt", {}, lambda p: p.write_text("ours"))
        folder.discard()

    for _ in kill_points.every_point(work):
        work()
        assert not path.exists()
        points += 1
    assert points > 40


def test_killed_while_it_discards_it_knows_until_the_end_what_was_begun(quick_path):
    path, points = quick_path / "run", 0

    def begin():
        with RunFolder(path).claim("test") as folder:
            folder.sub("outputs").begin({"out": "f.npy"})
            folder.write("x", {}, A)
            folder.file("f.txt", {}, lambda p: p.write_text("ours"))

    begin()
    for _ in kill_points.every_point(lambda: RunFolder(path).discard()):
        if (path / NAME).exists():
            points += 1
            with RunFolder(path).claim("test") as folder:
                assert folder.sub("outputs").begun
                assert not folder.begun
        shutil.rmtree(path, ignore_errors=True)
        begin()
    assert points > 10


def test_killed_while_it_discards_it_spares_files_of_others(quick_path):
    path = quick_path / "run"

    def begin():
        with RunFolder(path).claim("test") as folder:
            folder.write("x", {}, A)
            folder.file("f.txt", {}, lambda p: p.write_text("ours"))
        (path / "mine.txt").write_text("mine")

    begin()
    for _ in kill_points.every_point(lambda: RunFolder(path).discard()):
        RunFolder(path).discard()
        assert set(contents(path)) == {"mine.txt"}
        shutil.rmtree(path)
        begin()


def test_a_full_disk_is_named_and_work_goes_on_when_there_is_space(small_disk):
    folder = RunFolder(small_disk / "run")
    large = {"a": np.ones(20_000)}
    with folder.claim("test"):
        folder.write("first", {}, {"a": np.ones(10_000)})
        (small_disk / "filler").write_bytes(bytes(100_000))
        for write in (
            lambda: folder.write("second", {}, large),
            lambda: folder.file("f.npy", {}, lambda p: np.save(p, large["a"])),
        ):
            with pytest.raises(OSError, match=r"could not be written .*: the disk is full; free"):
                write()
        assert list(contents(folder.path)) == ["first.safetensors"]
        (small_disk / "filler").unlink()
        folder.write("second", {}, {"a": np.ones(10_000)})
        assert folder.read("second", {}) is not None


class Folders(RuleBasedStateMachine):
    """Whatever is done in a run folder, files of others stay as they are."""

    others = Bundle("others")
    names = st.sampled_from(["x", "y", "a", "report"])

    def __init__(self):
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory(dir=in_memory())
        self.path = Path(self.temporary.name) / "run"
        self.mine, self.kept = {}, {}

    def teardown(self):
        self.temporary.cleanup()

    def using(self, use):
        try:
            with RunFolder(self.path).claim("test") as folder:
                return use(folder)
        except (ValueError, FileExistsError):
            return None

    @rule(name=names, k=st.integers(0, 2))
    def write(self, name, k):
        def write(folder):
            folder.write(name, {"k": k}, {"a": np.full(3, k)})
            self.kept[f"{name}.safetensors"] = k

        self.using(write)

    @rule(name=names, k=st.integers(0, 2))
    def make_file(self, name, k):
        def make(folder):
            folder.file(f"{name}.txt", {"k": k}, lambda p: p.write_text(str(k)), stale="replace")
            self.kept[f"{name}.txt"] = k

        self.using(make)

    @rule(name=names)
    def read(self, name):
        file = f"{name}.safetensors"

        def read(folder):
            k = self.kept.get(file)
            found = folder.read(name, {"k": k})
            assert (found is None) == (k is None)
            assert found is None or (found[0]["a"] == k).all()

        self.using(read)

    @rule(name=names)
    def remove(self, name):
        self.using(lambda folder: folder.remove(name))
        if (self.path / NAME).exists():
            self.kept.pop(f"{name}.safetensors", None)

    @rule()
    def discard(self):
        RunFolder(self.path).discard()
        assert not (self.path / NAME).exists()
        self.kept = {}

    @rule(target=others, name=names, suffix=st.sampled_from([".safetensors", ".txt", ""]))
    def somebody_writes(self, name, suffix):
        file = f"{name}{suffix}"
        if file not in self.kept:
            self.path.mkdir(exist_ok=True)
            self.mine[file] = os.urandom(8)
            (self.path / file).write_bytes(self.mine[file])
        return file

    @rule(file=consumes(others))
    def somebody_removes(self, file):
        if self.mine.pop(file, None) is not None:
            (self.path / file).unlink()

    @invariant()
    def others_are_untouched(self):
        there = contents(self.path) if self.path.exists() else {}
        assert {name: there.get(name) for name in self.mine} == self.mine
        assert set(there) == set(self.mine) | set(self.kept)


TestFolders = Folders.TestCase
TestFolders.settings = hypothesis_settings(max_examples=40, stateful_step_count=25, deadline=None)


# Fingerprints


def test_fingerprints_name_what_differs(tmp_path):
    (tmp_path / "x").write_text("1")
    stored = Fingerprint.of({"k": 1, "gone": 2, "file": FileDigest(tmp_path / "x")})
    assert not stored.differences({"k": 1, "gone": 2, "file": FileDigest(tmp_path / "x")})
    assert Fingerprint.of(stored) is stored
    times = (tmp_path / "x").stat()
    (tmp_path / "x").write_text("2")
    os.utime(tmp_path / "x", ns=(times.st_atime_ns, times.st_mtime_ns))  # same size, same time
    assert stored.differences({"k": 2, "new": 3, "file": FileDigest(tmp_path / "x")}) == (
        "file differs; gone differs; k is 1 there and 2 here; new differs"
    )


def test_streams_are_written_as_arrays(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    stream = safetensors.Stream(rows.shape, rows.dtype, lambda: (rows[:1], rows[1:]))
    safetensors.write(tmp_path / "s", {"rows": stream}, {})
    safetensors.write(tmp_path / "a", {"rows": rows}, {})
    assert (tmp_path / "s").read_bytes() == (tmp_path / "a").read_bytes()
    assert nearkin.RunFolder is RunFolder
