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


@pytest.fixture(autouse=True)
def _same_draws_every_time():
    """scikit-learn's checks draw from numpy's global generator; a failure must come again."""
    np.random.seed(0)  # noqa: NPY002
