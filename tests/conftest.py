import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from samples import blobs, in_memory


@pytest.fixture
def data():
    return blobs()


@pytest.fixture
def quick_path():
    """A folder in memory, where there is one, so that a flush costs nothing."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as path:
        yield Path(path)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.name != "posix" or os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs root, to mount a small disk")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture(autouse=True)
def _same_draws_every_time():
    """scikit-learn's checks draw from numpy's global generator; a failure must come again."""
    np.random.seed(0)  # noqa: NPY002
