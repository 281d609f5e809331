"""Work that keeps something in a folder, found by introspection, and a digest of its results."""

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import kill_points
from hostile import commands, judge, material, runner, surface
from hostile.surface import Target


@dataclass(frozen=True)
class Work:
    """Something to do in a folder; done again, it resumes. Returns a digest of the result."""

    name: str
    run: Callable[[Path], str]


class Reference(NamedTuple):
    """What comes of a work when nothing happens to it."""

    result: str
    operations: int
    names: list[str]
    size: int  # of all files, in bytes
    seconds: float


@cache
def reference(work: Work) -> Reference:
    """Do the work twice, in a child: once to count its file operations, once as it is."""

    def measure() -> Reference:
        os.chdir(tempfile.mkdtemp(dir=material.HOME.folder.parent))
        operations = kill_points.counted(lambda: work.run(Path("counted").absolute()))
        folder = Path(tempfile.mkdtemp(dir=".")).absolute() / "run"
        began = time.monotonic()
        result = work.run(folder)
        seconds = time.monotonic() - began
        size = sum(p.stat().st_size for p in folder.parent.rglob("*") if p.is_file())
        return Reference(result, operations, left_in(folder), size, seconds)

    return Reference(*runner.aside(measure))


def left_in(folder: Path) -> list[str]:
    """Names in a folder, random ones made equal."""
    found = [p for p in folder.rglob("*") if p.is_file()]
    return sorted({re.sub(r"[0-9a-f]{16,}", "#", str(p.relative_to(folder))) for p in found})


@cache
def all_works() -> list[Work]:
    return [*library_works(), *command_works()]


@cache
def library_works() -> list[Work]:
    """Every public callable that takes ``folder=``."""
    takers = [t for t in surface.targets() if "folder" in t.open_to_attack]
    return [Work(t.name, lambda folder, t=t: _call(t, folder)) for t in takers]


def _call(target: Target, folder: Path) -> str:
    import nearkin
    from nearkin.learning import trainer

    trainer.superblock_blocks = lambda dims: 4  # several checkpoints an epoch of few rows
    place = nearkin.RunFolder(folder, minutes=0)
    return digest(target.function(**target.clean | many(target), folder=place))


def many(target: Target) -> dict[str, Any]:
    """Enough rows or images to fill some pages of a disk."""
    known = dict(zip("Xy", material.many_rows())) | {"images": material.images() * 60}
    return {name: value for name, value in known.items() if name in target.clean}


def digest(result: Any) -> str:
    """Of all bytes of a result, or of all arrays of a model."""
    from nearkin.io import models

    result = models.describe(result)[0] if hasattr(result, "get_params") else result
    sha = hashlib.sha256()
    for array in judge.flat(result):
        sha.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return sha.hexdigest()


@cache
def command_works() -> list[Work]:
    """Every command with ``--folder``; what it writes beside is part of the result."""
    known = {n: c for n, c in commands.commands().items() if n not in commands.LONG}
    takers = [n for n, c in known.items() if any(p.name == "folder" for p in c.params)]
    return [Work(f"nearkin {n}", lambda f, n=n: _command(n, f)) for n in takers]


def _command(command: str, folder: Path) -> str:
    details = commands.commands()[command].params
    place = folder.parent / f"{folder.name}-out"
    place.mkdir(exist_ok=True)
    changed = {"folder": ["--folder", str(folder)], "out": []}
    for parameter in details:
        if parameter.name == "out" and parameter.required:
            changed["out"] = ["--out", str(place / commands.clean_value(command, parameter))]
        if parameter.name == "checkpoint_minutes":
            changed[parameter.name] = ["--checkpoint-minutes", "0"]
    words = [w.replace("rows.npz", "many.npz") for w in commands.line(command, changed)]
    code, out, err = commands.execute(words)
    if code:
        raise OSError(err.strip())
    written = [p for place in (place, folder) for p in sorted(place.rglob("[!.]*")) if p.is_file()]
    contents = {p.name: _contents(p) for p in written if p.suffix in (".npy", ".safetensors")}
    return json.dumps([contents, commands.lasting(out)], sort_keys=True)


def _contents(path: Path) -> str:
    """A digest of a file: of a model, its arrays, because it records seconds."""
    import nearkin

    try:
        return digest(nearkin.load(path) if path.suffix == ".safetensors" else path.read_bytes())
    except ValueError:  # a part of a run folder
        return ""
