"""What the demo tells a newcomer to do next."""

import os
import subprocess
import sys
from pathlib import Path

from nearkin.app import demo


def test_a_shell_that_does_not_know_the_command_is_told_how_to(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/nowhere")
    (first, _), *others = demo._commands()
    assert others == list(demo.NEXT)
    if (Path(sys.executable).parent / "activate").exists():
        told = subprocess.run(
            ["/bin/sh", "-c", f"{first} && command -v nearkin"], capture_output=True, text=True
        )
        assert Path(told.stdout.strip()).parent == Path(sys.executable).parent


def test_one_that_does_is_not(monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent) + os.pathsep + "/nowhere")
    assert list(demo._commands()) == list(demo.NEXT)
