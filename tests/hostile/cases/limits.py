"""Little memory, two processes on one folder, many threads."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from hostile import judge, runner, surface, works
from hostile.judge import FINE, Verdict
from hostile.runner import Case
from hostile.works import Work, reference

MEBIBYTES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
THREADS = 4


def memory(seed: int) -> Iterator[Case]:
    """Every work with little memory: done, or refused with a word on memory."""
    for work in works.library_works():
        clean = reference(work).result
        for size in MEBIBYTES:
            run = lambda work=work, size=size, clean=clean: _little(work, size, clean)  # noqa: E731
            yield Case("memory", f"{work.name}/{size} MiB", run, memory=None)


def _little(work: Work, size: int, clean: str) -> Verdict:
    # Loads all compiled code: LLVM ends the process where it cannot allocate, which nobody can
    # catch. What is judged is how the arrays of the work itself fit.
    work.run(Path("before"))
    runner.limit_memory(size << 20)
    try:
        result = work.run(Path("run"))
    except Exception as error:
        return judge.of_error(error, ("memory", "allocate"))
    return FINE if result == clean else Verdict("wrong", "another result with little memory")


def processes(seed: int, times: int = 8) -> Iterator[Case]:
    """Two processes do the same work in the same folder at once."""
    for work in works.all_works():
        clean = reference(work).result
        for n in range(times):
            run = lambda work=work, clean=clean: _both(work, clean)  # noqa: E731
            yield Case("processes", f"{work.name}/{n}", run, memory=None, seconds=60)


def _both(work: Work, clean: str) -> Verdict:
    """Each ends with the clean result, or is told that the folder is in use."""
    folder = Path("run").absolute()
    pid = os.fork()
    if pid == 0:
        verdict = _one(work, folder, clean)
        Path("verdict").write_text(f"{verdict.outcome}\n{verdict.detail}")
        os._exit(0)
    mine = _one(work, folder, clean)
    status = os.waitpid(pid, 0)[1]
    if status:
        return Verdict("crash", f"the other process ended with {status}")
    outcome, detail = Path("verdict").read_text().split("\n", 1)
    last = _one(work, folder, clean)
    if last.outcome not in ("fine", "clear"):
        return Verdict("wrong", f"after both had ended: {last}")
    return max(mine, Verdict(outcome, detail), key=lambda v: judge.OUTCOMES.index(v.outcome))


def _one(work: Work, folder: Path, clean: str) -> Verdict:
    try:
        result = work.run(folder)
    except Exception as error:
        return judge.of_error(error, ("in use", "folder", "--out"))
    return FINE if result == clean else Verdict("wrong", "another result beside another process")


def threads(seed: int, times: int = 3) -> Iterator[Case]:
    """Every clean call in several threads at once: the answer of one thread."""
    for target in surface.targets():
        if set(target.clean) & set(surface.ARRAYS) and "(…)" not in target.name:
            for n in range(times):
                run = lambda target=target: _threads(target)  # noqa: E731
                yield Case("threads", f"{target.name}/{n}", run)


def _threads(target: surface.Target) -> Verdict:
    alone, found = target.call(), []

    def call() -> None:
        try:
            found.append(target.call())
        except Exception as error:
            found.append(error)

    together = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    errors = [f for f in found if isinstance(f, Exception)]
    if errors:
        return Verdict("wrong", f"fails beside other threads: {errors[0]!r:.300}")
    agree = all(works.digest(f) == works.digest(alone) for f in found)
    return FINE if agree else Verdict("wrong", "another answer beside other threads")
