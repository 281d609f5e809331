"""Whole runs: what is redone, what survives a kill, who may work in a folder."""

import fcntl
import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from commands import NEARKIN, QUIET, answer, draw, leftovers, nearkin
from nearkin import load
from nearkin.cli.interrupts import GOES_ON
from nearkin.io import safetensors

STAGES = ["split.npz", "preprocess.safetensors", "neighbors.npz", "model.safetensors",
          "evaluation.json", "baselines.json", "report.html"]  # fmt: skip
QUICK = ("--epochs", "4", "--tol", "0", "--baselines", "none")


def same(one, two):
    """Whether two run folders hold the same results, but for the seconds things took."""
    for name in ("features.npy", "split.npz", "neighbors.npz", "evaluation.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    for name in ("encoder.safetensors", "preprocess.safetensors", "model.safetensors"):
        (a, _), (b, _) = (safetensors.read(folder / name) for folder in (one, two))
        assert a.keys() == b.keys()
        for key in a:
            np.testing.assert_array_equal(a[key], b[key], err_msg=f"{name} {key}")


def test_redoes_only_what_a_change_touches(files, tmp_path):
    def run(*arguments):
        return answer("run", files / "digits.npz", "--out", tmp_path, *arguments)["done_now"]

    assert run(*QUICK) == STAGES
    assert run(*QUICK) == []
    (tmp_path / "report.html").unlink()
    assert run(*QUICK) == STAGES[-1:]
    assert run("--epochs", 3, "--baselines", "none") == STAGES[3:]
    assert run("--epochs", 3, "--baselines", "retrieval") == STAGES[5:]
    assert run("--epochs", 3, "--baselines", "retrieval", "--n-neighbors", 20) == STAGES[2:]
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])  # somebody cut it short
    assert run("--epochs", 3, "--baselines", "retrieval", "--n-neighbors", 20) == STAGES[3:4]
    assert load(tmp_path / "model.safetensors").similarity_.n_neighbors == 20


def test_a_folder_belongs_to_one_source(files, pictures, tmp_path):
    shutil.copytree(pictures / "run", tmp_path / "run")
    refused = nearkin("run", files / "digits.npz", "--out", "run", cwd=tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"error: --out run belongs to a run on {(pictures / 'stripes').resolve()}; give another "
        "--out, or remove the folder\n"
    )
    one = pictures / "more" / "lying" / "00.png"
    assert answer("classify", tmp_path / "run", one)["rows"][0]["labels"] == ["lying"]
    assert answer("info", tmp_path / "run")["source"] == str((pictures / "stripes").resolve())


def test_a_source_may_be_named_in_other_ways(files, tmp_path):
    assert answer("run", "digits.npz", "--out", tmp_path, *QUICK, cwd=files)["done_now"] == STAGES
    assert answer("run", files / "digits.npz", "--out", tmp_path, *QUICK)["done_now"] == []
    record = json.loads((tmp_path / "stages.json").read_text())
    del record["source"]  # as written by earlier versions
    (tmp_path / "stages.json").write_text(json.dumps(record))
    assert answer("run", files / "digits.npz", "--out", tmp_path, *QUICK)["done_now"] == []
    assert "source" in json.loads((tmp_path / "stages.json").read_text())


def test_a_source_that_gave_nothing_leaves_the_folder_free(files, tmp_path):
    assert nearkin("run", files / "q.npy", "--out", tmp_path).returncode == 1
    assert answer("run", files / "digits.npz", "--out", tmp_path, *QUICK)["done_now"] == STAGES


def test_without_out_each_source_has_a_folder(files, tmp_path):
    for name in ("digits.npz", "test.npz"):
        shutil.copy(files / name, tmp_path)
        answer("run", name, *QUICK, cwd=tmp_path)
    assert (tmp_path / "runs" / "digits" / "report.html").exists()
    assert (tmp_path / "runs" / "test" / "report.html").exists()


