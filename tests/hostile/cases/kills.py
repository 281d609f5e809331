"""A kill before every file operation; then the work is done again and must end the same."""

import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import kill_points
from hostile import material, runner, works
from hostile.judge import FINE, Verdict
from hostile.runner import Case
from hostile.works import Work

ENOUGH, MOST = 1_000, 150


def cases(seed: int) -> Iterator[Case]:
    """Every point of every work, or `MOST` of them; if they are few, pairs of points."""
    rng = np.random.default_rng(seed)
    counted = [(work, reference(work)) for work in (*works.library_works(), *works.command_works())]
    total = 0
    for work, (operations, clean, names) in counted:
        chosen = rng.permutation(np.arange(1, operations + 1))[:MOST]
        total += len(chosen)
        for nth in sorted(chosen.tolist()):
            yield _case(work, [nth], clean, names)
    while total < ENOUGH:
        work, (operations, clean, names) = counted[rng.integers(len(counted))]
        points = rng.integers(1, operations + 1, 2).tolist()
        total += 2
        yield _case(work, points, clean, names)


@cache
def reference(work: Work) -> tuple[int, str, list[str]]:
    """Operations, result and files of the work when nothing happens to it."""

    def count() -> list:
        os.chdir(tempfile.mkdtemp(dir=material.HOME.folder.parent))
        run, other = Path("run").absolute(), Path("other").absolute()
        operations = kill_points.counted(lambda: work.run(run))
        return [operations, work.run(other), left_in(other)]

    operations, clean, names = runner.aside(count)
    return operations, clean, names


def left_in(folder: Path) -> list[str]:
    """Names in a folder, and of its outputs, random ones made equal."""
    found = [p for p in folder.rglob("*") if p.is_file()]
    return sorted({re.sub(r"[0-9a-f]{16,}", "#", str(p.relative_to(folder))) for p in found})


def _case(work: Work, points: list[int], clean: str, names: list[str]) -> Case:
    name = f"{work.name}/{'+'.join(map(str, points))}"
    return Case("kills", name, lambda: _run(work, points, clean, names), memory=None, seconds=60)


def _run(work: Work, points: list[int], clean: str, names: list[str]) -> Verdict:
    folder = Path("run").absolute()
    others = Path("mine.npy"), Path(".mine.part")
    for other in others:
        other.write_text("mine")
    for nth in points:
        kill_points.killed(lambda: work.run(folder), nth)
    again = work.run(folder)
    if again != clean:
        return Verdict("wrong", f"another result after a kill: {again:.200} for {clean:.200}")
    if left_in(folder) != names:
        return Verdict("wrong", f"other files: {sorted(set(left_in(folder)) ^ set(names))}")
    if any(other.read_text() != "mine" for other in others):
        return Verdict("wrong", "files of the user are lost")
    return FINE
