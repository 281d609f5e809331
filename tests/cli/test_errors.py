"""Bad input to every command: one error line, a non-zero exit code, no file changed."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from arrays import header
from commands import COMMANDS, MANUAL, NEARKIN, QUIET, leftovers, nearkin
from nearkin import SLNE, SoftVotingKNN, save

OUT = ["--out", "made.safetensors"]


@pytest.fixture(scope="module")
def bad_files(files, pictures, tmp_path_factory):
    """A folder of valid and invalid files."""
    folder = tmp_path_factory.mktemp("bad_files")
    for name in ("digits.npz", "rows.npy", "labels.txt", "q.npy", "model.safetensors", "test.npz"):
        shutil.copy(files / name, folder / name)
    shutil.copytree(pictures / "run", folder / "run")
    shutil.copytree(pictures / "more", folder / "more")
    X = np.load(folder / "q.npy")
    np.save(folder / "narrow.npy", X[:, :3])
    np.save(folder / "flat.npy", X[0])
    np.save(folder / "empty.npy", X[:0])
    holes = X.copy()
    holes[1, 2] = np.nan
    np.save(folder / "holes.npy", holes)
    np.save(folder / "words.npy", np.array([["a", "b"]]))
    np.savez(folder / "strange.npz", X=X[:2], y=["x", "y"])
    np.savez(folder / "single.npz", X=X, y=["one"] * 10)
    np.savez(folder / "lists.npz", indices=np.zeros((7, 3), np.int32))
    (folder / "ten.txt").write_text("a\nb\n" * 5)
    (folder / "binary.txt").write_bytes(b"\xff\xfe\x00\x9f" * 30)
    (folder / "bad.csv").write_text("a,b\n1,two\n")
    (folder / "bytes.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    for name in ("pipe.npy", "pipe.npz", "pipe.csv", "pipe.safetensors", "pipe.png"):
        os.mkfifo(folder / name)
    (folder / "ids.csv").write_text("id,x,label\n" + "".join(f"{i},{i % 3},a\n" for i in range(9)))
    (folder / "claims.npy").write_bytes(header("<U100000000", (1,)))
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", header("<f4", (25 << 20,)) + bytes(100 << 20))
    shutil.copytree(folder / "run", folder / "damaged-run")
    (folder / "damaged-run" / "images.json").write_text('{"paths": 5}')
    for name in ("line", "bytes"):
        shutil.copytree(folder / "more", folder / name)
    (folder / "line" / "lying").rename(folder / "line" / "ly\ning")
    os.rename(folder / "bytes" / "lying", os.fsencode(folder / "bytes" / "ly") + b"\xff")
    (folder / "text.onnx").write_text("not a network")
    for name in ("model.safetensors", "digits.npz", "rows.npy", "run/encoder.safetensors"):
        whole = (folder / name).read_bytes()
        (folder / ("cut." + name.split("/")[-1])).write_bytes(whole[: len(whole) // 2])
    (folder / "made-up.safetensors").write_bytes(
        b"\x10" + bytes(7) + b'{"__metadata__":' + b"x" * 99
    )
    (folder / "far.tsv").write_text("0\t600\t1\n")
    save(SLNE(n_neighbors=5, max_epochs=1).fit(X, np.arange(10) % 2), folder / "slne.safetensors")
    (folder / "nothing-here").mkdir()
    (folder / "torn" / "a").mkdir(parents=True)
    (folder / "torn" / "a" / "x.png").write_bytes(b"\x89PNG torn")
    (folder / "half").mkdir()
    shutil.copy(folder / "run" / "encoder.safetensors", folder / "half")
    plain = SoftVotingKNN(None, vote="top").fit(X, ["unknown", "known"] * 5)
    plain.save(folder / "no-threshold.safetensors")
    plain.novelty_threshold_ = 0.5
    plain.save(folder / "unknown.safetensors")
    return folder


TRAIN = ["train", "digits.npz", *OUT]
CASES = [
    (["serve", "nowhere"], "nowhere"),
    (["serve", "cut.encoder.safetensors"], "damaged"),
    (["serve", "model.safetensors", "--host", "0.0.0.0"], "--token-file"),
    (["serve", "model.safetensors", "--host", "no.such.host.invalid", "--no-token"], "--host"),
    (["serve", "model.safetensors", "--port", "65536"], "--port"),
    (["serve", "model.safetensors", "--token-file", "nowhere"], "nowhere"),
    (["serve", "model.safetensors", "--train", "nowhere.npz"], "nowhere.npz"),
    # Missing files, and files of another kind.
    (["features", "nowhere", "--out", "f.npy"], "nowhere"),
    (["features", "nothing-here", "--out", "f.npy"], "no images"),
    (["features", "torn", "--words", "8", "--out", "f.npy"], "could not be used"),
    (["features", "more", "--out", "f.txt", "--words", "8"], ".npy"),
    (["features", "more", "--out", "no/such/f.npy", "--words", "8"], "no folder"),
    (["features", "more", "--out", "f.npy", "--onnx", "nowhere.onnx"], "nowhere.onnx"),
    (["features", "more", "--out", "f.npy", "--onnx", "text.onnx"], "ONNX"),
    (["features", "more", "--out", "f.npy", "--encoder", "model.safetensors"], "not an encoder"),
    (["features", "more", "--out", "f.npy", "--encoder", "cut.encoder.safetensors"], "damaged"),
    (["neighbors", "nowhere.npy", "--out", "n.npz"], "does not exist"),
    (["neighbors", "cut.rows.npy", "--out", "n.npz"], "not a whole .npy"),
    (["neighbors", "labels.txt", "--out", "n.npz"], "suffix '.txt'"),
    (["train", "nowhere.npz", *OUT], "does not exist"),
    (["train", "cut.digits.npz", *OUT], "cannot be used"),
    (["train", "q.npy", *OUT], "has no labels"),
    (["train", "more", *OUT], "nearkin run"),
    (["train", "bad.csv", *OUT], "not a number"),
    (["train", "bytes.csv", *OUT], "UTF-8"),
    (["train", "bad.csv", "--label-column", "z", *OUT], "label_column='z' is no column of bad.csv"),
    (["train", "words.npy", *OUT], "numbers are expected"),
    (["train", "q.npy", "--labels", "nowhere.txt", *OUT], "nowhere.txt does not exist"),
    (["train", "q.npy", "--labels", "binary.txt", *OUT], "UTF-8"),
    (["train", "digits.npz", "--out", "no/such/m"], "no folder no/such"),
    (["train", "digits.npz", "--out", "."], "not a regular file"),
    ([*TRAIN, "--no-auto", "--neighbors", "nowhere.npz"], "does not exist"),
    ([*TRAIN, "--no-auto", "--neighbors", "digits.npz"], "no array indices"),
    ([*TRAIN, "--no-auto", "--neighbors", "cut.digits.npz"], "cannot be used"),
    (["neighbors", "rows.npy", "--out", "no/such/n.npz"], "no folder no/such"),
    (["classify", "model.safetensors", "q.npy", "--out", "no/such/l.csv"], "no folder no/such"),
    (["evaluate", "nowhere", "test.npz"], "does not exist"),
    (["evaluate", "cut.model.safetensors", "test.npz"], "damaged or truncated"),
    (["evaluate", "model.safetensors", "more"], "--encoder"),
    (["evaluate", "model.safetensors", "test.npz", "--report", "no/r.html"], "no folder no"),
    (["classify", "model.safetensors", "nowhere.npy"], "does not exist"),
    (["classify", "labels.txt", "q.npy"], "not a safetensors file"),
    (["classify", "made-up.safetensors", "q.npy"], "not a safetensors file"),
    (["classify", "run/encoder.safetensors", "q.npy"], "not a classifier"),
    (["classify", "half", "q.npy"], "no model.safetensors"),
    (["classify", "run", "nothing-here"], "no images"),
    (["classify", "run", "torn"], "--skip-unreadable"),
    (["search", "model.safetensors", "cut.rows.npy"], "not a whole .npy"),
    (["search", "model.safetensors", "q.npy", "--names", "ten.txt"], "10 lines for the 600 rows"),
    (["search", "model.safetensors", "q.npy", "--report", "r.html"], "--report shows pictures"),
    (["info", "nowhere.safetensors"], "does not exist"),
    (["info", "labels.txt"], "not a safetensors file"),
    (["info", "cut.digits.npz"], "cannot be used"),
    (["info", "more"], "not one of 'nearkin run'"),
    (["run", "nowhere"], "nowhere does not exist"),
    (["run", "q.npy", "--folder", "new-run"], "has no labels"),
    (["run", "cut.digits.npz", "--folder", "new-run"], "cannot be used"),
    (["run", "digits.npz", "--folder", "labels.txt"], "not a folder"),
    (["run", "digits.npz", "--folder", "run"], "source is"),
    (["run", "torn", "--folder", "new-run", "--words", "8"], "could not be used"),
    # Files that would hang or take all memory; names that no file of labels can hold.
    (["info", "pipe.npy"], "is a pipe, not a regular file"),
    (["info", "pipe.npz"], "is a pipe, not a regular file"),
    (["info", "pipe.safetensors"], "is a pipe, not a regular file"),
    (["classify", "pipe.safetensors", "q.npy"], "is a pipe, not a regular file"),
    (["classify", "model.safetensors", "pipe.csv"], "is a pipe, not a regular file"),
    (["classify", "run", "pipe.png"], "not a regular file"),
    (["train", "q.npy", "--labels", "pipe.npy", *OUT], "is a pipe, not a regular file"),
    (["search", "model.safetensors", "q.npy", "--names", "pipe.csv"], "is a pipe, not a regular"),
    (["features", "pipe.csv", "--out", "f.npy"], "is a pipe, not a regular file"),
    (["train", "digits.npz", "--labels", "claims.npy", *OUT], "too short for <U100000000"),
    (["info", "bomb.npz"], "no data is compressed so well"),
    (["train", "bomb.npz", *OUT], "no data is compressed so well"),
    (["train", "ids.csv", *OUT], "column 'id' of ids.csv looks like an id"),
    (["train", "ids.csv", "--columns", "z", *OUT], "columns='z' is no column of ids.csv"),
    (["classify", "damaged-run", "more"], "images.json is damaged"),
    (["features", "line", "--out", "f.npy", "--words", "8"], "holds a line break"),
    (["features", "bytes", "--out", "f.npy", "--words", "8"], "is not UTF-8; rename it"),
    (["classify", "run", "bytes"], "is not UTF-8; rename it"),
    (["run", "bytes", "--folder", "new-run", "--words", "8"], "is not UTF-8; rename it"),
    # Shapes and labels that do not match.
    (["neighbors", "flat.npy", "--out", "n.npz"], "shape (64,)"),
    (["neighbors", "empty.npy", "--out", "n.npz"], "shape (0, 64)"),
    (["neighbors", "holes.npy", "--out", "n.npz", "--k", "3"], "NaN"),
    (["train", "digits.npz", "--labels", "ten.txt", *OUT], "10 labels for 600 rows"),
    (["train", "holes.npy", "--labels", "ten.txt", *OUT], "NaN or infinity in row 1"),
    (["train", "single.npz", *OUT, *MANUAL], "one class"),
    ([*TRAIN, "--no-auto", "--neighbors", "lists.npz"], "(7, 3)"),
    (["evaluate", "model.safetensors", "strange.npz"], "none of the labels"),
    (["evaluate", "model.safetensors", "q.npy", "--labels", "labels.txt"], "600 labels for 10"),
    (["classify", "model.safetensors", "narrow.npy"], "3 features"),
    (["classify", "run", "q.npy"], "64 features"),
    (["search", "model.safetensors", "holes.npy"], "NaN or infinity in row 1"),
    # Invalid parameters.
    (["features", "more", "--out", "f.npy", "--words", "0"], "n_words=0"),
    (["features", "more", "--out", "f.npy", "--pyramid", "x"], "--pyramid"),
    (["features", "more", "--out", "f.npy", "--words", "8", "--dtype", "int8"], "int8"),
    (["neighbors", "q.npy", "--k", "10", "--out", "n.npz"], "k=10"),
    (["neighbors", "q.npy", "--k", "-1", "--out", "n.npz"], "k=-1"),
    (["neighbors", "q.npy", "--k", "3", "--index", "luck", "--out", "n.npz"], "luck"),
    ([*TRAIN, "--sampling", "luck"], "sampling='luck'"),
    ([*TRAIN, "--retrieval", "luck"], "retrieval='luck' must be 'given' for the rows as they are"),
    ([*TRAIN, "--retrieval", "whitening=7"], "index.source.whitening=7.0 must be a number"),
    ([*TRAIN, "--step-size", "-1"], "step_size"),
    ([*TRAIN, "--step-size", "nan"], "step_size=nan"),
    ([*TRAIN, "--n-neighbors", "-5"], "n_neighbors=-5"),
    ([*TRAIN, "--n-neighbors", "0"], "n_neighbors=0"),
    ([*TRAIN, "--epochs", "0"], "max_epochs=0"),
    ([*TRAIN, "--epochs", "many"], "--epochs"),
    ([*TRAIN, "--whitening", "nan"], "whitening=nan"),
    ([*TRAIN, "--components", "0"], "components=0"),
    ([*TRAIN, "--components", "65"], "n_components=65"),
    ([*TRAIN, "--seed", "-1"], "seed=-1"),
    ([*TRAIN, "--vote", "luck"], "vote='luck'"),
    ([*TRAIN, "--sharpness", "0"], "sharpness=0"),
    ([*TRAIN, "--ensemble", "luck"], "ensemble='luck'"),
    ([*TRAIN, "--ensemble", "pca", "--members", "0"], "n_members=0"),
    ([*TRAIN, "--ensemble", "pca", "--dims", "65"], "65"),
    ([*TRAIN, "--ensemble", "pca", "--cluster", "tcp://127.0.0.1:9"], "no dask scheduler answers"),
    ([*TRAIN, "--cluster", "tcp://127.0.0.1:9"], "--ensemble"),
    ([*TRAIN, "--effort", "0"], "effort=0"),
    ([*TRAIN, "--scoring", "luck"], "scoring='luck'"),
    # Options without effect.
    ([*TRAIN, "--members", "10"], "--members has no effect without --ensemble"),
    ([*TRAIN, "--dims", "5"], "--dims has no effect without --ensemble"),
    ([*TRAIN, "--folder", "more"], "files that are not nearkin's"),
    ([*TRAIN, "--effort", "2", "--epochs", "3"], "--effort is for the automatic choice, and --epo"),
    ([*TRAIN, "--scoring", "accuracy", "--no-auto"], "--scoring is for the automatic choice, and"),
    ([*TRAIN, "--csls", "0.5"], "csls=0.5 needs a kind of vote"),
    ([*TRAIN, "--bandwidth", "2"], "--bandwidth has no effect without --fourier"),
    ([*TRAIN, "--no-preprocess", "--whitening", "0.5"], "--whitening has no effect without"),
    ([*TRAIN, "--auto", "--ensemble", "pca"], "leave out --ensemble or --auto"),
    ([*TRAIN, "--auto", "--sampling", "auto"], "leave out --sampling or --auto"),
    ([*TRAIN, "--neighbors", "lists.npz"], "leave out --neighbors, or give --no-auto"),
    (["run", "digits.npz", "--folder", "new-run", "--members", "10"], "--members has no effect"),
    (["run", "digits.npz", "--folder", "new-run", "--auto", "--epochs", "3"], "leave out --epochs"),
    (["evaluate", "model.safetensors", "test.npz", "--baselines", "luck"], "'luck'"),
    (["evaluate", "model.safetensors", "test.npz", "--baselines", "svm"], "give --train FILE"),
    (["evaluate", "model.safetensors", "test.npz", "--train", "test.npz"], "labels are not those"),
    (["search", "model.safetensors", "q.npy", "--train", "q.npy"], "10 rows that are not the 600"),
    (["classify", "model.safetensors", "q.npy", "--top", "11"], "--top 11"),
    (["classify", "no-threshold.safetensors", "q.npy", "--reject"], "trained with held-out rows"),
    (["classify", "unknown.safetensors", "q.npy", "--reject"], "'unknown', which is a class"),
    (["classify", "model.safetensors", "q.npy", "--top", "0"], "--top 0"),
    (["search", "model.safetensors", "q.npy", "--n", "-2"], "--n -2"),
    (["plan", "10", "10", "10"], "k=10 must be smaller"),
    (["plan", "0", "10"], "rows=0"),
    (["plan", "100", "10", "5", "--members", "-3"], "members=-3"),
    (["run", "digits.npz", "--folder", "new-run", "--test-share", "1"], "test_share=1"),
    (["run", "digits.npz", "--folder", "new-run", "--test-share", "nan"], "test_share=nan"),
    (["run", "digits.npz", "--folder", "new-run", "--step-size", "nan"], "step_size=nan"),
    (["run", "more", "--folder", "new-run", "--words", "-4"], "n_words=-4"),
    # An index that there is.
    (["pairs", "q.npy", "nowhere.npy", "ten.txt", *OUT], "nowhere.npy does not exist"),
    (["pairs", "q.npy", "rows.npy", "ten.txt", *OUT], "line 1 of ten.txt holds 1 cells"),
    (["pairs", "q.npy", "rows.npy", "far.tsv", *OUT], "names document '600', which is none of"),
    (["export", "run/encoder.safetensors", *OUT], "learns no similarity"),
    (["export", "model.safetensors", *OUT], "unit length after its map"),
    (["export", "slne.safetensors", *OUT, "--metric", "luck"], "metric='luck'"),
    (["export", "slne.safetensors", *OUT, "--queries", "q.npy"], "no effect without --data"),
    (["export", "slne.safetensors", *OUT, "--data", "q.npy"], "has no labels"),
    (["export", "slne.safetensors", *OUT, "--data", "narrow.npy", "--labels", "ten.txt"],
     "documents has 3 columns"),
    (["export", "slne.safetensors", *OUT, "--data", "rows.npy", "--qrels", "far.tsv"],
     "give --queries"),
    (["try", "q.npy"], "has no labels"),
    (["try", "single.npz"], "one class"),
    (["try", "rows.npy", "--queries", "q.npy"], "needs judgements"),
    (["try", "strange.npz"], "leave none to test on"),
    (["train"], "Missing argument"),
    (["dance"], "No such command"),
    (["info", "q.npy", "--loudly"], "--loudly"),
]  # fmt: skip


def contents(folder):
    """A digest of each file of a folder, except locks."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    CASES,
    ids=[" ".join(arguments)[:70] for arguments, _ in CASES],
)
def test_bad_input_prints_one_error_line(bad_files, arguments, message):
    before = contents(bad_files)
    result = nearkin(*arguments, cwd=bad_files)
    assert result.returncode in (1, 2)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, result.stderr
    assert message in errors[0]
    assert "bug in nearkin" not in errors[0]
    assert all(line.startswith(("error: ", "note: ")) for line in lines)
    after = contents(bad_files)
    made = {name for name in after if name not in before}
    # A run that fails keeps its finished stages.
    kept = ("new-run/",)
    assert all(name.startswith(kept) for name in made), made
    assert {name: after[name] for name in before} == before
    assert not any(".tmp." in name for name in made)  # no temporary files
    shutil.rmtree(bad_files / "new-run", ignore_errors=True)
    for name in made:
        (bad_files / name).unlink(missing_ok=True)


