from dataclasses import replace

import numpy as np
import pytest

import image_sets as folders
from nearkin import Preprocess, RunFolder, SoftVotingKNN
from nearkin.images import LLC
from nearkin.reproduction import task_baselines, tasks
from nearkin.reproduction.setup import Setup
from samples import blobs


@pytest.fixture
def setup(tmp_path):
    """A quick setup whose folder is claimed."""
    with RunFolder(tmp_path / "run").claim("test") as folder:
        yield Setup(tmp_path, folder, quick=True, jobs=1, log=lambda _: None)


def test_whitening_afterwards_is_whitening():
    X, y = blobs(n=120, dims=10)
    plain = Preprocess(6, whitening=0).fit(X[:80])
    task = tasks.Task("k", plain.transform(X[:80]), y[:80], plain.transform(X[80:]), y[80:],
                     plain.variances_)  # fmt: skip
    at_once = Preprocess(6, whitening=0.5).fit(X[:80])
    half = task.whitened(0.5)
    np.testing.assert_allclose(half.X, at_once.transform(X[:80]), atol=1e-5)
    np.testing.assert_allclose(half.Q, at_once.transform(X[80:]), atol=1e-5)


def test_rows_are_kept_until_the_images_change(setup, tmp_path):
    folders.caltech101(tmp_path, images=5)
    first = tasks.task(setup, "Caltech-101")
    setup.folder.sub(f"{tasks.stem(tasks.image_set(setup, 'Caltech-101'))}-llc").discard()
    again = tasks.task(setup, "Caltech-101")
    np.testing.assert_array_equal(first.X, again.X)
    assert not list(setup.folder.path.glob("*-llc.*"))  # not needed while there are rows
    folders.picture(tmp_path / "101_ObjectCategories" / "ibis" / "new.png", 1, 77)
    assert tasks.task(setup, "Caltech-101").key != first.key


def test_images_in_blocks(setup, tmp_path, monkeypatch):
    """Sets too large for a feature file: the same rows, a block at a time."""
    monkeypatch.setattr(tasks, "MAX_STORED", 3)
    monkeypatch.setattr(tasks, "STREAM_BLOCK", 7)
    folders.ilsvrc(tmp_path, images=5, tests=2)
    task = tasks.task(setup, "ILSVRC'10")
    images = tasks.image_set(setup, "ILSVRC'10")
    mask = images.training(0)
    encoder = LLC(tasks.QUICK_WORDS, **tasks.PAPERS.llc, random_state=0).fit(images.folder[mask])
    features = encoder.transform(images.folder, dtype="float16")
    prepare = Preprocess(task.X.shape[1], whitening=0, random_state=0).fit(features[mask])
    wanted = prepare.transform(features)
    np.testing.assert_allclose(np.abs(task.X @ task.Q.T), np.abs(wanted[mask] @ wanted[~mask].T),
                               atol=1e-4)  # fmt: skip
    kept = {p.name.partition("-split0")[2] for p in setup.folder.path.glob("*-split0*")}
    assert kept == {".safetensors"}  # no blocks, no sample, no PCA


def test_lists_are_kept(setup):
    X, y = blobs(n=60, dims=5)
    task = tasks.Task("t", X[:40], y[:40], X[40:], y[40:], np.ones(5, np.float32))
    own, near = task.lists(setup, 7)
    distances = np.linalg.norm(X[40:, None] - X[None, :40], axis=2)
    np.testing.assert_array_equal(near[:, 0], distances.argmin(axis=1))
    assert own.shape == (40, 7)
    assert (own != np.arange(40)[:, None]).all()
    for fresh, kept in zip((own, near), task.lists(setup, 7)):
        assert kept.filename == fresh.filename
        np.testing.assert_array_equal(kept, fresh)


