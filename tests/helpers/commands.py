"""Helpers that call the command line, and images for it."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

COMMANDS = ["features", "neighbors", "train", "evaluate", "classify", "search", "info", "plan",
            "run", "demo", "export", "pairs", "try", "serve"]  # fmt: skip
NEARKIN = Path(sys.executable).parent / "nearkin"
# One thread each: the samples are small, and tests share the cores.
QUIET = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
# Any setting of the learner ends the automatic choice, which takes longer.
MANUAL = ("--epochs", "5")
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def script(*arguments, **options):
    """Run the installed command, from a cold start."""
    return subprocess.run(
        [NEARKIN, *map(str, arguments)], capture_output=True, text=True, env=QUIET, **options
    )


@cache
def _server():
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("server.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=QUIET,
    )  # fmt: skip
    atexit.register(server.communicate)
    return server


def nearkin(*arguments, **options):
    """Run the command in a forked process with everything imported, which is quick.

    Options are ``cwd``, ``signal_at`` (signal, module, function and number of the call at which
    the process gets the signal) and ``file_limit`` (maximum bytes of a file).
    """
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {"arguments": arguments, "out": out, "err": err, **options}
        server.stdin.write(json.dumps(request, default=str) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


def answer(*arguments, **options):
    """The JSON output of a command."""
    result = nearkin(*arguments, "--json", **options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "" or "note:" in result.stderr
    return json.loads(result.stdout)


def leftovers(folder):
    """Temporary files that a command has left behind."""
    marks = (".part", ".tmp", "scratch-")
    return [str(p) for p in Path(folder).rglob("*") if any(mark in p.name for mark in marks)]


def draw(folder, images=16, seed=0):
    """Write images of horizontal, vertical and diagonal stripes, one folder per class."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:64, :64]
    for name, across in (("lying", y), ("standing", x), ("leaning", (x + y) / 1.4)):
        (folder / name).mkdir(parents=True)
        for i in range(images):
            wave = 127 + 90 * np.sin(across / rng.uniform(2, 4) + rng.random() * 6)
            pixels = (wave + rng.normal(size=(64, 64)) * 12).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i:02}.png")
    return folder
