"""The package as others get it: built, installed into a clean environment, and used."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLATFORMS = {
    "linux": ["manylinux_2_28_x86_64", "manylinux2014_x86_64"],
    "macos": ["macosx_14_0_arm64"],
    "windows": ["win_amd64"],
}
SYSTEMS = [("3.12", "linux"), ("3.13", "linux"), ("3.13", "macos"), ("3.13", "windows")]
TINY = """
import numpy as np
from nearkin import SLNE, SoftVotingKNN, load
rng = np.random.default_rng(0)
X, y = np.vstack([rng.normal(c, 1, (60, 8)) for c in (0, 3)]), np.repeat(["a", "b"], 60)
model = SoftVotingKNN(SLNE(max_epochs=1), n_neighbors=10).fit(X, y)
model.save("tiny.safetensors")
assert load("tiny.safetensors").score(X, y) > .9
from nearkin.images import LLC
try:
    LLC().fit(["a.png"])
except ImportError as hint:
    print(hint)
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def pip_or_skip(python, *arguments):
    """Run pip, which needs a package index."""
    command = [python, "-m", "pip", *arguments]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if "NewConnectionError" in done.stderr or "ConnectTimeout" in done.stderr:
        pytest.skip("needs a package index")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def place():
    """Not among the folders that pytest keeps: an installation is large."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def built(place):
    """The source archive, and the wheel built from it."""
    python = sys.executable
    run(python, "-m", "build", "--outdir", place, ROOT)
    (archive,), (wheel,) = place.glob("*.tar.gz"), place.glob("*.whl")
    return archive, wheel


def test_what_the_archives_hold(built):
    archive, wheel = built
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    wanted = ("mkdocs.yml", "docs/index.md", "tests/conftest.py", "CONTRIBUTING.md", "LICENSE")
    assert names.issuperset(wanted)
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert "nearkin/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"nearkin"}
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src").rglob("*.py")}
    assert names.issuperset(sources)


def interpreter(version):
    """The Python of this version that is on the path, or that pyenv has; None without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
    for python in filter(None, found):
        answer = subprocess.run([python, "--version"], capture_output=True, text=True)
        if answer.stdout.startswith(f"Python {version}."):
            return python
    return None


def environment(python, folder):
    """The scripts of a new virtual environment."""
    run(python, "-m", "venv", folder)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


def check_installed(scripts, folder):
    options = {"cwd": folder, "env": {"PATH": str(scripts), "HOME": str(folder)}}
    version = run(scripts / "nearkin", "--version", **options)
    assert version.split()[-1] == source_version()
    assert "--out" in run(scripts / "nearkin", "demo", "--help", **options)
    hint = run(scripts / "python", "-c", TINY, **options)
    assert "pip install '.[images]'" in hint


def source_version():
    return (ROOT / "src/nearkin/__init__.py").read_text().split('__version__ = "')[1].split('"')[0]


def test_a_clean_environment(built, place):
    archive, wheel = built
    clean = environment(sys.executable, place / "clean")
    pip_or_skip(clean / "python", "install", wheel)
    run(clean / "python", "-m", "pip", "check")
    check_installed(clean, place)
    pip_or_skip(clean / "python", "install", "--force-reinstall", "--no-deps", archive)
    check_installed(clean, place)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_pythons_that_are_at_hand(version, built, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"needs Python {version}")
    with tempfile.TemporaryDirectory() as folder:
        scripts = environment(python, Path(folder) / version)
        pip_or_skip(scripts / "python", "install", built[1])
        check_installed(scripts, tmp_path)


@pytest.mark.parametrize(("version", "system"), SYSTEMS)
def test_every_dependency_has_a_wheel(version, system, place):
    """For Pythons that are not here, and for other systems: pip finds wheels of everything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    platforms = [option for name in PLATFORMS[system] for option in ("--platform", name)]
    report = pip_or_skip(
        sys.executable, "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-",
        "--only-binary=:all:", "--python-version", version, *platforms, "--target", place / "none",
        *project["dependencies"],
    )  # fmt: skip
    found = {part["metadata"]["name"].lower() for part in json.loads(report)["install"]}
    assert found.issuperset({"numpy", "numba", "faiss-cpu", "scikit-learn"})
