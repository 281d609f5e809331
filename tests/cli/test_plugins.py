"""Commands of other packages, found by their entry points."""

import os
import subprocess
import sys

import pytest

CODE = """
import typer

def greet(name: str) -> None:
    \"\"\"Greet someone.\"\"\"
    typer.echo(f"hello {name}")
"""
ENTRIES = """[nearkin.commands]
greet = greetings:greet
broken = not_installed_anywhere:run
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Calls the command line with another distribution on the path."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "greetings.py").write_text(CODE)
    info = folder / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])

    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "nearkin", *arguments],
            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip

    return call


def test_a_registered_command_runs_and_is_listed(run):
    result = run("greet", "you")
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello you\n", "")
    listed = run("--help").stdout
    assert "Greet someone." in listed
    assert "train" in listed


def test_an_unavailable_command_fails_only_when_called(run):
    assert run("--version").returncode == 0
    result = run("broken", "table1", "--out", "x")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "'broken' (not_installed_anywhere:run) cannot be imported" in result.stderr
    assert "reinstall" in result.stderr
