"""One run of the harness: warm up, generate, run, count."""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from hostile import judge, material, runner
from hostile.cases import disk, files, inputs, kills, limits, options
from hostile.runner import Case
from hostile.table import Table
from samples import in_memory

# Cases of each kind, how many of them the fast part draws, and how many are drawn at most.
KINDS: dict[str, tuple[Callable[[int], Iterable[Case]], int, int]] = {
    "inputs": (inputs.cases, 170, 6_000),
    "options": (options.cases, 14, 1_500),
    "files": (files.cases, 60, 3_000),
    "kills": (kills.cases, 12, 2_000),
    "full disk": (disk.cases, 10, 500),
    "memory": (limits.memory, 8, 500),
    "processes": (limits.processes, 4, 500),
    "threads": (limits.threads, 6, 500),
}
EVERY = 10.0  # seconds between two lines of progress


def campaign(options: argparse.Namespace) -> int:
    """Run, print the table, and return the exit code; what was counted before Ctrl-C is printed."""
    began, table = time.monotonic(), Table()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="hostile-", dir=in_memory()) as folder:
            prepare(Path(folder))
            for kind in options.only.split(","):
                for case, verdict in progress(chosen(kind, options), Path(folder), options.jobs):
                    table.add(case, verdict)
        faults = table.faults()
    except KeyboardInterrupt:
        faults = ["interrupted"]
    if options.report:
        Path(options.report).write_text(table.details(("obscure", "unjudged")))
    print(table.details(("crash", "hang", "wrong")))
    print(table.details(("obscure",), options.most))
    print(f"\n{table}\n\nseed {options.seed}, {time.monotonic() - began:.0f} s:",
          "; ".join(faults) or "as it should be")  # fmt: skip
    return 1 if faults else 0


def prepare(folder: Path) -> None:
    """Write the clean files and compile everything, without a thread and without faiss."""
    from nearkin.app.warmup import compile_all

    material.HOME.folder = folder / "clean"
    material.HOME.folder.mkdir()
    os.chdir(folder)
    compile_all()
    runner.aside(lambda: material.write_files(material.HOME.folder))
    if threading.active_count() > 1:
        raise RuntimeError("a thread runs in the process that is to be forked")


def chosen(kind: str, options: argparse.Namespace) -> list[Case]:
    """The cases of a kind, the same draw for the same seed."""
    generate, few, most = KINDS[kind]
    cases = [case for case in generate(options.seed) if options.match in case.id]
    drawn = few if options.fast else most
    order = np.random.default_rng(options.seed).permutation(len(cases))
    return [cases[i] for i in sorted(order[:drawn])]


def progress(cases: list[Case], folder: Path, jobs: int) -> Iterator[tuple]:
    last = time.monotonic()
    work = Path(tempfile.mkdtemp(dir=folder))
    for n, result in enumerate(runner.run_all(cases, work, jobs), start=1):
        yield result
        if result[1].outcome in judge.FAILING:
            print(result[0].id, result[1].outcome, file=sys.stderr, flush=True)
        if time.monotonic() - last > EVERY or n == len(cases):
            last = time.monotonic()
            print(f"{result[0].kind}: {n} of {len(cases)}", file=sys.stderr, flush=True)
