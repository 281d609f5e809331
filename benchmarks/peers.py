"""nearkin beside the packages that a user would take instead, on MNIST, size after size.

    python benchmarks/peers.py --data DIR --work DIR [--limit 600] [--sizes 1000 2000 5000]

DIR of --data holds ``mnist.npz``. metric-learn 0.7 and PyLMNN 1.6 need older packages than
nearkin: each gets an environment of its own under --work (pip fetches it). A fit is a process of
its own (`peer.py`): ended after --limit seconds, refused more than --memory GiB; sizes beyond the
first that a method did not manage are left out.

Everyone gets the same rows: PCA of the training rows to 100 dimensions, unit length (whitening
helped neither nearkin nor plain kNN on held-out training rows). nearkin's settings are fixed
(`peer.py`): softmax rule, k=50, votes of 50 neighbours, 8 epochs and 1; and a quick one, 1 epoch
with neighbours from an inverted file. A peer is compared with the quickest of the three that is
at least as accurate. The peers take 50 iterations, their default (metric-learn 100). The length of
the rows decides what a margin of one and a learning rate mean to them: it is the best of `SCALES`
on a fifth of 2,000 training rows, held out, at no charge. Under their metric 3 neighbours vote. The
linear SVMs and OASIS choose C on held-out rows themselves, within their seconds. How the quick
setting was chosen stands beside it in `peer.py`.

Every process has --threads threads, one by default: on a busy machine the threads of numpy's
products wait for each other, which would favour nearkin. Ratios are of CPU seconds for the same
reason, also of processes that were stopped.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np

import machine
import peer
from accuracy import Split, some, splits
from nearkin import Preprocess
from nearkin.app import memory_watch
from nearkin.learning.holdout import held_out

DIMS, WHITENING = 100, 0.0
SIZES = [1_000, 2_000, 5_000, 10_000, 60_000]
SCALE_ROWS, HELD_OUT = 2_000, 0.2
SCALES = (1.0, 3.0, 10.0, 30.0)
SCALED = ("metric-learn LMNN", "PyLMNN", "scikit-learn NCA")
METRICS = (*SCALED, "OASIS")
# Versions under which they still run; PyLMNN also imports six and matplotlib without asking for
# them, and hands scipy a start that newer versions refuse.
ENVIRONMENTS = {
    "metric-learn LMNN": ["metric-learn==0.7.0", "scikit-learn<1.8"],
    "PyLMNN": ["pylmnn==1.6.4", "six", "matplotlib", "scikit-learn<1.3", "numpy<2", "scipy<1.11"],
}  # fmt: skip

Outcome = dict[str, Any]


def python_of(method: str, work: Path) -> Path | None:
    """The interpreter that has the method; None where its packages do not install."""
    if method not in ENVIRONMENTS:
        return Path(sys.executable)
    folder = work / method.replace(" ", "-")
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        print(f"installing {method} ...", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", *ENVIRONMENTS[method]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr[-2_000:], file=sys.stderr)
            return None
        ready.touch()
    return python


class Fits:
    """Fits in processes of their own, within limits of time and memory."""

    def __init__(self, work: Path, limit: float, gib: float, threads: int) -> None:
        self.work, self.limit, self.gib = work, limit, gib
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
        self.environment = os.environ | dict.fromkeys(names, str(threads))
        self.pythons: dict[str, Path | None] = {}

    def __call__(self, method: str, split: Split, scale: float) -> Outcome:
        """Seconds, bytes and accuracy, or why there are none."""
        if method not in self.pythons:
            self.pythons[method] = python_of(method, self.work)
        python = self.pythons[method]
        if python is None:
            return {"failed": "does not install"}
        rows = self.work / "rows.npz"
        np.savez(rows, X=split.X, y=split.y, Q=split.X_test, truth=split.y_test)
        command = [python, peer.__file__, method, rows, memory_watch.__file__, self.gib, scale]
        before = _cpu_of_ended()
        try:
            done = subprocess.run(
                list(map(str, command)),
                capture_output=True, text=True, timeout=self.limit, check=False,
                env=self.environment,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            cpu = _cpu_of_ended() - before
            return {"failed": f"> {self.limit:g} s ({cpu:.0f} s of CPU)", "cpu_at_least": cpu}
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["killed"])[-1][:60]}
        outcome: Outcome = json.loads(done.stdout.strip().splitlines()[-1])
        return outcome


def _cpu_of_ended() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def features(split: Split) -> Split:
    """The rows that all methods get; nothing of it is learned from test rows."""
    before = Preprocess(DIMS, whitening=WHITENING).fit(split.X)
    return split._replace(X=before.transform(split.X), X_test=before.transform(split.X_test))


def held_out_split(split: Split) -> Split:
    """A fifth of the training rows in the place of the test rows."""
    held = held_out(split.y.astype(np.int64), HELD_OUT, np.random.default_rng(0))
    return Split(split.X[~held], split.y[~held], split.X[held], split.y[held])


def best_scale(method: str, whole: Split, fits: Fits) -> float:
    if method not in SCALED:
        return 1.0
    X, y = some(whole, SCALE_ROWS)
    judged_by = held_out_split(features(whole._replace(X=X, y=y)))
    judged = {s: fits(method, judged_by, s).get("accuracy", 0.0) for s in SCALES}
    best = max(judged, key=lambda s: judged[s])
    shown = ", ".join(f"{s:g}: {100 * a:.1f}" for s, a in judged.items())
    print(f"{method}: rows times {best:g} (held-out accuracy in % {shown})", flush=True)
    return best


def show(method: str, rows: int, outcome: Outcome) -> None:
    cells = f"{method:<18} {rows:>7,} "
    if "failed" in outcome:
        print(cells + f"  {outcome['failed']}", flush=True)
        return
    memory = "–" if outcome["bytes"] is None else f"{outcome['bytes'] / 2**20:.0f}"
    cells += f"{outcome['seconds']:>9.2f} s {outcome['cpu']:>9.2f} s CPU {memory:>7} MiB"
    print(cells + f" {100 * outcome['accuracy']:>7.2f} %", flush=True)


def summary(table: dict[tuple[str, int], Outcome]) -> None:
    """Each metric learner against nearkin, at the largest size that it managed."""
    print("\nat the largest size that a peer finished: CPU seconds of the peer over nearkin's")
    for method in METRICS:
        tried = {n: o for (name, n), o in table.items() if name == method}
        finished = [n for n, o in tried.items() if "accuracy" in o and ours(table, n)]
        if not finished:
            print(f"{method:<18} finished nothing")
            continue
        n = max(finished)
        theirs = tried[n]
        us, taken = ours(table, n, theirs["accuracy"])[0]
        line = f"{method:<18} {n:>7,} rows {theirs['cpu'] / taken['cpu']:>8.1f}× {us}, accuracy "
        line += f"{100 * theirs['accuracy']:.2f} against {100 * taken['accuracy']:.2f} %"
        stopped = [m for m, o in tried.items() if "cpu_at_least" in o and ours(table, m)]
        if stopped:
            m = min(stopped)
            us, taken = ours(table, m)[0]
            line += f"; stopped at {m:,} rows, there more than "
            line += f"{tried[m]['cpu_at_least'] / taken['cpu']:.0f}× {us}"
        print(line)


def ours(
    table: dict[tuple[str, int], Outcome], n: int, accuracy: float = 0.0
) -> list[tuple[str, Outcome]]:
    """Our fits of `n` rows that are as accurate, the quickest first; all, if none is."""
    fits = [(us, table[us, n]) for us in peer.OURS if "cpu" in table.get((us, n), {})]
    fits.sort(key=lambda fit: fit[1]["cpu"])
    return [fit for fit in fits if fit[1]["accuracy"] >= accuracy] or fits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist.npz")
    parser.add_argument("--work", type=Path, required=True, help="folder for environments, rows")
    parser.add_argument("--limit", type=float, default=600, help="seconds a process may take")
    parser.add_argument("--memory", type=float, default=8, help="GiB a process may have")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    names = list(peer.METHODS)
    parser.add_argument("--methods", nargs="+", choices=names, default=names)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    fits = Fits(given.work, given.limit, given.memory, given.threads)
    print(machine.facts())
    print(
        f"MNIST, PCA to {DIMS}, whitening {WHITENING}, unit length; at most {given.limit:g} s "
        f"and {given.memory:g} GiB a process, {given.threads} threads; 10,000 test rows\n"
    )
    whole = next(splits("mnist", given.data, 1))
    given.sizes.sort()
    scales: dict[str, float] = {}
    table: dict[tuple[str, int], Outcome] = {}
    out_of_reach: set[str] = set()
    for n in given.sizes:
        X, y = some(whole, n)
        split = features(whole._replace(X=X, y=y))
        for method in given.methods:
            if method in out_of_reach:
                continue
            if method not in scales:
                scales[method] = best_scale(method, whole, fits)
            outcome = table[method, n] = fits(method, split, scales[method])
            show(method, n, outcome)
            if "failed" in outcome:
                out_of_reach.add(method)
    summary(table)


if __name__ == "__main__":
    main()
