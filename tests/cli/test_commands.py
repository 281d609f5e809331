"""Every command, through its entry point."""

import contextlib
import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest

import nearkin as package
from commands import COMMANDS, MANUAL, NEARKIN, QUIET, answer, nearkin, script
from nearkin.app.planning import readable
from nearkin.app.settings import TrainingSettings
from samples import blobs


def test_help_version_and_completion():
    top = script("--help")
    assert top.returncode == 0
    assert all(name in top.stdout for name in COMMANDS)
    assert "Exit codes" in top.stdout
    assert nearkin("--version").stdout.strip() == package.__version__
    # Detection looks for the shell among the parent processes, where tests may have none.
    named = QUIET | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(
        [NEARKIN, "--show-completion", "bash"], capture_output=True, text=True, env=named
    )
    assert shown.returncode == 0
    assert "complete" in shown.stdout
    assert "nearkin" in shown.stdout


def test_python_m_nearkin():
    called = [sys.executable, "-m", "nearkin", "--version"]
    result = subprocess.run(called, capture_output=True, text=True, env=QUIET)
    assert result.stdout.strip() == package.__version__, result.stderr


def test_help_names_formats_choices_and_exit_codes():
    shown = {name: " ".join(nearkin(name, "--help").stdout.replace("│", " ").split())
             for name in ("features", "train", "run")}  # fmt: skip
    for name in ("features", "run"):
        assert "58.4,57.1,57.4" in shown[name]
        assert "123.7,116.3,103.5" in shown[name]
        assert "(v - mean) / scale" in shown[name]
    for name in ("train", "run"):
        assert "auto, exact, cells or" in shown[name]
    assert "143" in nearkin("--help").stdout


def test_every_command_has_an_example():
    for name in COMMANDS:
        result = nearkin(name, "--help")
        assert result.returncode == 0
        assert f"Example: nearkin {name}" in " ".join(result.stdout.split())


def test_every_command_on_the_same_files(pictures, tmp_path):
    """In sequence; some by the installed script, from a cold start."""
    features, near, model = (tmp_path / name for name in ("f.npy", "n.npz", "m.safetensors"))
    encoder = tmp_path / "f.encoder.safetensors"
    for call, arguments in (
        (script, ["features", pictures / "stripes", "--words", 16, "--out", features]),
        (nearkin, ["neighbors", features, "--k", 10, "--out", near]),
        (script, ["train", features, "--n-neighbors", 10, "--no-preprocess", "--neighbors", near,
                  "--out", model]),
        (nearkin, ["evaluate", model, pictures / "more", "--encoder", encoder]),
        (script, ["classify", model, pictures / "more", "--encoder", encoder]),
        (nearkin, ["search", model, pictures / "more", "--encoder", encoder, "--n", 2]),
        (nearkin, ["info", model]),
        (nearkin, ["plan", 1000, 10, 5]),
        (script, ["run", features, "--folder", tmp_path / "run", "--baselines", "none",
                  "--epochs", 2]),
    ):  # fmt: skip
        result = call(*arguments, "--json")
        assert result.returncode == 0, (arguments[0], result.stderr)
        assert json.loads(result.stdout)


def test_completion_of_a_command():
    words = {"COMP_WORDS": "nearkin cla", "COMP_CWORD": "1", "_NEARKIN_COMPLETE": "complete_bash"}
    result = subprocess.run([NEARKIN], env=QUIET | words, capture_output=True, text=True)
    assert result.stdout.split() == ["classify"]


