"""Every command through its real entry point."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

NEARKIN = Path(sys.executable).parent / "nearkin"


def nearkin(*arguments, **options):
    return subprocess.run(
        [NEARKIN, *map(str, arguments)], capture_output=True, text=True, **options
    )


def answer(*arguments):
    result = nearkin(*arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    X, y = load_digits(return_X_y=True)
    names = np.array(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    )
    np.savez(folder / "digits.npz", X=X[:900].astype(np.float32), y=names[y[:900]])
    np.savez(folder / "test.npz", X=X[900:1100].astype(np.float32), y=names[y[900:1100]])
    np.save(folder / "q.npy", X[1100:1110].astype(np.float32))
    result = nearkin("train", folder / "digits.npz", "--out", folder / "model.safetensors")
    assert result.returncode == 0, result.stderr
    return folder


def test_help_and_version():
    assert "demo" in nearkin("--help").stdout
    assert nearkin("--version").stdout.strip().count(".") == 2
    assert "Example" in nearkin("train", "--help").stdout


def test_import_and_help_load_nothing_heavy():
    heavy = "{'numba', 'scipy', 'sklearn', 'faiss'}"
    code = f"import sys, nearkin, nearkin.cli; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_demo(tmp_path):
    result = nearkin("demo", "--out", tmp_path / "demo")
    assert result.returncode == 0, result.stderr
    assert "SL-NE, hardest" in result.stdout
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<img") > 100
    assert "linear SVM" in page


def test_info_classify_search_evaluate(files):
    about = answer("info", files / "model.safetensors")
    assert (about["rows"], about["columns"], about["classes"]) == (900, 64, 10)
    assert answer("info", files / "q.npy") == {"rows": 10, "columns": 64, "type": "float32"}
    rows = answer("classify", files / "model.safetensors", files / "q.npy", "--top", 3)["rows"]
    assert [len(row["labels"]) for row in rows] == [3] * 10
    table = nearkin("classify", files / "model.safetensors", files / "q.npy", "--probabilities")
    assert table.stdout.splitlines()[0] == "label,share"
    assert [line.split(",")[0] for line in table.stdout.splitlines()[1:]] == [
        row["labels"][0] for row in rows
    ]
    found = answer("search", files / "model.safetensors", files / "q.npy", "--n", 4)["queries"]
    assert len(found) == 10
    assert len(found[0]["plain"]) == len(found[0]["learned"]) == 4
    page = files / "report.html"
    model, test = files / "model.safetensors", files / "test.npz"
    result = answer("evaluate", model, test, "--report", page)
    assert result["top_1"] > 0.9
    assert result["map_learned"] > result["map_plain"]
    assert "Most confused" in page.read_text()


def test_neighbors_then_train_an_ensemble(files):
    made = answer(
        "neighbors", files / "digits.npz", "--k", 30, "--recall", "--out", files / "n.npz"
    )
    assert made["recall"] == 1.0
    trained = answer(
        "train", files / "digits.npz", "--ensemble", "pca", "--members", 4, "--jobs", 2,
        "--n-neighbors", 30, "--neighbors", files / "n.npz", "--no-preprocess",
        "--out", files / "e.safetensors",
    )  # fmt: skip
    assert trained["learner"] == "SLDE"
    assert trained["n_members"] == 4


def test_plan():
    plan = answer("plan", 1_200_000, 1_000, 500)
    assert plan["rows_MiB"] == pytest.approx(4577.6, abs=0.1)
    assert plan["seconds_an_epoch"] > 0


def test_run_goes_on_and_redoes_only_what_changed(files, tmp_path):
    first = answer("run", files / "digits.npz", "--out", tmp_path)
    assert first["done_now"] == ["model.safetensors", "evaluation.json", "report.html"]
    assert answer("run", files / "digits.npz", "--out", tmp_path)["done_now"] == []
    (tmp_path / "report.html").unlink()
    assert answer("run", files / "digits.npz", "--out", tmp_path)["done_now"] == ["report.html"]
    changed = answer("run", files / "digits.npz", "--out", tmp_path, "--epochs", 3)
    assert changed["done_now"] == first["done_now"]


def test_a_killed_run_ends_the_same(files, tmp_path):
    whole = answer("run", files / "digits.npz", "--out", tmp_path / "whole", "--epochs", 40)
    for wait in (1.0, 2.5, 4.0):
        process = subprocess.Popen(
            [NEARKIN, "run", files / "digits.npz", "--out", tmp_path / "cut", "--epochs", "40"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
    cut = answer("run", files / "digits.npz", "--out", tmp_path / "cut", "--epochs", 40)
    assert cut["top_1"] == whole["top_1"]
    models = [tmp_path / name / "model.safetensors" for name in ("whole", "cut")]
    one, two = (nearkin("classify", model, files / "q.npy").stdout for model in models)
    assert one == two


def test_two_processes_in_one_folder(files, tmp_path):
    import fcntl

    with open(tmp_path / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = nearkin("run", files / "digits.npz", "--out", tmp_path)
    assert result.returncode == 1
    assert "another process is at work" in result.stderr


def test_images_to_a_model(tmp_path):
    rng = np.random.default_rng(0)
    for name, angle in (("stripes", 0), ("bars", 1)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(12):
            wave = 127 + 100 * np.sin(np.arange(80) / 3 + rng.random() * 6)
            picture = np.tile(wave, (80, 1)) + rng.normal(size=(80, 80)) * 8
            pixels = (picture.T if angle else picture).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{i}.png")
    made = answer("features", tmp_path / "images", "--words", 32, "--out", tmp_path / "f.npy")
    assert (made["rows"], made["columns"], made["classes"]) == (24, 32 * 21, 2)
    trained = answer(
        "train", made["features"], "--labels", made["labels"], "--n-neighbors", 10,
        "--out", tmp_path / "m.safetensors",
    )  # fmt: skip
    assert trained["classes"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "nothing.safetensors"], "does not exist"),
        (["info", "q.txt"], "not a safetensors file"),
        (["train", "q.npy", "--out", "m"], "has no labels"),
        (["train", "digits.npz", "--out", "m", "--rule", "luck"], "rule='luck'"),
        (["train", "digits.npz", "--out", "m", "--step-size", "-1"], "step_size"),
        (["train", "digits.npz", "--out", "m", "--labels", "q.txt"], "labels for 900 rows"),
        (["train", "digits.npz", "--out", "no/such/folder/m"], "No such file or directory"),
        (["train", "digits.npz", "--out", "."], "not a regular file"),
        (["train", "digits.npz", "--out", "m", "--ensemble", "pca", "--dims", "65"], "65"),
        (["train", "digits.npz", "--out", "m", "--ensemble", "pca", "--cluster", "tcp://127.0.0.1:9"],
         "no dask scheduler answers"),
        (["classify", "model.safetensors", "narrow.npy"], "3 features"),
        (["classify", "model.safetensors", "q.npy", "--top", "11"], "--top 11"),
        (["classify", "cut.safetensors", "q.npy"], "damaged or truncated"),
        (["evaluate", "model.safetensors", "strange.npz"], "none of the labels"),
        (["neighbors", "q.npy", "--k", "10", "--out", "n.npz"], "k=10"),
        (["plan", "10", "10", "10"], "k=10 must be smaller"),
        (["run", "nowhere"], "nowhere does not exist"),
        (["features", "nowhere", "--out", "f.npy"], "nowhere"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(files, arguments, message):
    (files / "q.txt").write_text("a\nb\n" + "x" * 60)
    np.save(files / "narrow.npy", np.ones((2, 3), np.float32))
    np.savez(files / "strange.npz", X=np.ones((2, 64), np.float32), y=["x", "y"])
    whole = (files / "model.safetensors").read_bytes()
    (files / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    result = nearkin(*arguments, cwd=files)
    assert result.returncode != 0
    assert message in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    assert (files / "model.safetensors").read_bytes() == whole
    assert not [name for name in os.listdir(files) if "part" in name]


def test_debug_shows_the_traceback(files):
    result = nearkin("--debug", "info", "nothing", cwd=files)
    assert "Traceback" in result.stderr


def test_a_full_disk_leaves_nothing_behind(files, tmp_path):
    """A limit on the size of files stands for a disk that fills up while the model is written."""
    target = tmp_path / "model.safetensors"
    target.write_text("the old one")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "import nearkin.cli; sys.argv[0] = 'nearkin'; nearkin.cli.main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, "train", files / "digits.npz", "--out", target],
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 1
    assert "the disk is full" in result.stderr
    assert target.read_text() == "the old one"
    assert not [name for name in os.listdir(tmp_path) if "part" in name]
