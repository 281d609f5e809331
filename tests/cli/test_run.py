"""Runs: which stages are redone, resuming after a kill, and exclusive use of a folder."""

import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from commands import NEARKIN, QUIET, answer, draw, leftovers, nearkin
from nearkin import Preprocess, RunFolder, load
from nearkin.cli.interrupts import RESUMES
from nearkin.io import safetensors
from nearkin.io.marker import NAME
from nearkin.neighbors import nearest

STAGES = ["split.npz", "preprocess.safetensors", "neighbors.npz", "model.safetensors",
          "timing.json", "evaluation.json", "baselines.json", "report.html"]  # fmt: skip
QUICK = ("--epochs", "4", "--tol", "0", "--baselines", "none")


def assert_same(one, two):
    """Assert that two run folders hold the same results, except measured seconds."""
    for name in ("features.npy", "split.npz", "neighbors.npz", "evaluation.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    for name in ("encoder.safetensors", "preprocess.safetensors", "model.safetensors"):
        (a, _), (b, _) = (safetensors.read(folder / name) for folder in (one, two))
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], err_msg=f"{name} {key}")


def test_only_stages_affected_by_a_change_are_redone(files, tmp_path):
    def run(*arguments):
        return answer("run", files / "digits.npz", "--folder", tmp_path, *arguments)["done_now"]

    def seconds():
        return json.loads((tmp_path / "timing.json").read_text())["fit_seconds"]

    assert run(*QUICK) == STAGES
    assert seconds() > 0
    assert run(*QUICK) == []
    (tmp_path / "report.html").unlink()
    assert run(*QUICK) == STAGES[-1:]
    assert run("--epochs", 3, "--baselines", "none") == STAGES[3:]
    assert seconds() is None  # the search for neighbours is not in it
    assert run("--epochs", 3, "--baselines", "cosine") == STAGES[6:]
    assert run("--epochs", 3, "--baselines", "cosine", "--n-neighbors", 20) == STAGES[2:]
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])  # truncated
    assert run("--epochs", 3, "--baselines", "cosine", "--n-neighbors", 20) == STAGES[3:4]
    assert (tmp_path / "model.safetensors.changed").read_bytes() == whole[:-100]
    assert load(tmp_path / "model.safetensors").similarity_.n_neighbors == 20


def test_neighbours_in_the_columns_that_the_model_searches(files, tmp_path):
    wanted = "--fourier", 20, "--linear", 0.5, "--components", 16, "--n-neighbors", 9
    answer("run", files / "digits.npz", "--folder", tmp_path, *QUICK, *wanted)
    model = load(tmp_path / "model.safetensors")
    assert model.n_search_columns_ == 16
    expected = nearest(np.ascontiguousarray(model.database_[:, 40:]), 9)[1]
    with np.load(tmp_path / "neighbors.npz") as file:
        np.testing.assert_array_equal(file["indices"], expected)


def test_neighbours_by_a_retrieval_of_their_own(files, tmp_path):
    """A run and a training with the same option end with the same kind of model."""
    option = ("--retrieval", "power=0.5,whitening=1,components=9")
    made = answer("run", files / "digits.npz", "--folder", tmp_path / "run", *QUICK, *option)
    assert made["done_now"] == [STAGES[0], STAGES[1], "retrieval.safetensors", *STAGES[2:]]
    again = answer("run", files / "digits.npz", "--folder", tmp_path / "run", *QUICK,
                   "--retrieval", "given")  # fmt: skip
    assert again["done_now"] == ["retrieval.safetensors", *STAGES[2:]]
    out = tmp_path / "model.safetensors"
    answer("train", files / "digits.npz", "--out", out, "--epochs", 1, *option)
    model = load(out)
    with np.load(files / "digits.npz") as digits:
        X = digits["X"].astype(np.float32)
    roots = Preprocess(9, power=0.5, whitening=1, random_state=0).fit(X)
    k = model.shortlist_length
    near = nearest(roots.transform(X), k, queries=roots.transform(X[:20]))[1]
    np.testing.assert_array_equal(model.kneighbors(X[:20], rerank=False)[1], near)