def test_start_imports_nothing_heavy():
    """Including the plugins, which are imported at every start."""
    code = """
import sys
from nearkin.cli.app import main
sys.argv = ["nearkin", "train", "--help"]
try:
    main()
finally:
    heavy = {"numpy", "numba", "scipy", "sklearn", "faiss", "PIL", "matplotlib"}
    print(heavy & set(sys.modules), "nearkin.reproduction.command" in sys.modules, file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stderr == "set() True\n"
    assert "--sampling" in result.stdout


def test_every_parameter_of_the_estimators_is_an_option():
    other = {"max_epochs": "epochs", "n_components": "components", "n_members": "members",
             "projection": "ensemble", "n_features": "fourier", "random_state": "seed",
             "kind": "vote"}  # fmt: skip
    elsewhere = {"callback", "warm_start", "verbose", "prepare", "n_jobs", "learner",
                 "similarity", "preprocess", "execution", "constraint", "selection"}  # fmt: skip
    options = {entry.name for entry in fields(TrainingSettings)}
    for kind in (package.SLNE, package.SLDE, package.SoftVotingKNN, package.Preprocess,
                 package.FourierFeatures, package.Hardest, package.Softmax, package.Constraint,
                 package.Execution, package.Selection):  # fmt: skip
        for name in set(kind().get_params(deep=False)) - elsewhere:
            assert other.get(name, name) in options


def test_options_reach_the_estimators():
    settings = TrainingSettings(
        sampling="all", n_neighbors=7, margin=0.1, epochs=3, ensemble="random", members=4, dims=5,
        weights="accuracy", shortlist=9, csls=0.5, whitening=0.25, fourier=20, bandwidth=2.0,
        linear=0.3, vote="power", sharpness=3.0, seed=5, average=False, step_size=0.3, auto=False,
    )  # fmt: skip
    model = settings.classifier((100, 8))
    assert (model.n_neighbors, model.random_state) == (9, 5)
    assert model.vote == package.Vote("power", 3.0, csls=0.5)
    ensemble, learner = model.similarity, model.similarity.learner
    assert (ensemble.projection, ensemble.n_members, ensemble.n_components) == ("random", 4, 5)
    assert ensemble.weights == "accuracy"
    assert (learner.sampling, learner.n_neighbors) == (package.AllPairs(0.1), 7)
    assert (learner.max_epochs, learner.average, learner.step_size) == (3, False, 0.3)
    fourier = model.preprocess
    assert (fourier.n_features, fourier.bandwidth, fourier.linear) == (20, 2.0, 0.3)
    assert model.preprocess.preprocess.whitening == 0.25
    wide = TrainingSettings(auto=False).classifier((100, 1_000)).similarity
    assert (wide.sampling, wide.n_neighbors) == (package.AllPairs(), 99)


def test_settings_are_chosen_unless_one_is_given():
    chosen = TrainingSettings(scoring="precision", effort=2.0, seed=3)
    model = chosen.given({"scoring", "effort", "seed"}).classifier((100, 8), verbose=1)
    assert (model.similarity, model.preprocess, model.vote) == ("auto", "auto", "auto")
    assert model.selection == package.Selection("precision", 2.0, verbose=1)
    assert model.random_state == 3
    for name in ("epochs", "whitening", "vote", "ensemble", "csls", "average"):
        assert TrainingSettings().given({name}).auto is False
    assert TrainingSettings(auto=False).given({"auto"}).auto is False
    assert TrainingSettings(auto=True).given({"auto", "seed"}).auto is True


def test_train_and_run_choose_by_themselves(tmp_path):
    X, y = blobs(n=80, dims=4)
    np.savez(tmp_path / "x.npz", X=X, y=y)
    out = tmp_path / "m.safetensors"
    trained = answer("train", tmp_path / "x.npz", "--seed", 3, "--out", out)
    selection = package.Selection()
    model = package.SoftVotingKNN(selection=selection, random_state=3).fit(X, y)
    found = package.load(out)
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    assert trained["shortlist"] == model.n_neighbors_
    assert trained["class_mean_weight"] == pytest.approx(model.vote_.class_weight)
    command = ("run", tmp_path / "x.npz", "--folder", tmp_path / "run", "--baselines", "none")
    assert answer(*command)["done_now"][:2] == ["split.npz", "model.safetensors"]
    assert answer(*command)["done_now"] == []
    redone = answer(*command, "--scoring", "accuracy")["done_now"]
    assert redone[0] == "model.safetensors"
    found = answer("search", out, tmp_path / "x.npz", "--n", 2)["queries"]
    assert [len(entry["learned"]) for entry in found] == [2] * 80


def test_a_run_on_images_chooses_by_itself(pictures, tmp_path):
    """Of few images, for speed; the report shows the neighbours of some."""
    command = ("run", pictures / "more", "--words", 8, "--baselines", "none", "--folder", tmp_path)
    assert "report.html" in answer(*command)["done_now"]
    assert 'class="right"' in (tmp_path / "report.html").read_text()
    one = pictures / "more" / "lying" / "00.png"
    assert len(answer("search", tmp_path, one, "--n", 2)["queries"][0]["learned"]) == 2


def test_demo(tmp_path):
    result = nearkin("demo", "--splits", 1, "--out", tmp_path / "demo")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("compiling")  # before anything is timed
    accuracy = dict(re.findall(r"^(\S.*?)\s+([\d.]+) ± ", result.stdout, re.MULTILINE))
    others = {"raw cosine kNN", "linear SVM", "logistic regression"}
    assert set(accuracy) == others | {"nearkin"}
    assert all(float(accuracy["nearkin"]) > float(accuracy[name]) for name in others)
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("<img") > 100
    for part in ("linear SVM", "candidates, judged by", "Where learning helped most", "<svg"):
        assert part in page
    commands = re.findall(r"^  (nearkin (\w+) .+)$", result.stdout, re.MULTILINE)
    assert len(commands) == 3  # what to do next, printed and in the page
    for command, name in commands:
        assert name in COMMANDS
        assert f"<pre>{command}</pre>" in page


def test_info(files):
    about = answer("info", files / "model.safetensors")
    assert (about["rows"], about["columns"], about["classes"]) == (600, 64, 10)
    assert answer("info", files / "q.npy") == {"rows": 10, "columns": 64, "type": "float32"}
    text = nearkin("info", files / "model.safetensors").stdout
    assert "sampling" in text
    assert "Softmax" in text


def test_info_verifies(files, tmp_path):
    assert answer("info", files / "model.safetensors", "--verify")["rows"] == 600
    changed = bytearray((files / "model.safetensors").read_bytes())
    changed[-1] ^= 1
    (tmp_path / "changed.safetensors").write_bytes(changed)
    refused = nearkin("info", tmp_path / "changed.safetensors", "--verify")
    assert refused.returncode == 1
    assert "changed.safetensors is damaged" in refused.stderr


def test_classify_and_search(files, tmp_path):
    model, rows_file = files / "model.safetensors", files / "q.npy"
    rows = answer("classify", model, rows_file, "--top", 3, "--probabilities")["rows"]
    fitted = package.load(model)
    X = np.load(rows_file)
    assert [row["labels"] for row in rows] == fitted.predict_top(X, 3).tolist()
    for row, p in zip(rows, fitted.predict_proba(X)):
        assert row["probabilities"] == pytest.approx(np.sort(p)[::-1][:3], abs=1e-5)
    table = nearkin("classify", model, rows_file, "--out", tmp_path / "labels.csv")
    assert (table.returncode, table.stdout) == (0, "")
    read = list(csv.DictReader(io.StringIO((tmp_path / "labels.csv").read_text())))
    assert [row["label"] for row in read] == [row["labels"][0] for row in rows]
    alone = answer("search", model, rows_file, "--n", 4)
    # A model does not hold the rows as they were, and says so.
    assert alone["queries"][0].keys() == {"query", "learned"}
    assert "--train FILE" in alone["note"]
    said = nearkin("search", model, rows_file, "--n", 4).stderr
    assert said == f"note: {alone['note']}\n"
    whole = answer("search", model, rows_file, "--n", 4, "--train", files / "digits.npz")
    assert "note" not in whole
    found = whole["queries"]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True)
            for rows in (X, np.load(files / "rows.npy"))]  # fmt: skip
    cosines = np.sort(unit[0] @ unit[1].T, axis=1)[:, :-5:-1]
    hits = [[hit["similarity"] for hit in entry["raw"]] for entry in found]
    np.testing.assert_allclose(hits, cosines, atol=1e-4)
    near = fitted.kneighbors(X, 4)[1]
    assert [[hit["row"] for hit in entry["learned"]] for entry in found] == near.tolist()


def test_evaluate(files, tmp_path):
    page, plots = tmp_path / "report.html", tmp_path / "plots"
    result = answer(
        "evaluate", files / "model.safetensors", files / "test.npz", "--report", page,
        "--plots", plots, "--baselines", "quick", "--train", files / "digits.npz",
    )  # fmt: skip
    with np.load(files / "test.npz") as test:
        accuracy = package.load(files / "model.safetensors").score(test["X"], test["y"])
    assert result["top_1"] == pytest.approx(accuracy)
    assert [o["name"] for o in result["baselines"]] == ["raw cosine kNN", "linear SVM"]
    assert result["baselines"][0]["top1"] == result["top_1_raw"]
    assert all(0.8 < o["top1"] <= 1 for o in result["baselines"])
    assert sum(c["count"] for c in result["confusions"]) <= round((1 - accuracy) * 200)
    text = page.read_text()
    for part in (
        "Most confused",
        "<td>linear SVM</td>",
        "<svg",
        "Can the probabilities be trusted",
    ):
        assert part in text
    assert "http" not in text  # self-contained
    assert sorted(path.name for path in plots.iterdir()) == ["calibration.png", "retrieval.png"]


@pytest.mark.parametrize(("option", "name"), [("--out", "n.npz"), ("--folder", "near")])
def test_neighbors_then_train_an_ensemble(files, tmp_path, option, name):
    made = answer("neighbors", files / "rows.npy", "--k", 30, "--recall", option, tmp_path / name)
    assert made["recall"] == 1.0
    about = answer("info", tmp_path / name)
    assert (about["rows"], about["k"]) == (600, 30)
    trained = answer(
        "train", files / "rows.npy", "--labels", files / "labels.txt", "--ensemble", "pca",
        "--members", 4, "--n-neighbors", 30, "--neighbors", tmp_path / name, "--no-preprocess",
        "--vote", "power", "--order", "local", "--quantize", "--out", tmp_path / "e.safetensors",
    )  # fmt: skip
    assert (trained["learner"], trained["n_members"], trained["vote"]) == ("SLDE", 4, "power 4")


def test_formats_give_the_same_model(files, tmp_path):
    with np.load(files / "digits.npz") as digits:
        frame = pd.DataFrame(digits["X"], columns=[f"c{i}" for i in range(64)])
        frame["kind"] = digits["y"]
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_csv(tmp_path / "x.csv", index=False)
    expected = package.load(files / "model.safetensors").similarity_.matrix_
    for name in ("x.parquet", "x.csv"):
        out = tmp_path / f"{name}.safetensors"
        answer("train", tmp_path / name, "--label-column", "kind", *MANUAL, "--out", out)
        np.testing.assert_array_equal(package.load(out).similarity_.matrix_, expected)


def test_plan():
    plan = answer("plan", 1_200_000, 1_000, 500)
    assert plan["rows_MiB"] == pytest.approx(4577.6, abs=0.1)
    assert plan["graph_MiB"] == pytest.approx(4 * 1.4 * 500 * 1_200_000 / 2**20, abs=0.1)
    assert plan["seconds_for_all_epochs"] == pytest.approx(5 * plan["seconds_per_epoch"], rel=0.02)
    assert 379 / 2 < plan["seconds_for_neighbors_by_cells"] < 2 * 379  # with distances
    need, there = max(plan["memory_without_rows_MiB"].values()), plan["memory_available_MiB"]
    assert there > 0
    assert plan["verdict"].startswith("fits" if need <= there else "too little memory")
    small = answer("plan", 1_000, 10, 5)
    assert small["neighbors"] == "exact"
    assert "seconds_for_neighbors_by_cells" not in small


def test_plan_as_text():
    shown = nearkin("plan", 1_200_000, 1_000, 500, "--members", 10).stdout
    lines = (line.split("  ", 1) for line in shown.splitlines())
    values = {name: value.strip() for name, value in lines}
    assert values["rows"] == "4.5 GiB"
    assert values["neighbors"].startswith("by cells")
    assert values["time for neighbors by cells"] == "4.4 minutes"
    assert values["disk per member"] == "458 MiB"
    assert values["verdict"].startswith(("fits", "too little memory"))
    assert "members" in values["memory without rows"]
    assert "e+" not in shown
    units = readable({"seconds_for_all": 0.31, "seconds_per_epoch": 5e5, "memory_MiB": None})
    assert list(units.values()) == ["0.3 seconds", "5.8 days", "unknown"]


def test_rows_that_resemble_nothing_are_rejected(files, tmp_path):
    q = np.load(files / "q.npy")
    noise = 16 * np.random.default_rng(0).random((3, 64), np.float32)
    np.save(tmp_path / "q.npy", np.r_[q, noise])
    command = ("classify", files / "model.safetensors", tmp_path / "q.npy", "--reject")
    model = package.load(files / "model.safetensors")
    novelty = model.novelty_score(np.r_[q, noise])
    rows = answer(*command, "--probabilities", "--top", 2)["rows"]
    np.testing.assert_allclose([row["novelty"] for row in rows], novelty, atol=1e-5)
    rejected = novelty > model.novelty_threshold_
    assert rejected[10:].all()
    assert rejected[:10].sum() <= 2
    labels = model.predict_top(q, 2)
    for row, out, label in zip(rows, rejected, labels):
        assert row["labels"] == (None if out else label.tolist())
        assert (row["probabilities"] is None) == out
    lines = nearkin(*command, "--probabilities").stdout.splitlines()
    assert lines[0] == "label,share,novelty"
    assert lines[11].startswith("unknown,,0.")
    plain = nearkin("classify", files / "model.safetensors", tmp_path / "q.npy").stdout
    assert "unknown" not in plain
    assert [line.split(",")[0] for line in lines[1:11] if "unknown" not in line] == [
        label for label, out in zip(plain.split()[1:], rejected[:10]) if not out
    ]


def test_features_of_images_for_train_and_classify(pictures, tmp_path):
    made = answer("features", pictures / "stripes", "--words", 32, "--out", tmp_path / "f.npy")
    assert (made["rows"], made["columns"], made["classes"]) == (48, 32 * 21, 3)
    model = tmp_path / "m.safetensors"
    trained = answer("train", made["features"], "--n-neighbors", 20, "--out", model)
    assert trained["classes"] == 3
    new = answer("features", pictures / "more", "--encoder", made["encoder"],
                 "--out", tmp_path / "g.npy")  # fmt: skip
    by_rows = answer("classify", model, new["features"])["rows"]
    by_images = answer("classify", model, pictures / "more", "--encoder", made["encoder"])["rows"]
    assert [row["labels"] for row in by_images] == [row["labels"] for row in by_rows]
    paths = (tmp_path / "g.paths.txt").read_text().splitlines()
    assert [row["image"] for row in by_images] == paths
    found = answer("search", model, pictures / "more", "--encoder", made["encoder"],
                   "--names", made["paths"], "--n", 2)["queries"]  # fmt: skip
    assert found[0]["learned"][0]["name"].endswith(".png")


def test_a_run_on_images_classifies_searches_and_evaluates_images(pictures, tmp_path):
    run, one = pictures / "run", pictures / "more" / "lying" / "00.png"
    rows = answer("classify", run, pictures / "more", "--top", 2)["rows"]
    truth = [name for name in ("leaning", "lying", "standing") for _ in range(3)]
    right = [row["labels"][0] == label for row, label in zip(rows, truth)]
    assert sum(right) >= 8
    assert answer("classify", run, one)["rows"][0]["image"] == str(one)
    page = tmp_path / "found.html"
    found = answer("search", run, one, "--n", 3, "--report", page)["queries"]
    assert [hit["label"] for hit in found[0]["learned"]] == ["lying"] * 3
    assert found[0]["raw"][0]["similarity"] <= 1
    assert page.read_text().count("data:image/jpeg") == 7
    result = answer("evaluate", run, pictures / "more", "--report", tmp_path / "r.html")
    assert result["top_1"] == pytest.approx(sum(right) / 9)
    made = json.loads((run / "evaluation.json").read_text())  # the same rows to compare with
    assert {"top_1_raw", "map_raw"} <= result.keys() & made.keys()
    assert 'class="right"' in (tmp_path / "r.html").read_text()
    assert 'class="right"' in (run / "report.html").read_text()
    assert answer("info", run)["kind"] == "run folder"


def test_skip_unreadable_images(pictures, tmp_path):
    (tmp_path / "mixed").mkdir()
    good = (pictures / "more" / "lying" / "00.png").read_bytes()
    (tmp_path / "mixed" / "a.png").write_bytes(good[:100])
    (tmp_path / "mixed" / "b.png").write_bytes(good)
    refused = nearkin("classify", pictures / "run", tmp_path / "mixed")
    assert refused.returncode == 1
    assert "a.png" in refused.stderr
    rows = answer("classify", pictures / "run", tmp_path / "mixed", "--skip-unreadable")["rows"]
    assert [row["labels"] for row in rows] == [[], ["lying"]]
    found = answer("search", pictures / "run", tmp_path / "mixed", "--skip-unreadable", "--n", 2)
    assert [len(entry["learned"]) for entry in found["queries"]] == [0, 2]


def test_features_skip_unreadable_images(pictures, tmp_path):
    shutil.copytree(pictures / "more", tmp_path / "more")
    encoder = pictures / "run" / "encoder.safetensors"
    command = ("features", tmp_path / "more", "--encoder", encoder, "--out")
    answer(*command, tmp_path / "whole.npy")
    torn = tmp_path / "more" / "lying" / "01.png"
    torn.write_bytes(torn.read_bytes()[:100])
    refused = nearkin(*command, tmp_path / "f.npy")
    assert refused.returncode == 1
    assert "give --skip-unreadable to leave them out" in refused.stderr
    made = nearkin(*command, tmp_path / "f.npy", "--skip-unreadable", "--json")
    assert "1 of 9 images could not be used and are left out" in made.stderr
    about = json.loads(made.stdout)
    assert (about["rows"], about["unreadable"]) == (8, 1)
    labels, paths = ((tmp_path / f"f.{name}.txt").read_text().split() for name in
                     ("labels", "paths"))  # fmt: skip
    assert labels == ["leaning"] * 3 + ["lying"] * 2 + ["standing"] * 3
    assert len(paths) == 8
    assert str(torn) not in paths
    whole = np.load(tmp_path / "whole.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), np.delete(whole, 4, axis=0))
    before = (tmp_path / "f.npy").read_bytes()
    again = nearkin(*command, tmp_path / "f.npy", "--skip-unreadable")
    assert again.returncode == 1  # features are never replaced
    assert "choose another" in again.stderr
    assert (tmp_path / "f.npy").read_bytes() == before


def test_features_of_unreadable_images_only(pictures, tmp_path):
    (tmp_path / "torn" / "a").mkdir(parents=True)
    (tmp_path / "torn" / "a" / "x.png").write_bytes(b"torn")
    encoder = pictures / "run" / "encoder.safetensors"
    refused = nearkin("features", tmp_path / "torn", "--encoder", encoder, "--skip-unreadable",
                      "--out", tmp_path / "f.npy")  # fmt: skip
    assert refused.returncode == 1
    assert "none of the 1 images could be used" in refused.stderr
    assert not list(tmp_path.glob("f.*"))


def test_progress_is_shown_on_a_terminal(pictures, tmp_path):
    terminal, stderr = pty.openpty()
    process = subprocess.Popen(
        [NEARKIN, "run", pictures / "stripes", "--words", "16", "--epochs", "3", "--baselines",
         "none", "--json", "--folder", tmp_path],
        stdout=subprocess.PIPE, stderr=stderr, text=True, env=QUIET | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(stderr)
    seen = b""
    with contextlib.suppress(OSError):  # raised once the other end is closed
        while part := os.read(terminal, 4096):
            seen += part
    os.close(terminal)
    shown = process.communicate()[0]
    assert process.returncode == 0, seen.decode()
    assert json.loads(shown)["done_now"][0] == "encoder.safetensors"
    assert all(word in seen for word in (b"features", b"learning", b"report.html"))


def test_no_progress_without_a_terminal(files, tmp_path):
    result = nearkin("train", files / "digits.npz", "--epochs", 2, "--json",
                     "--out", tmp_path / "m.safetensors")  # fmt: skip
    assert json.loads(result.stdout)["n_epochs"] == 2
    assert result.stderr == ""
