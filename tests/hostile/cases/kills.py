"""A kill before every file operation, or beside workers; the same work must then end the same."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import joblib
import numpy as np

import kill_points
from hostile import works
from hostile.judge import FINE, Verdict
from hostile.runner import Case
from hostile.works import Reference, Work, left_in, reference

ENOUGH, MOST = 1_000, 150
BESIDE_WORKERS = 8  # kills a work
Kill = Callable[[Callable[[], object], int], object]
LONGEST = 200.0  # seconds for the kills of one work, each of which it is done about twice for


def cases(seed: int) -> Iterator[Case]:
    """Points of every work, all if there is time; if they are few, pairs for quick works."""
    rng = np.random.default_rng(seed)
    counted = [(work, reference(work)) for work in works.all_works()]
    total = 0
    for work, clean in counted:
        most = min(MOST, int(LONGEST / 2 / clean.seconds))
        chosen = rng.permutation(np.arange(1, clean.operations + 1))[:most]
        total += len(chosen)
        for nth in sorted(chosen.tolist()):
            yield _case(work, [nth], clean)
    quick = sorted(counted, key=lambda pair: pair[1].seconds)[: len(counted) // 2]
    while total < ENOUGH:
        work, clean = quick[rng.integers(len(quick))]
        points = rng.integers(1, clean.operations + 1, 2).tolist()
        total += 2
        yield _case(work, points, clean)
    for work in works.library_works():
        for nth in rng.integers(1, 30, BESIDE_WORKERS).tolist():
            yield _case(_in_two_processes(work), [nth], reference(work), _killed_beside_workers)


def _case(work: Work, points: list[int], clean: Reference, kill: Kill = kill_points.killed) -> Case:
    name = f"{work.name}/{'+'.join(map(str, points))}"
    run = lambda: _run(work, points, clean, kill)  # noqa: E731
    return Case("kills", name, run, ("--out",), memory=None, seconds=60)


def _in_two_processes(work: Work) -> Work:
    def run(folder: Path) -> str:
        with joblib.parallel_config(n_jobs=2):
            return work.run(folder)

    return Work(f"{work.name} in two processes", run)


def _killed_beside_workers(work: Callable[[], object], nth: int) -> None:
    """Kill the parent after the `nth` change in the folder; its workers may outlive it a little."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    seen: set[tuple[str, int]] = set()
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        for path in Path("run").rglob("*"):
            with suppress(FileNotFoundError):
                seen.add((path.name, path.stat().st_mtime_ns))
        if len(seen) >= nth:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def _run(work: Work, points: list[int], clean: Reference, kill: Kill) -> Verdict:
    folder = Path("run").absolute()
    others = Path("mine.npy"), Path(".mine.part")
    for other in others:
        other.write_text("mine")
    for nth in points:
        kill(lambda: work.run(folder), nth)
    again = work.run(folder)
    if again != clean.result:
        return Verdict("wrong", f"another result: {again:.200} for {clean.result:.200}")
    if left_in(folder) != clean.names:
        return Verdict("wrong", f"other files: {sorted(set(left_in(folder)) ^ set(clean.names))}")
    if any(other.read_text() != "mine" for other in others):
        return Verdict("wrong", "files of the user are lost")
    return FINE
