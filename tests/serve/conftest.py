"""A model, and a server of it."""

from pathlib import Path

import pytest

import nearkin
from nearkin.serve.reload import Holder
from serving import digits, engine_of, fitted, living


@pytest.fixture(scope="session")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    fitted().save(path)
    return path


@pytest.fixture(scope="session")
def model(model_file):
    return nearkin.load(model_file)


@pytest.fixture(scope="session")
def live(model_file):
    given = digits(0, 300)[0]
    with living(Holder(lambda: engine_of(model_file, given), Path(model_file))) as server:
        yield server
