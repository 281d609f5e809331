"""Input files of the commands."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from commands import MANUAL, NAMES, answer, draw, nearkin


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Digits to train and test on, and a model."""
    folder = tmp_path_factory.mktemp("files")
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    np.savez(folder / "digits.npz", X=X[:600], y=NAMES[y[:600]])
    np.savez(folder / "test.npz", X=X[900:1100], y=NAMES[y[900:1100]])
    np.save(folder / "rows.npy", X[:600])
    (folder / "labels.txt").write_text("\n".join(NAMES[y[:600]]))
    np.save(folder / "q.npy", X[1100:1110])
    result = nearkin("train", folder / "digits.npz", *MANUAL, "--out", folder / "model.safetensors")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of images and a finished run on it."""
    folder = tmp_path_factory.mktemp("pictures")
    draw(folder / "stripes")
    draw(folder / "more", images=3, seed=1)
    answer("run", folder / "stripes", "--folder", folder / "run", "--words", 32, *MANUAL)
    return folder
