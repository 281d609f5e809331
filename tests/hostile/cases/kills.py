"""A kill before every file operation; then the work is done again and must end the same."""

import os
import re
import tempfile
import time
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
LONGEST = 200.0  # seconds for the kills of one work, each of which it is done about twice for


def cases(seed: int) -> Iterator[Case]:
    """Points of every work, all if there is time; if they are few, pairs for quick works."""
    rng = np.random.default_rng(seed)
    counted = [(work, reference(work)) for work in works.all_works()]
    total = 0
    for work, (operations, clean, names, seconds) in counted:
        most = min(MOST, int(LONGEST / 2 / seconds))
        chosen = rng.permutation(np.arange(1, operations + 1))[:most]
        total += len(chosen)
        for nth in sorted(chosen.tolist()):
            yield _case(work, [nth], clean, names)
    quick = sorted(counted, key=lambda pair: pair[1][3])[: len(counted) // 2]
    while total < ENOUGH:
        work, (operations, clean, names, _) = quick[rng.integers(len(quick))]
        points = rng.integers(1, operations + 1, 2).tolist()
        total += 2
        yield _case(work, points, clean, names)


@cache
def reference(work: Work) -> tuple[int, str, list[str], float]:
    """Operations, result, files and seconds of the work when nothing happens to it."""

    def count() -> list:
        os.chdir(tempfile.mkdtemp(dir=material.HOME.folder.parent))
        run, other = Path("run").absolute(), Path("other").absolute()
        operations = kill_points.counted(lambda: work.run(run))
        began = time.monotonic()
        return [operations, work.run(other), left_in(other), time.monotonic() - began]

    return tuple(runner.aside(count))


def left_in(folder: Path) -> list[str]:
    """Names in a folder, and of its outputs, random ones made equal."""
    found = [p for p in folder.rglob("*") if p.is_file()]
    return sorted({re.sub(r"[0-9a-f]{16,}", "#", str(p.relative_to(folder))) for p in found})


def _case(work: Work, points: list[int], clean: str, names: list[str]) -> Case:
    name = f"{work.name}/{'+'.join(map(str, points))}"
    run = lambda: _run(work, points, clean, names)  # noqa: E731
    return Case("kills", name, run, ("--out",), memory=None, seconds=60)


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
