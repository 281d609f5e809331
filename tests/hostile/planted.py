"""Planted faults: a harness that finds nothing proves nothing. Prints what it makes of each."""

import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from hostile.cases.inputs import accepted
from hostile.judge import Verdict
from hostile.runner import Case, run_all
from hostile.surface import Target


def off_by_one(X, k=1):
    return np.asarray(X, float) + (k != 1)


def refusal():
    raise ValueError("k=0 must be a whole number >= 1")


def silent() -> Verdict:
    """A value that should be refused changes the answer without a word."""
    target = Target("off_by_one", off_by_one, {"X": np.ones((2, 2))}, ("k",), {"k": 1})
    return accepted(target, "k", "x", "refuse", target.call(k="x"), np.random.default_rng(0))


FAULTS = {
    "crash: signal": lambda: os.kill(os.getpid(), 11),
    "crash: abort": os.abort,
    "crash: exit": lambda: os._exit(0),
    "hang: sleep": lambda: time.sleep(600),
    "hang: loop": lambda: all(iter(int, 1)) or [None for _ in iter(int, 1)],
    "obscure: internal": lambda: len(5),
    "obscure: memory": lambda: np.empty(10**12),
    "clear: refusal": refusal,
    "wrong: silent": silent,
}

if __name__ == "__main__":
    cases = [Case("planted", name, run, ("k",), seconds=1) for name, run in FAULTS.items()]
    with tempfile.TemporaryDirectory() as folder:
        found = run_all(cases, Path(folder), 4)
        print(json.dumps({case.name: verdict.outcome for case, verdict in found}))