def test_a_folder_belongs_to_one_source(files, pictures, tmp_path):
    shutil.copytree(pictures / "run", tmp_path / "run")
    refused = nearkin("run", files / "digits.npz", "--folder", "run", cwd=tmp_path)
    assert refused.returncode == 1
    there, here = (pictures / "stripes").resolve(), (files / "digits.npz").resolve()
    assert f"settings: source is '{there}' there and '{here}' here. Nothing in" in refused.stderr
    one = pictures / "more" / "lying" / "00.png"
    assert answer("classify", tmp_path / "run", one)["rows"][0]["labels"] == ["lying"]
    assert answer("info", tmp_path / "run")["source"] == str((pictures / "stripes").resolve())


def test_a_relative_and_an_absolute_path_are_one_source(files, tmp_path):
    assert (
        answer("run", "digits.npz", "--folder", tmp_path, *QUICK, cwd=files)["done_now"] == STAGES
    )
    assert answer("run", files / "digits.npz", "--folder", tmp_path, *QUICK)["done_now"] == []


def test_a_changed_source_is_detected(files, tmp_path):
    """Even if size and modification time are the same."""
    source, folder = tmp_path / "digits.npz", tmp_path / "run"
    with np.load(files / "digits.npz") as digits:
        X, y = digits["X"], digits["y"]
    np.savez(source, X=X, y=y)
    before = source.stat()
    answer("run", source, "--folder", folder, *QUICK)
    np.savez(source, X=X[::-1], y=y[::-1])
    assert source.stat().st_size == before.st_size
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert answer("run", source, "--folder", folder, *QUICK)["done_now"] == STAGES


def test_other_columns_of_a_table_are_another_source(tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, (60, 2))
    lines = [f"{n},{a + rng.normal() / 9},{b + rng.normal() / 9},{a},{b}"
             for n, (a, b) in enumerate(kinds)]  # fmt: skip
    (tmp_path / "t.csv").write_text("\n".join(["id,u,v,a,b", *lines]))
    command = ("run", tmp_path / "t.csv", "--folder", tmp_path / "run", "--baselines", "none")
    columns = "--columns=u,v"
    answer(*command, columns, "--label-column", "a")
    assert answer(*command, columns, "--label-column", "a")["done_now"] == []
    assert "split.npz" in answer(*command, columns, "--label-column", "b")["done_now"]
    assert "split.npz" in answer(*command, "--columns=u", "--label-column", "b")["done_now"]
    asked = ("classify", tmp_path / "run", tmp_path / "t.csv")
    assert len(answer(*asked, "--columns=-id,-a,-b,-v")["rows"]) == 60
    assert "looks like an id" in nearkin(*asked).stderr


def test_a_folder_with_other_files_is_refused(files, tmp_path):
    (tmp_path / "learning").mkdir()
    others = {"report.html": "mine", ".my.partners.db": "mine", "learning/notes.txt": "mine"}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    result = nearkin("run", files / "digits.npz", "--folder", tmp_path, *QUICK)
    assert result.returncode == 1
    assert "holds files that are not nearkin's" in result.stderr
    found = {p.relative_to(tmp_path).as_posix(): p.read_text()
             for p in tmp_path.rglob("*") if p.is_file()}  # fmt: skip
    assert found == others


def test_a_failed_source_does_not_claim_the_folder(files, tmp_path):
    assert nearkin("run", files / "q.npy", "--folder", tmp_path).returncode == 1
    assert answer("run", files / "digits.npz", "--folder", tmp_path, *QUICK)["done_now"] == STAGES


def test_a_run_says_in_words_what_it_found_and_what_to_do_next(files, tmp_path):
    said = nearkin("run", files / "digits.npz", "--folder", tmp_path / "a run", *QUICK).stdout
    assert "right by raw cosine" in said
    assert "mean average precision, learned" in said
    assert f"nearkin serve '{tmp_path / 'a run'}'" in said.splitlines()[-1]


def test_default_folders(files, tmp_path):
    for name in ("digits.npz", "test.npz"):
        shutil.copy(files / name, tmp_path)
        answer("run", name, *QUICK, cwd=tmp_path)
    assert (tmp_path / "runs" / "digits" / "report.html").exists()
    assert (tmp_path / "runs" / "test" / "report.html").exists()


