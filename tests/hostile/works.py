"""Work that keeps something in a folder, found by introspection, and a digest of its results."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hostile import commands, judge, material, surface
from hostile.surface import Target


@dataclass(frozen=True)
class Work:
    """Something to do in a folder; done again, it resumes. Returns a digest of the result."""

    name: str
    run: Callable[[Path], str]


def digest(result: Any) -> str:
    """Of all bytes of a result."""
    sha = hashlib.sha256()
    for array in judge.flat(result):
        sha.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return sha.hexdigest()


@cache
def library_works(large: bool = False) -> list[Work]:
    """Every public callable that takes ``folder=``, on few rows or on enough to fill a disk."""
    takers = [t for t in surface.targets() if "folder" in t.open_to_attack]
    return [Work(t.name, lambda folder, t=t: _call(t, folder, large)) for t in takers]


def _call(target: Target, folder: Path, large: bool) -> str:
    import nearkin
    from nearkin.learning import trainer

    trainer.superblock_blocks = lambda dims: 1  # several checkpoints an epoch of few rows
    given = larger(target) if large else {}
    result = target.function(**target.clean | given, folder=nearkin.RunFolder(folder, minutes=0))
    if large and hasattr(result, "fit"):
        return digest(getattr(result, "matrix_", None))
    return digest(surface.answers(result))


def larger(target: Target) -> dict[str, Any]:
    """Many rows in place of few."""
    many = dict(zip("Xy", material.many_rows())) | {"images": material.images() * 60}
    return {n: v for n, v in many.items() if n in target.clean}


@cache
def command_works(large: bool = False) -> list[Work]:
    """Every command with ``--folder``; what it writes beside is part of the result."""
    known = {n: c for n, c in commands.commands().items() if n not in commands.LONG}
    takers = [n for n, c in known.items() if any(p.name == "folder" for p in c.params)]
    return [Work(f"nearkin {n}", lambda f, n=n: _command(n, f, large)) for n in takers]


def _command(command: str, folder: Path, large: bool) -> str:
    details = commands.commands()[command].params
    outs = [p for p in details if p.name == "out" and p.required]
    changed = {"folder": ["--folder", str(folder)], "out": []}
    if any(p.name == "checkpoint_minutes" for p in details):
        changed["checkpoint_minutes"] = ["--checkpoint-minutes", "0"]
    place = folder.parent / f"{folder.name}-out"
    place.mkdir(exist_ok=True)
    for out in outs:
        changed["out"] = ["--out", str(place / commands.clean_value(command, out))]
    kept = os.getcwd()
    try:
        words = commands.line(command, changed)
        words = [w.replace("rows.npz", "many.npz") for w in words] if large else words
        code, out, err = commands.execute(words)
    finally:
        os.chdir(kept)
    if code:
        raise OSError(err.strip())
    written = [p for p in (*place.rglob("*"), *folder.rglob("*")) if p.is_file()]
    lasting = [p for p in sorted(written) if p.suffix in (".npy", ".safetensors")]
    contents = {p.name: _contents(p, large) for p in lasting if not p.name.startswith(".")}
    return json.dumps([contents, commands.lasting(out)], sort_keys=True)


def _contents(path: Path, large: bool) -> str:
    """A digest of a file: of a model, what it answers, because it records seconds."""
    import nearkin

    if large and path.suffix == ".safetensors":
        return "there"
    if path.suffix == ".npy":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        return digest(surface.answers(nearkin.load(path)))
    except ValueError:  # a part of a run folder
        return ""