@pytest.mark.parametrize("recipe", [tasks.PAPERS, tasks.OWN])
def test_retrieval_is_a_space_of_its_own(setup, tmp_path, recipe):
    """Square roots of the features, half whitened; lists come from it, by the naive form, too."""
    folders.caltech101(tmp_path, images=5)
    task = tasks.task(setup, "Caltech-101", recipe=recipe)
    images = tasks.image_set(setup, "Caltech-101")
    mask, made = images.training(0), tasks.features(setup, images, recipe)
    rows = Preprocess(task.X.shape[1], power=recipe.power, whitening=0, random_state=0)
    np.testing.assert_allclose(task.X, rows.fit(made[mask]).transform(made[mask]), atol=1e-5)
    roots = Preprocess(task.X.shape[1], power=0.5, whitening=0.5, random_state=0).fit(made[mask])
    found, asked = (roots.transform(made[part]) for part in (mask, ~mask))
    for one, other in zip(task.searched, (found, asked)):
        np.testing.assert_allclose(one, other, atol=1e-5)
    order = ((task.retrieved.Q[:, None] - task.retrieved.X[None]) ** 2).sum(axis=2).argsort(axis=1)
    np.testing.assert_array_equal(task.lists(setup, 3)[1], order[:, :3])
    half = task.whitened(0.5)
    assert half.retrieval is None  # its neighbours are among its own rows
    assert task.shortened(2).searched[0] is task.searched[0]
    assert str(task.digest) != str(replace(task, retrieval=None).digest)


def test_hubs_are_held_back(setup):
    """CSLS in loops: half of a row's mean similarity to its nearest rows off its scores."""
    X, y = blobs(n=100, dims=6)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    other = X * np.arange(1, 7, dtype=np.float32)
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    task = tasks.Task("t", X[:70], y[:70], X[70:], y[70:], np.ones(6, np.float32),
                      (other[:70], other[70:]))  # fmt: skip
    even = task.without_hubs()
    spread = (other[:70] ** 2).mean(axis=0) ** -0.25
    rows = other * spread
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    stored, asked = rows[:70], rows[70:]
    mean = []
    for i, row in enumerate(stored):
        others = np.delete(stored @ row, i)
        mean.append(np.sort(others)[-tasks.CSLS_NEIGHBORS :].mean())
    scores = asked @ stored.T - np.array(mean) / 2
    own = stored @ stored.T - np.array(mean) / 2
    np.fill_diagonal(own, -np.inf)
    learn, test = even.lists(setup, 9)
    np.testing.assert_array_equal(test, np.argsort(-scores, axis=1)[:, :9])
    np.testing.assert_array_equal(learn, np.argsort(-own, axis=1)[:, :9])
    np.testing.assert_allclose(even.searched[1] @ even.searched[0].T, scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(even.X, task.X)  # only the lists change
    assert even.whitened(0.5).asking is None


def test_voters_of_lmnn_are_those_of_retrieval(setup):
    X, y = blobs(n=90, dims=6)
    other = np.ascontiguousarray(X[:, ::-1] * np.arange(6, dtype=np.float32))
    task = tasks.Task("t", X[:60], y[:60], X[60:], y[60:], np.ones(6, np.float32),
                      (other[:60], other[60:]))  # fmt: skip
    both = task_baselines.side_by_side(task)
    model = SoftVotingKNN(None, n_neighbors=5, vote="power", **task_baselines._parts(task))
    model.fit(both.X, both.y)
    np.testing.assert_array_equal(model.database_, task.X)
    np.testing.assert_array_equal(
        model.kneighbors(both.Q, rerank=False)[1], task.lists(setup, 5)[1]
    )


@pytest.mark.parametrize("again", [False, True])
def test_values_are_kept_while_settings_stay(setup, again):
    setup = replace(setup, again=again)
    calls = []

    def make(value):
        calls.append(value)
        return {"value": value}

    assert setup.value("a", {"n": 1}, lambda: make(1)) == {"value": 1}
    assert setup.value("a", {"n": 1}, lambda: make(2)) == {"value": 2 if again else 1}
    assert setup.value("a", {"n": 2}, lambda: make(3)) == {"value": 3}
    assert calls == ([1, 2, 3] if again else [1, 3])
