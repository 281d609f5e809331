import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import nearkin
from cutting import Cut, cut_at, cut_often
from nearkin import SLDE, SLNE, Preprocess, RunFolder, SoftVotingKNN
from nearkin.cli.app import app
from nearkin.io.marker import NAME
from nearkin.learning import trainer
from samples import blobs, slne

EASY = {"n_neighbors": 10, "max_epochs": 3, "tol": 0, "random_state": 0}


@pytest.fixture(autouse=True)
def _short_superblocks(monkeypatch):
    """Several superblocks, and so several checkpoints, an epoch of few rows."""
    monkeypatch.setattr(trainer, "superblock_blocks", lambda dims: 6)


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_matrix(tmp_path):
    """SIGKILL in every stage and at random moments: see killing.py."""
    tests = str(Path(__file__).parents[1] / "helpers")
    paths = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "killing.py", tmp_path, "0"], cwd=tests, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for result in results.values():
        died, whole, cut = result["died"], result["calls_whole"], result["calls"]
        for check in result["checks"]:
            assert check == {"equal": True, "left": []}
        for stage in ("neighbours", "graph", "epoch", "bytes", "flush", "rename", "saving"):
            assert died[stage] >= 1, stage
        # A kill costs the block that it hit and nothing that was kept.
        kills = sum(died.values()) - died["at random"] - died["removal"]
        assert whole.count("e") < cut.count("e") <= whole.count("e") + kills
        assert whole.count("n") <= cut.count("n") <= whole.count("n") + 2
    assert sum(sum(result["died"].values()) for result in results.values()) >= 40


def without_seconds(history):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"rule": "uniform"}, {"symmetric": True, "normalize": True}, {"rank": 5},
        {"psd": True, "normalize": True}, {"tol": 0.3, "max_epochs": 9}, {"order": "given"},
        {"validation_fraction": 0.1, "max_epochs": 9, "rule": "softmax", "step_size": 3.0},
    ],
    ids=str,
)  # fmt: skip
def test_the_same_bits(tmp_path, monkeypatch, settings):
    X, y = blobs(n=700, dims=20, spread=1.5)  # three blocks an epoch, a projection after two
    settings = EASY | settings
    whole = slne(**settings).fit(X, y)
    keep = RunFolder(tmp_path / "run", minutes=0)
    cut_often(monkeypatch, (3, 2, 3), lambda: slne(**settings).fit(X, y, folder=keep))
    for _ in range(2):  # the second finds everything done
        again = slne(**settings).fit(X, y, folder=keep)
        np.testing.assert_array_equal(again.matrix_, whole.matrix_)
        assert without_seconds(again.history_) == without_seconds(whole.history_)
        assert (again.n_epochs_, again.t_) == (whole.n_epochs_, whole.t_)
        assert again.n_skipped_ == whole.n_skipped_


def test_warm_start_goes_on_from_a_checkpoint_too(tmp_path, monkeypatch):
    X, y = blobs(n=300)
    whole = slne(warm_start=True, **EASY).fit(X, y).fit(X, y)
    part = slne(warm_start=True, **EASY).fit(X, y)
    start, history = part.matrix_.copy(), list(part.history_)
    cut_at(monkeypatch, 3)
    keep = RunFolder(tmp_path, minutes=0)
    with pytest.raises(Cut):
        part.fit(X, y, folder=keep)
    part.matrix_, part.n_epochs_, part.t_, part.history_ = start, 3, 900, history
    part.fit(X, y, folder=keep)
    np.testing.assert_array_equal(part.matrix_, whole.matrix_)
    assert len(part.history_) == part.n_epochs_ == 6


def test_more_epochs_go_on(tmp_path):
    X, y = blobs()
    slne(**EASY).fit(X, y, folder=tmp_path)
    longer = EASY | {"max_epochs": 5}
    seen = []
    model = slne(callback=lambda epoch, _: seen.append(epoch), **longer)
    model.fit(X, y, folder=tmp_path)
    np.testing.assert_array_equal(model.matrix_, slne(**longer).fit(X, y).matrix_)
    assert seen == [4, 5]
    with pytest.raises(ValueError, match=r"max_epochs=3, but folder=.* holds a fit of 5 epochs"):
        slne(**EASY).fit(X, y, folder=tmp_path)


