import numpy as np
import pytest

import image_sets as folders
from nearkin import Preprocess
from nearkin.images import LLC
from nearkin.reproduction import tasks
from nearkin.reproduction.setup import Setup
from samples import blobs


def quiet(data, out, **options):
    return Setup(data, out, quick=True, jobs=1, log=lambda _: None, **options)


def test_whitening_afterwards_is_whitening():
    X, y = blobs(n=120, dims=10)
    plain = Preprocess(6, whitening=0).fit(X[:80])
    task = tasks.Task("k", plain.transform(X[:80]), y[:80], plain.transform(X[80:]), y[80:],
                     plain.variances_)  # fmt: skip
    at_once = Preprocess(6, whitening=0.5).fit(X[:80])
    half = task.whitened(0.5)
    np.testing.assert_allclose(half.X, at_once.transform(X[:80]), atol=1e-5)
    np.testing.assert_allclose(half.Q, at_once.transform(X[80:]), atol=1e-5)


def test_a_stopped_run_goes_on(tmp_path):
    folders.caltech101(tmp_path, images=5)
    setup = quiet(tmp_path, tmp_path / "out")
    first = tasks.task(setup, "Caltech-101")
    for file in setup.cache.glob("*-llc*"):  # rows are there: features are no longer needed
        file.unlink()
    again = tasks.task(setup, "Caltech-101")
    np.testing.assert_array_equal(first.X, again.X)
    folders.picture(tmp_path / "101_ObjectCategories" / "ibis" / "new.png", 1, 77)
    assert tasks.task(setup, "Caltech-101").key != first.key


def test_images_in_blocks(tmp_path, monkeypatch):
    """Sets too large for a feature file: the same rows, a block at a time."""
    monkeypatch.setattr(tasks, "MAX_STORED", 3)
    monkeypatch.setattr(tasks, "STREAM_BLOCK", 7)
    folders.ilsvrc(tmp_path, images=5, tests=2)
    setup = quiet(tmp_path, tmp_path / "out")
    task = tasks.task(setup, "ILSVRC'10")
    images = tasks.image_set(setup, "ILSVRC'10")
    mask = images.training(0)
    encoder = LLC(tasks.QUICK_WORDS, random_state=0).fit(images.folder[mask])
    features = encoder.transform(images.folder, dtype="float16")
    prepare = Preprocess(task.X.shape[1], whitening=0, random_state=0).fit(features[mask])
    wanted = prepare.transform(features)
    np.testing.assert_allclose(np.abs(task.X @ task.Q.T), np.abs(wanted[mask] @ wanted[~mask].T),
                               atol=1e-4)  # fmt: skip
    assert not list(setup.cache.glob("*-rows-*"))


def test_lists_are_kept(tmp_path):
    X, y = blobs(n=60, dims=5)
    task = tasks.Task("t", X[:40], y[:40], X[40:], y[40:], np.ones(5, np.float32))
    setup = quiet(tmp_path, tmp_path)
    own, near = task.lists(setup, 7)
    distances = np.linalg.norm(X[40:, None] - X[None, :40], axis=2)
    np.testing.assert_array_equal(near[:, 0], distances.argmin(axis=1))
    assert own.shape == (40, 7)
    assert (own != np.arange(40)[:, None]).all()
    assert len(list(setup.cache.glob("t-*.npy"))) == 2


@pytest.mark.parametrize("again", [False, True])
def test_values_are_kept_while_settings_stay(tmp_path, again):
    setup = quiet(tmp_path, tmp_path, again=again)
    calls = []

    def make(value):
        calls.append(value)
        return {"value": value}

    assert setup.cached("a", [1], lambda: make(1)) == {"value": 1}
    assert setup.cached("a", [1], lambda: make(2)) == {"value": 2 if again else 1}
    assert setup.cached("a", [2], lambda: make(3)) == {"value": 3}
    assert calls == ([1, 2, 3] if again else [1, 3])
