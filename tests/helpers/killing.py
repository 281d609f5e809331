"""Trains through the command line and kills it again and again; run by test_resume.py.

One process imports and compiles everything and forks a child for each run, so that a run costs
what it computes. A child dies by SIGKILL: of its own hand at a chosen call, or of its parent's at
a random moment. Prints, as JSON, what there is to judge.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

import nearkin.classifier  # noqa: F401 - so that no child has to
from nearkin import SLNE, Constraint
from nearkin.cli.app import app
from nearkin.io import atomic, models, safetensors
from nearkin.learning import neighborhood_fit
from nearkin.learning.trainer import Trainer
from nearkin.native.listed_scores import pair_squared_distances
from nearkin.native.threads import limited
from nearkin.neighbors import exact
from samples import blobs

# Where a child can be made to die: what is called there.
PLACES = {
    "neighbours": (exact.Exact, "search"),
    "graph": (neighborhood_fit, "neighborhoods"),
    "epoch": (Trainer, "take"),
    "projection": (Trainer, "project"),
    "bytes": (safetensors, "_write_array"),
    "flush": (os, "fsync"),
    "rename": (os, "replace"),
    "saving": (models, "save"),
    "removal": (os, "rmdir"),
}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def wrap(place, before=None, after=None):
    owner, name = PLACES[place]
    original = getattr(owner, name)

    def wrapped(*arguments, **options):
        if before:
            before()
        result = original(*arguments, **options)
        if after:
            after()
        return result

    setattr(owner, name, wrapped)


def fuse(nth):
    calls = iter(range(1, nth + 1))

    def burn():
        if next(calls, None) == nth:
            die()

    return burn


def run(arguments, log, place=None, nth=1, when="before", seconds=None):
    """Fork a child that trains; return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            counter = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            wrap("epoch", before=lambda: os.write(counter, b"e"))
            wrap("neighbours", before=lambda: os.write(counter, b"n"))
            if place:
                wrap(place, **{when: fuse(nth)})
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            app(arguments, standalone_mode=False)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit(f"a run failed: {arguments} {place} {nth} {when}")
    return os.WIFSIGNALED(status)


def everything_is_whole(folder):
    """Read every file that does not say that it is a part."""
    for path in Path(folder).rglob("*"):
        if path.is_file() and not atomic.is_temporary(path.name):
            if path.suffix == ".safetensors":
                for array in safetensors.read(path)[0].values():
                    array.sum()
            elif path.suffix == ".json":
                json.loads(path.read_text())


def matrix(path):
    return np.array(models.load(path).similarity_.matrix_)


def moments(rng):
    """Places to die, in the order in which a run comes to them, each with a random call."""
    early = [("neighbours", 1), ("rename", 3), ("graph", 1)]
    steps = [("epoch", int(rng.integers(1, 4))) for _ in range(3)]
    writes = [(place, int(rng.integers(1, 5))) for place in ("bytes", "flush", "rename")]
    middle = [*steps, *writes, ("projection", 1), ("epoch", 2)]
    rng.shuffle(middle)
    for place, nth in early + [(p, int(n)) for p, n in middle]:
        yield place, nth, rng.choice(["before", "after"])


def ends(rng):
    """Ways to die when all is learned."""
    yield "saving", 1, "before"
    yield "bytes", 1, "after"
    yield "flush", 1, rng.choice(["before", "after"])
    yield "saving", 1, "after"


def campaign(folder, data, options, rng):
    """Kill a run in every stage, then at random moments; each time let one end at last."""
    folder.mkdir()
    log, out, kept = folder / "log", folder / "cut.safetensors", folder / "kept"
    train = ["train", str(data), "--seed", "1", *options]
    whole = [*train, "--out", str(folder / "whole.safetensors")]
    began = time.monotonic()
    assert not run(whole, folder / "whole.log")
    took = time.monotonic() - began
    cut = [*train, "--out", str(out), "--folder", str(kept), "--checkpoint-minutes", "0"]
    died = {}

    def attempt(stage, place=None, nth=1, when="before", seconds=None):
        died[stage] = died.get(stage, 0) + run(cut, log, place, nth, when, seconds)
        everything_is_whole(folder)

    for place, nth, when in [*moments(rng), *ends(rng)]:
        attempt(place, place, nth, when)
    calls = [path.read_text() for path in (folder / "whole.log", log)]
    attempt("removal", "removal", 1, "after")
    checks = []
    for times in ([], [rng.random() * 1.2 * took for _ in range(4)]):
        for seconds in times:
            attempt("at random", seconds=seconds)
        attempt("no stage")
        checks.append({"equal": same(folder), "left": leftovers(folder)})
        out.unlink()
    return {"died": died, "calls_whole": calls[0], "calls": calls[1], "checks": checks}


def same(folder):
    return bool((matrix(folder / "whole.safetensors") == matrix(folder / "cut.safetensors")).all())


def leftovers(folder):
    known = {"log", "whole.log", "whole.safetensors", "cut.safetensors"}
    names = [p.name for p in folder.iterdir() if not atomic.is_temporary(p.name)]
    return sorted(set(names) - known)


def main(folder, seed):
    folder, rng = Path(folder), np.random.default_rng(int(seed))
    X, y = blobs(n=700, dims=16)
    np.savez(folder / "data.npz", X=X, y=y)
    lists = np.random.default_rng(0).integers(0, len(X), (len(X), 10)).astype(np.int32)
    with limited(1):  # compile, without a thread or an OpenMP pool, which would not survive a fork
        SLNE.paper(max_epochs=1).fit(X, y, neighbors=lists)
        SLNE.paper(max_epochs=1, validation_fraction=0.1, constraint=Constraint(psd=True)).fit(
            X, y, neighbors=lists
        )
        pair_squared_distances(X, X, lists)
    common = ["--n-neighbors", "10", "--epochs", "3"]
    settings = {
        "exact": ["--psd", "--normalize"],
        "held out": ["--validation-fraction", "0.1", "--sampling", "random_target"],
        "ensemble": ["--ensemble", "pca", "--members", "2", "--vote", "power"],
    }
    print(json.dumps({
        name: campaign(folder / name, folder / "data.npz", common + options, rng)
        for name, options in settings.items()
    }))  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
