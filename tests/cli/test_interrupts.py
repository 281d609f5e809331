"""Ctrl-C: one line that says how to continue; partial work is never taken for complete."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import MANUAL, NEARKIN, QUIET, answer, leftovers, nearkin
from nearkin import load
from nearkin.cli.interrupts import RESUMES

EPOCH = ["nearkin.slne", "SLNE._epoch", 2]
RESTARTS = "the same command starts from the beginning"
RESTARTS_WITHOUT_FOLDER = f"{RESTARTS}; with --folder DIR it would resume"


def interrupted(*arguments, at, **options):
    """The message of a command that gets SIGINT at a call of a function."""
    ended = nearkin(*arguments, signal_at=[signal.SIGINT, *at], **options)
    assert ended.returncode == 130, ended.stderr
    return ended.stderr


def test_training_saves_the_model_learned_so_far(files, tmp_path):
    out = tmp_path / "m.safetensors"
    message = interrupted(
        "train", files / "digits.npz", *MANUAL, "--tol", 0, "--out", out, at=EPOCH
    )
    assert (
        message == f"interrupted; the model learned so far is in {out}; {RESTARTS_WITHOUT_FOLDER}\n"
    )
    assert load(out).similarity_.n_epochs_ == 1


def test_training_interrupted_before_learning(files, tmp_path):
    out = tmp_path / "m.safetensors"
    at = ["nearkin.preprocessing.preprocess", "Preprocess.fit", 1]
    message = interrupted("train", files / "digits.npz", *MANUAL, "--out", out, at=at)
    assert message == f"interrupted; {RESTARTS_WITHOUT_FOLDER}\n"
    assert not out.exists()


def test_training_resumes_from_a_checkpoint(files, tmp_path):
    out, kept = tmp_path / "m.safetensors", tmp_path / "kept"
    command = ("train", files / "digits.npz", "--epochs", 3, "--tol", 0, "--folder", kept,
               "--checkpoint-minutes", 0, "--out", out)  # fmt: skip
    message = interrupted(*command, at=EPOCH)
    assert message == (
        f"interrupted; the model learned so far is in {out}; run the same command again to resume\n"
    )
    assert kept.exists()
    assert answer(*command)["n_epochs"] == 3


def test_an_ensemble_resumes_from_its_folder(files, tmp_path):
    command = ("train", files / "digits.npz", "--ensemble", "pca", "--members", 3, "--vote",
               "power", "--epochs", 2, "--folder", "work", "--out", "m")  # fmt: skip
    message = interrupted(
        *command, at=["nearkin.ensemble.members", "Members.write_rows", 3], cwd=tmp_path
    )
    assert message == "interrupted; run the same command again to resume\n"
    assert answer(*command, cwd=tmp_path)["n_members"] == 3


@pytest.mark.parametrize("command", ["train", "run"])
def test_the_automatic_choice_names_the_best_so_far(files, tmp_path, command):
    where = {"train": ("--out", tmp_path / "m.safetensors"), "run": ("--folder", tmp_path / "run")}
    message = interrupted(
        command, files / "digits.npz", "--scoring", "precision", *where[command],
        at=["nearkin.slne", "SLNE._epoch", 9],
    )  # fmt: skip
    advice = RESTARTS_WITHOUT_FOLDER if command == "train" else RESUMES
    pattern = r"interrupted; \d+ candidates had been tried; by precision the best was precision "
    assert re.match(pattern, message)
    assert message.endswith(f"; {advice}\n")
    assert message.count("\n") == 1
    assert not list(tmp_path.rglob("m*.safetensors"))


def test_features_resume(pictures, tmp_path):
    command = ("features", pictures / "stripes", "--words", 8, "--out", tmp_path / "f.npy")
    at, work = ["nearkin.images.store", "Sink.write", 2], tmp_path / "work"
    message = interrupted(*command, "--folder", work, at=at)
    assert message == f"interrupted; {RESUMES}\n"
    assert answer(*command, "--folder", work)["rows"] == 48
    assert not work.exists()
    whole = command[:-1]
    message = interrupted(*whole, tmp_path / "g.npy", at=at)
    assert message.startswith("interrupted; nothing was written")
    assert not list(tmp_path.glob("g.*"))
    assert answer(*whole, tmp_path / "g.npy")["rows"] == 48
    assert (tmp_path / "f.npy").read_bytes() == (tmp_path / "g.npy").read_bytes()


def test_neighbors_resume_in_a_folder(files, tmp_path):
    at = ["nearkin.neighbors.exact", "topk_by_products", 1]
    message = interrupted("neighbors", files / "rows.npy", "--folder", tmp_path / "near", at=at)
    assert message == f"interrupted; {RESUMES}\n"
    message = interrupted("neighbors", files / "rows.npy", "--out", tmp_path / "near.npz", at=at)
    assert message.startswith("interrupted; nothing was written")
    assert not (tmp_path / "near.npz").exists()
    assert not leftovers(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "at"),
    [
        (["demo"], EPOCH),
        (["plan", "1000", "10", "5"], ["nearkin.slne", "SLNE._epoch", 1]),
        (["evaluate", "model.safetensors", "test.npz", "--train", "digits.npz", "--baselines",
          "cosine"],
         ["nearkin.classifier", "SoftVotingKNN.fit", 1]),
        (["classify", "model.safetensors", "q.npy"],
         ["nearkin.classifier", "SoftVotingKNN.predict_proba", 1]),
    ],
)  # fmt: skip
def test_other_commands_end(files, tmp_path, arguments, at):
    """Also inside a learner, which would otherwise return what it has learned."""
    paths = [files / name if name.endswith(("npz", "npy", "tensors")) else name
             for name in arguments]  # fmt: skip
    message = interrupted(*paths, at=at, cwd=tmp_path)
    chosen = r"; \d+ candidates had been tried; .*" if arguments == ["demo"] else ""
    assert re.fullmatch(rf"interrupted{chosen}\n", message)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_unwind(files, tmp_path, number):
    ended = nearkin("run", files / "digits.npz", "--folder", tmp_path,
                    signal_at=[number, "nearkin.slne", "SLNE._epoch", 1])  # fmt: skip
    assert ended.returncode == 128 + number
    assert not leftovers(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_no_worker_is_left_behind(pictures, tmp_path, number):
    command = subprocess.Popen(
        [NEARKIN, "features", pictures / "stripes", "--words", "64", "--max-side", "2000",
         "--step", "1", "--jobs", "2", "--out", tmp_path / "f.npy"], env=QUIET,
        start_new_session=True,
    )  # fmt: skip
    workers = []
    until = time.monotonic() + 60
    while len(workers) < 2 and time.monotonic() < until:
        time.sleep(0.2)
        workers = workers_of(command.pid)
    assert len(workers) == 2
    command.send_signal(number)
    assert command.wait(timeout=60) == 128 + number
    time.sleep(1)
    assert [pid for pid in workers if os.path.exists(f"/proc/{pid}/exe")] == []
    assert not leftovers(tmp_path)


def workers_of(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        child for child in children if b"popen_loky" in Path("/proc", child, "cmdline").read_bytes()
    ]