def test_a_killed_run_ends_with_the_same_results(tmp_path):
    draw(tmp_path / "stripes")
    command = ("run", tmp_path / "stripes", "--words", 32, *QUICK)
    answer(*command, "--folder", tmp_path / "whole")
    calls = [
        ("nearkin.images.codebook", "Codebook.fit", 1),
        ("nearkin.images.store", "Sink.write", 2),  # one chunk of three is written
        ("nearkin.images.store", "FolderStore.finish", 1),
        ("nearkin.app.stages", "Stages.get", 3),  # between two stages
        ("nearkin.neighbors.index", "row_neighbors", 1),
        ("nearkin.slne", "SLNE._epoch", 3),
        ("nearkin.io.safetensors", "_write_array", 2),  # a model is half-written
        ("nearkin.app.assessment", "assess", 1),
        ("nearkin.app.report", "write_page", 1),
    ]
    cut = tmp_path / "cut"
    for call in calls:
        ended = nearkin(*command, "--folder", cut, signal_at=[signal.SIGKILL, *call])
        assert ended.returncode == -signal.SIGKILL, (call, ended.stderr)
        assert not (cut / "report.html").exists()
    result = answer(*command, "--folder", cut)
    assert result["done_now"] == ["report.html"]
    assert_same(tmp_path / "whole", cut)
    assert not leftovers(cut)


def test_a_run_killed_during_extraction_resumes(tmp_path):
    draw(tmp_path / "stripes", images=32)
    command = [NEARKIN, "run", tmp_path / "stripes", "--words", "32", *QUICK, "--folder"]
    process = subprocess.Popen(
        [*command, tmp_path / "cut"], env=QUIET, stdout=subprocess.DEVNULL, text=True
    )

    def chunks():
        return {p: p.stat().st_ino for p in (tmp_path / "cut").glob("*chunk-*")}

    while process.poll() is None and not chunks():
        time.sleep(0.005)
    process.kill()
    assert process.wait(timeout=20) == -signal.SIGKILL
    assert 1 <= len(chunks()) <= 6
    assert not (tmp_path / "cut" / "split.npz").exists()
    answer(*command[1:], tmp_path / "cut")
    assert not chunks()
    answer(*command[1:], tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_members_of_an_ensemble_survive_a_kill(files, tmp_path):
    command = ("run", files / "digits.npz", "--ensemble", "pca", "--members", 3, "--vote", "power",
               *QUICK, "--folder", tmp_path)  # fmt: skip
    signal_at = [signal.SIGKILL, "nearkin.ensemble.members", "Members.write_rows", 3]
    ended = nearkin(*command, signal_at=signal_at)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    kept = sorted(path.name for path in tmp_path.glob("*member-*"))
    assert kept == [f"learning.learner.member-000{n}.safetensors" for n in range(2)]
    assert answer(*command)["done_now"] == STAGES[3:]
    assert not list(tmp_path.glob("learning*"))


def test_sigterm_leaves_no_partial_files(files, tmp_path):
    target = tmp_path / "model.safetensors"
    target.write_text("the old one")
    ended = nearkin(
        "train", files / "digits.npz", "--epochs", 2, "--out", target,
        signal_at=[signal.SIGTERM, "nearkin.io.safetensors", "_write_array", 2],
    )  # fmt: skip
    assert ended.returncode == 143
    assert target.read_text() == "the old one"
    assert not leftovers(tmp_path)


def test_an_interrupted_training_writes_no_model(files, tmp_path):
    command = ("run", files / "digits.npz", "--folder", tmp_path, *QUICK)
    ended = nearkin(*command, signal_at=[signal.SIGINT, "nearkin.slne", "SLNE._epoch", 2])
    assert ended.returncode == 130
    assert ended.stderr == f"interrupted; {RESUMES}\n"
    assert not (tmp_path / "model.safetensors").exists()
    assert "model.safetensors" in answer(*command)["done_now"]


def test_a_folder_in_use_is_refused(files, tmp_path):
    with RunFolder(tmp_path).claim("nearkin run"):
        result = nearkin("run", files / "digits.npz", "--folder", tmp_path)
    assert result.returncode == 1
    assert "is in use by another process" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [".nearkin-tmp", NAME]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"split.npz": 3}'])
def test_a_damaged_marker_is_reported(files, tmp_path, content):
    (tmp_path / NAME).write_text(content)
    for command in (["run", files / "digits.npz", "--folder", tmp_path], ["info", tmp_path]):
        result = nearkin(*command)
        assert result.returncode == 1
        assert f"{NAME} in folder='{tmp_path}' is damaged" in result.stderr
        assert "bug in nearkin" not in result.stderr
