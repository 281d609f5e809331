import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks and limits are Linux's")


def run(*arguments):
    """A process of its own: the one that forks must not have started a thread."""
    paths = [str(TESTS / "helpers"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *arguments], cwd=TESTS, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip


def test_a_sample_of_hostile_cases_ends_well():
    done = run("-m", "hostile", "--fast", "--seed", "0")
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_planted_faults_are_found():
    done = run("-m", "hostile.planted")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 9
    assert {name: name.split(":")[0] for name in found} == found


def test_everything_that_a_model_file_can_hold_is_attacked():
    parts = "{'Adapter', 'Fixed', 'Random'}"  # saved beside, or as parts of models
    left = f"set(models.CLASSES) - {{*surface.estimators(), *surface.groups()}} - {parts}"
    code = f"from hostile import surface; from nearkin.io import models; print({left})"
    assert run("-c", code).stdout == "set()\n"
