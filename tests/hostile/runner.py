"""Runs cases in forked children, each with a time and a memory limit, a few at a time."""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from hostile import judge
from hostile.judge import Verdict

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
MEMORY = 1536 << 20  # bytes beyond what the warm parent has
SECONDS = 30  # of the processor; thrice that on the clock, on a busy machine


@dataclass(frozen=True)
class Case:
    """Something hostile: `run` returns a verdict, or raises an error that must name `names`."""

    kind: str
    name: str
    run: Callable[[], Verdict]
    names: tuple[str, ...] = ()
    memory: int | None = MEMORY
    seconds: int = SECONDS

    @property
    def id(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass
class _Child:
    case: Case
    pid: int
    ready: int  # readable when the child has ended
    pipe: int
    folder: Path
    deadline: float


def run_all(cases: Iterable[Case], work: Path, jobs: int) -> Iterator[tuple[Case, Verdict]]:
    """Run cases, `jobs` at a time; whatever happens, every child ends with its whole group."""
    running: dict[int, _Child] = {}
    waiting, numbers = iter(cases), count()
    try:
        while True:
            while len(running) < jobs and (case := next(waiting, None)) is not None:
                child = _start(case, work / str(next(numbers)))
                running[child.ready] = child
            if not running:
                return
            for child in _ended(running):
                del running[child.ready]
                yield child.case, _collect(child)
    finally:
        for child in running.values():
            _collect(child)


def _start(case: Case, folder: Path) -> _Child:
    folder.mkdir()
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        _run_in_child(case, folder, writable)
    os.close(writable)
    deadline = time.monotonic() + 3 * case.seconds
    return _Child(case, pid, os.pidfd_open(pid), readable, folder, deadline)


def _run_in_child(case: Case, folder: Path, pipe: int) -> None:
    """Never returns."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    for name, number in ((os.devnull, 0), ("out", 1), ("err", 2)):
        os.dup2(os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600), number)
    (folder / "cwd").mkdir()
    os.chdir(folder / "cwd")
    _limit(case)
    warnings.simplefilter("ignore")
    try:
        verdict = case.run()
    except BaseException as error:
        verdict = judge.of_error(error, case.names)
        traceback.print_exc()
    os.write(pipe, json.dumps([verdict.outcome, verdict.detail[:2000]]).encode())
    os._exit(0)


def _limit(case: Case) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (case.seconds, case.seconds + 5))
    if case.memory is not None:
        limit_memory(case.memory)


def limit_memory(size: int) -> None:
    """Allow this process `size` bytes beyond what it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, used + size))


def _ended(running: dict[int, _Child]) -> list[_Child]:
    """Children that have ended; those beyond their time are killed."""
    poll = select.poll()
    for ready in running:
        poll.register(ready, select.POLLIN)
    found = [running[ready] for ready, _ in poll.poll(500)]
    now = time.monotonic()
    for child in running.values():
        if child not in found and now > child.deadline:
            signal.pidfd_send_signal(child.ready, signal.SIGKILL)
    return found


def _collect(child: _Child) -> Verdict:
    """End the child's whole group, and read what it has said."""
    # The child is not reaped yet, so the number of its group cannot have been given to another.
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:  # before its setsid
        os.kill(child.pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
    said = os.read(child.pipe, 1 << 16)
    os.close(child.pipe)
    os.close(child.ready)
    tail = (child.folder / "err").read_text(errors="replace")[-600:] if said == b"" else ""
    shutil.rmtree(child.folder, ignore_errors=True)
    if said:
        return Verdict(*json.loads(said))
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return Verdict("hang", tail)
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Verdict("crash", f"{name} {tail}")


def aside(work: Callable[[], object]) -> object:
    """The result, as JSON can hold it, of work in a forked child: the parent stays as it is."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        warnings.simplefilter("ignore")
        try:
            os.write(writable, json.dumps(work()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writable)
    with open(readable, "rb") as pipe:
        text = pipe.read()
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError("clean work failed in a child")
    return json.loads(text)
