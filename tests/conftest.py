import pytest

from samples import blobs


@pytest.fixture
def data():
    return blobs()