def test_every_command_has_a_case():
    assert {arguments[0] for arguments, _ in CASES} >= set(COMMANDS) - {"demo"}


@pytest.mark.parametrize("name", ["f.npy", "f.labels.txt", "f.paths.txt", "f.encoder.safetensors"])
def test_features_refuse_to_replace_files(bad_files, tmp_path, name):
    (tmp_path / name).write_text("mine")
    result = nearkin("features", bad_files / "more", "--words", 8, "--out", tmp_path / "f.npy")
    assert result.returncode == 1
    assert f"{name} would be replaced; delete or choose another --out" in result.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}


def test_debug_shows_the_traceback_in_any_position(files):
    for arguments in (["--debug", "info", "nothing"], ["info", "nothing", "--debug"]):
        assert "Traceback" in nearkin(*arguments, cwd=files).stderr


def test_an_unexpected_error_is_reported_as_a_bug(files, monkeypatch, capsys):
    from nearkin.cli import app

    def fail(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr("nearkin.load", fail)
    monkeypatch.setattr(sys, "argv", ["nearkin", "info", str(files / "model.safetensors")])
    with pytest.raises(SystemExit) as end:
        app.main()
    assert end.value.code == 1
    assert "a bug in nearkin; run the command again with --debug" in capsys.readouterr().err


LIMITED = {
    "features": (["features", "more", "--words", "8", "--out", "made.npy"], "made.npy"),
    "neighbors": (["neighbors", "rows.npy", "--out", "made.npz"], "made.npz"),
    "train": ([*TRAIN, *MANUAL], "made.safetensors"),
    "evaluate": (["evaluate", "model.safetensors", "test.npz", "--report", "made.html"],
                 "made.html"),
    "plots": (["evaluate", "model.safetensors", "test.npz", "--plots", "."], "retrieval.png"),
    "classify": (["classify", "model.safetensors", "rows.npy", "--top", "9", "--json", "--out",
                  "made.csv"], "made.csv"),
    "run": (["run", "digits.npz", "--folder", "made", "--baselines", "none", *MANUAL],
            "made/model.safetensors"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
def test_a_full_disk_leaves_no_partial_files(bad_files, tmp_path, name):
    """A limit on the size of files simulates a disk that fills up during a write."""
    arguments, made = LIMITED[name]
    for file in ("rows.npy", "digits.npz", "test.npz"):
        shutil.copy(bad_files / file, tmp_path)
    shutil.copytree(bad_files / "more", tmp_path / "more")
    old = made in ("made.safetensors", "made.html", "made.csv")
    if old:
        (tmp_path / made).write_text("the old one")
    if name != "run":
        shutil.copy(bad_files / "model.safetensors", tmp_path)
    result = nearkin(*arguments, cwd=tmp_path, file_limit=5_000 if name == "features" else 20_000)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert "the disk is full" in lines[0]
    assert (tmp_path / made).exists() == old
    if old:
        assert (tmp_path / made).read_text() == "the old one"
    assert not leftovers(tmp_path)


def test_a_run_resumes_after_a_full_disk(bad_files, tmp_path):
    command = (
        "run",
        bad_files / "digits.npz",
        "--folder",
        tmp_path,
        "--baselines",
        "none",
        *MANUAL,
    )
    assert nearkin(*command, file_limit=20_000).returncode == 1
    again = nearkin(*command, "--json")
    assert again.returncode == 0, again.stderr
    assert '"done_before": ["split.npz"' in again.stdout


def test_a_closed_output_pipe_is_no_error(files):
    command = (
        f"{NEARKIN} classify {files / 'model.safetensors'} {files / 'rows.npy'} --top 10 --json"
    )
    result = subprocess.run(
        ["bash", "-c", f"{command} | head -c 10"], capture_output=True, text=True, env=QUIET
    )
    assert result.stdout == '{"rows": ['
    assert result.stderr == ""