def test_other_data_or_settings_are_refused_and_named(tmp_path):
    X, y = blobs()
    slne(**EASY).fit(X, y, folder=tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()}
    changed = X.copy()
    changed[150, 3] += 1e-6
    labels = y.copy()
    labels[7] = (y[7] + 1) % 4
    for settings, rows, truth, message in [
        ({"step_size": 0.1}, X, y, "settings: step_size is 0.2 there and 0.1 here. Nothing"),
        ({"random_state": 1}, X, y, "seed is"),
        ({"n_neighbors": 9}, X, y, "n_neighbors is 10 there and 9 here"),
        ({}, changed, y, "X differs"),
        ({}, X, labels, "y differs"),
    ]:
        with pytest.raises(ValueError, match=message):
            slne(**EASY | settings).fit(rows, truth, folder=tmp_path)
    lists = np.roll(np.arange(300), -1)[:, None]
    with pytest.raises(ValueError, match="neighbors differs"):
        slne(**EASY).fit(X, y, neighbors=lists, folder=tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


@pytest.mark.parametrize("model", [slne(**EASY), SLDE(slne(**EASY)), SoftVotingKNN(slne(**EASY))])
def test_a_folder_with_other_files_is_left_alone(tmp_path, model):
    (tmp_path / "thesis.npy").write_text("mine")
    with pytest.raises(ValueError, match=r"holds files that are not nearkin's \(thesis\.npy\)"):
        model.fit(*blobs(), folder=tmp_path)
    RunFolder(tmp_path).discard()
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.npy"]
    for wrong, message in [(3, "folder=3 must be"), (tmp_path / "thesis.npy", "thesis.npy")]:
        with pytest.raises((ValueError, OSError), match=message):
            model.fit(*blobs(), folder=wrong)
    assert (tmp_path / "thesis.npy").read_text() == "mine"


def test_a_folder_serves_one_kind_of_work(tmp_path):
    X, y = blobs()
    slne(**EASY).fit(X, y, folder=tmp_path)
    with pytest.raises(ValueError, match=r"belongs to SLNE\.fit and cannot serve SLDE\.fit"):
        SLDE(slne(**EASY), n_members=2).fit(X, y, folder=tmp_path)


def test_a_damaged_checkpoint_is_made_again(tmp_path):
    X, y = blobs()
    whole = slne(**EASY).fit(X, y, folder=tmp_path).matrix_
    for name in ("learning", "neighbors"):
        path = tmp_path / f"{name}.safetensors"
        damaged = bytearray(path.read_bytes())
        damaged[-1] ^= 1
        path.write_bytes(damaged)
        with pytest.warns(UserWarning, match=f"{name}.safetensors is made again: .* is damaged"):
            again = slne(**EASY).fit(X, y, folder=tmp_path).matrix_
        np.testing.assert_array_equal(again, whole)


@pytest.mark.parametrize(
    "learner",
    [SLNE.paper(n_neighbors=10, max_epochs=3, tol=0), None,
     SLDE(SLNE.paper(n_neighbors=10, max_epochs=3, tol=0), n_members=2)],
)  # fmt: skip
def test_without_a_seed_the_folder_keeps_one(tmp_path, monkeypatch, learner):
    """None asks for any seed; a second start must draw the first one's."""
    X, y = blobs(n=700)
    keep = RunFolder(tmp_path, minutes=0)
    if learner is None:
        learner = SoftVotingKNN(SLNE.paper(n_neighbors=10, max_epochs=3), preprocess=Preprocess(8))
    with monkeypatch.context() as patch:
        cut_at(patch, 5)
        with pytest.raises(Cut):
            clone(learner).fit(X, y, folder=keep)
    model = clone(learner).fit(X, y, folder=keep)
    seed = json.loads((tmp_path / NAME).read_text())["seed"]
    expected = clone(learner).set_params(random_state=seed).fit(X, y)
    one, two = (getattr(m, "similarity_", m).matrix_ for m in (model, expected))
    np.testing.assert_array_equal(one, two)


def test_the_classifier_keeps_rows_lists_and_both_fits(tmp_path, monkeypatch):
    X, y = blobs(n=700)
    names = np.array(["wren", "owl", "kite", "tern"])[y]
    model = SoftVotingKNN(
        SLNE.paper(n_neighbors=10, max_epochs=2), preprocess=Preprocess(8), random_state=0
    )
    whole = clone(model).fit(X, names)
    first = clone(model).fit(X, names, folder=tmp_path)
    files = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.safetensors")}
    assert files == {
        "preprocessed.safetensors", "neighbors.safetensors", "learner.learning.safetensors",
        "held-out.learner.learning.safetensors",
    }  # fmt: skip
    cut_at(monkeypatch, 1)  # no step is taken again
    again = clone(model).fit(X, names, folder=tmp_path)
    for other in (first, again):
        np.testing.assert_array_equal(other.predict_proba(X), whole.predict_proba(X))
        assert other.vote_ == whole.vote_
    with pytest.raises(ValueError, match="X differs"):
        clone(model).fit(X + 1, names, folder=tmp_path)


def test_a_transformer_that_no_file_can_hold_is_done_again(tmp_path):
    from sklearn.preprocessing import StandardScaler

    X, y = blobs(n=200)
    model = SoftVotingKNN(slne(**EASY), preprocess=StandardScaler(), vote="power", random_state=0)
    one, two = (clone(model).fit(X, y, folder=tmp_path).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_members_in_progress_are_kept(tmp_path, monkeypatch):
    """The folder of an ensemble holds checkpoints while a member is learned, and none after."""
    X, y = blobs(n=700, dims=12, spread=1.5)
    folder = RunFolder(tmp_path, minutes=0)
    ensemble = SLDE(slne(**EASY), n_members=2, random_state=0)
    taken = []
    take = trainer.Trainer.take

    def counting(self, *arguments):
        taken.append(1)
        return take(self, *arguments)

    with monkeypatch.context() as patch:
        cut_at(patch, 8)
        with pytest.raises(Cut):
            clone(ensemble).fit(X, y, folder=folder)
    assert (tmp_path / "unfinished-0000.learning.safetensors").exists()
    with monkeypatch.context() as patch:
        patch.setattr(trainer.Trainer, "take", counting)
        model = clone(ensemble).fit(X, y, folder=folder)
    assert len(taken) == 2 * 9 - 7
    whole = SLDE(slne(**EASY), n_members=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.matrix_, whole.matrix_)
    assert not list(tmp_path.glob("unfinished*"))


def test_a_worker_that_dies_after_its_member_is_kept_leaves_nothing(tmp_path, monkeypatch):
    X, y = blobs(n=300, dims=12)
    folder = RunFolder(tmp_path, minutes=0)
    ensemble = SLDE(SLNE.paper(**EASY), n_members=2, random_state=0)

    def dies(self):
        raise Cut

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "discard", dies)
        with pytest.raises(Cut):
            clone(ensemble).fit(X, y, folder=folder)
    assert list(tmp_path.glob("unfinished*"))
    model = clone(ensemble).fit(X, y, folder=folder)
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == ["member-0000.safetensors", "member-0001.safetensors", NAME]
    np.testing.assert_array_equal(model.matrix_, clone(ensemble).fit(X, y).matrix_)


def test_cross_validation_is_not_touched():
    """The folder is given to `fit`, so copies of an estimator share none."""
    X, y = blobs(n=200)
    model = SoftVotingKNN(slne(**EASY), vote="power")
    assert not [name for name in model.get_params() if "folder" in name]
    assert cross_val_score(model, X, y, cv=2, error_score="raise").min() > 0.5


def test_a_model_that_is_written_into_the_folder_stays(tmp_path):
    X, y = blobs()
    np.savez(tmp_path / "data.npz", X=X, y=y)
    work = tmp_path / "work"
    work.mkdir()
    out = work / "model.safetensors"
    command = ["train", str(tmp_path / "data.npz"), "--epochs", "1"]
    assert app([*command, "--folder", str(work), "--out", str(out)], standalone_mode=False) is None
    assert [p.name for p in work.iterdir()] == ["model.safetensors"]
    assert (nearkin.load(out).predict(X) == y).mean() > 0.5


def test_ctrl_c_leaves_a_model_and_the_folder(tmp_path, monkeypatch, capsys):
    """The command saves what it has; given again, it goes on as if nothing had been."""
    X, y = blobs(n=700)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    kept, command = tmp_path / "kept", ["train", str(tmp_path / "data.npz"), "--epochs", "3"]
    durable = ["--folder", str(kept), "--checkpoint-minutes", "0"]

    def train(name, *options, code=None):
        ended = app([*command, "--out", str(tmp_path / name), *options], standalone_mode=False)
        assert ended == code
        return nearkin.load(tmp_path / name).similarity_.matrix_

    whole = train("whole.safetensors")
    with monkeypatch.context() as patch:
        cut_at(patch, 4, KeyboardInterrupt)
        assert not np.array_equal(train("cut.safetensors", *durable, code=130), whole)
    assert "interrupted" in capsys.readouterr().err
    assert (kept / NAME).exists()
    np.testing.assert_array_equal(train("cut.safetensors", *durable), whole)
    assert not kept.exists()