def test_killed_anywhere_a_run_ends_the_same(tmp_path):
    draw(tmp_path / "stripes")
    command = ("run", tmp_path / "stripes", "--words", 32, *QUICK)
    answer(*command, "--out", tmp_path / "whole")
    places = [
        ("nearkin.images.codebook", "Codebook.fit", 1),
        ("nearkin.images.store", "FeatureFile.record", 2),  # one chunk of three is noted
        ("nearkin.images.store", "FeatureFile.finish", 1),
        ("nearkin.app.pipeline", "_split", 1),  # between two stages
        ("nearkin.neighbors.search", "row_neighbors", 1),
        ("nearkin.slne", "SLNE._epoch", 3),
        ("nearkin.io.safetensors", "_write_array", 2),  # a model is half-written
        ("nearkin.app.assessment", "assess", 1),
        ("nearkin.app.report", "write_page", 1),
    ]
    cut = tmp_path / "cut"
    for place in places:
        ended = nearkin(*command, "--out", cut, place=[signal.SIGKILL, *place])
        assert ended.returncode == -signal.SIGKILL, (place, ended.stderr)
        assert not (cut / "report.html").exists()
    result = answer(*command, "--out", cut)
    assert result["done_now"] == ["report.html"]
    same(tmp_path / "whole", cut)
    assert not leftovers(cut)


def test_killed_from_outside_while_features_are_made(tmp_path):
    draw(tmp_path / "stripes", images=32)
    command = [NEARKIN, "run", tmp_path / "stripes", "--words", "32", *QUICK, "--out"]
    process = subprocess.Popen(
        [*command, tmp_path / "cut"], env=QUIET, stdout=subprocess.DEVNULL, text=True
    )
    journal = tmp_path / "cut" / "features.npy.journal"
    while process.poll() is None and not (journal.exists() and "rows" in journal.read_text()):
        time.sleep(0.005)
    process.kill()
    assert process.wait(timeout=20) == -signal.SIGKILL
    done = journal.read_text().count('"rows"')
    assert 1 <= done <= 6
    same_file = journal.stat().st_ino
    assert not (tmp_path / "cut" / "split.npz").exists()
    answer(*command[1:], tmp_path / "cut")
    assert journal.stat().st_ino == same_file  # gone on with, not begun again
    assert journal.read_text().count('"rows"') == 6
    answer(*command[1:], tmp_path / "whole")
    same(tmp_path / "whole", tmp_path / "cut")


def test_members_of_an_ensemble_survive_a_kill(files, tmp_path):
    command = ("run", files / "digits.npz", "--ensemble", "pca", "--members", 3, "--vote", "power",
               *QUICK, "--out", tmp_path)  # fmt: skip
    ended = nearkin(*command, place=[signal.SIGKILL, "nearkin.slde", "project", 3])
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    kept = sorted(path.name for path in (tmp_path / "learning").rglob("member-*"))
    assert kept == ["member-0000.safetensors", "member-0001.safetensors"]
    assert answer(*command)["done_now"] == STAGES[3:]
    assert not (tmp_path / "learning").exists()


def test_a_polite_kill_leaves_nothing_behind(files, tmp_path):
    target = tmp_path / "model.safetensors"
    target.write_text("the old one")
    ended = nearkin(
        "train", files / "digits.npz", "--epochs", 2, "--out", target,
        place=[signal.SIGTERM, "nearkin.io.safetensors", "_write_array", 2],
    )  # fmt: skip
    assert ended.returncode == 143
    assert target.read_text() == "the old one"
    assert not leftovers(tmp_path)


def test_an_interrupted_training_is_not_taken_for_a_finished_one(files, tmp_path):
    command = ("run", files / "digits.npz", "--out", tmp_path, *QUICK)
    ended = nearkin(*command, place=[signal.SIGINT, "nearkin.slne", "SLNE._epoch", 2])
    assert ended.returncode == 130
    assert ended.stderr == f"interrupted; {GOES_ON}\n"
    assert not (tmp_path / "model.safetensors").exists()
    assert "model.safetensors" in answer(*command)["done_now"]


def test_two_processes_in_one_folder(files, tmp_path):
    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = nearkin("run", files / "digits.npz", "--out", tmp_path)
    assert result.returncode == 1
    assert "another process is at work" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


@pytest.mark.parametrize("spoiled", ["", "{", "[]", '{"split.npz": 3}'])
def test_a_spoiled_record_is_no_obstacle(tmp_path, spoiled):
    from nearkin.app.stages import RECORD, Stages

    (tmp_path / RECORD).write_text(spoiled)
    stages = Stages(tmp_path)
    stages.get("split.npz", lambda path: path.write_text("x"))
    assert stages.made == ["split.npz"]
    assert json.loads((tmp_path / RECORD).read_text())["split.npz"]["bytes"] == 1
