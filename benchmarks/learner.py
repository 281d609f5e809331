"""Steps per second of SL-NE against a naive Algorithm 1, and how far it is from the machine.

Command: ``python benchmarks/learner.py`` (about fifteen minutes on two cores).

The naive form is numpy, float32, all BLAS threads, the same neighbourhoods and the same order of
rows: a vector-matrix product, the scores, and a rank-one update of M. Rows are drawn around random
centres; those of the last table, the cost per row, are `made_up.py`'s. Neighbours are exact up to
100,000 rows. "bytes" are those of a number that is scored: where it is 1, the int8 codes are scored
first, and float32 rows only within the error bound. GB/s counts what is gathered for the scores;
GFLOP/s the matrix products; "limit" is the time that products at their peak and a random gather
from as large an array on all cores would take one after the other, as a share of the time it took.
"""

import argparse
import time
from typing import Any

import numpy as np

import machine
from made_up import World
from nearkin import SLNE, Execution
from nearkin.app.memory_watch import MemoryWatch, release_memory
from nearkin.learning.trainer import Trainer
from nearkin.native.blas import serial_blas
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest
from nearkin.reproduction.table2 import Size, synthetic

ORDERS: dict[str, dict[str, Any]] = {
    "random, float32": {"quantize": False},
    "local, float32": {"quantize": False, "order": "local"},
    "random, int8": {"quantize": True},
    "local, int8": {"quantize": True, "order": "local"},
}
CASES = [(1_000, 50), (3_000, 50), (1_000, 500), (100, 500), (100, 50)]


def clustered(n, D, classes=20, seed=0):
    """Unit rows in clusters; a third of the labels is random, so that every row has impostors."""
    return synthetic(Size(n, classes, D), seed)


def naive(X, hoods, M, rows, steps, margin):
    indptr, indices, n_targets = hoods.arrays
    for i, rho in zip(rows, steps):
        near = indices[indptr[i] : indptr[i + 1]]
        x, t = X[i], n_targets[i]
        scores = X[near] @ (x @ M)
        j, m = scores[:t].argmin(), t + scores[t:].argmax()
        if margin - scores[j] + scores[m] > 0:
            M += rho * np.outer(x, X[near[j]] - X[near[m]])


def learner(X, hoods, **settings):
    model = SLNE.paper(random_state=0, execution=Execution(**settings))
    model.scale_ = 1.0
    return model._trainer(X, hoods, 0)


def one_run(made: Trainer, rows_wanted: int) -> tuple[float, float]:
    """Seconds a row of an epoch's first rows, from the identity, and the share that took a step."""
    rows, steps, draws = made.schedule()
    rows_wanted, violations = min(rows_wanted, len(rows)), 0
    made.matrix[:] = np.eye(len(made.matrix))
    time.sleep(0.2)  # the threads of numpy's BLAS go on spinning for a while after their last call
    with serial_blas():
        began = time.perf_counter()
        for lo in range(0, rows_wanted, made.superblock):
            part = slice(lo, min(lo + made.superblock, rows_wanted))
            violations += made.take(rows[part], steps[part], draws[part])[0]
        return (time.perf_counter() - began) / rows_wanted, violations / rows_wanted


def one_naive_run(X, hoods, made: Trainer, rows_wanted: int) -> float:
    """Seconds a row of the same rows, from the identity: later, fewer of them would take a step."""
    rows, steps, _ = made.schedule()
    M = np.eye(X.shape[1], dtype=np.float32)
    began = time.perf_counter()
    naive(X, hoods, M, rows[:rows_wanted], steps, 0.02)
    return (time.perf_counter() - began) / rows_wanted


def race(X, hoods, made: Trainer) -> tuple[float, float, float]:
    """Steps a second, ours and naive ones, and the share of ours that took a step.

    The best of as many tries of about the same length, in turns, two at a time: the threads of one
    may first have to find the cores that the other's have left.
    """
    one_run(made, len(X))  # compile
    seconds, stepped = one_run(made, len(X))
    count = max(20, int(len(X) * seconds / one_naive_run(X, hoods, made, 20)))
    ours, theirs = [], []
    for _ in range(10):
        ours += [one_run(made, len(X))[0] for _ in range(2)]
        theirs += [one_naive_run(X, hoods, made, count) for _ in range(2)]
    return 1 / min(ours), 1 / min(theirs), stepped


def compare(n):
    print(f"reading in order {machine.copy_bandwidth() / 1e9:.1f} GB/s (one core)")
    print("   D    k degree bytes  naive/s    exact/s  ratio  GFLOP/s (of peak)  GB/s (of gather)"
          " limit")  # fmt: skip
    for D, k in CASES:
        X, y = clustered(n if D < 3_000 else n // 2, D)
        hoods = neighborhoods(nearest(X, k)[1], y)
        made = learner(X, hoods)
        peak = machine.product_peak()  # each time: the machine is not always equally quick
        fast, slow, stepped = race(X, hoods, made)
        peak = max(peak, machine.product_peak())
        degree = hoods.degrees.mean()
        # Twice D² for the scores of a row, and once more for its step, if it takes one.
        flops = fast * 2 * D * D * (1 + stepped) / peak
        compared = made.quantized.codes if len(made.quantized.codes) else X
        traffic = fast * degree * compared[0].nbytes
        gather = machine.gather_bandwidth(compared[0].nbytes // 4, compared.nbytes >> 20)
        gathered = traffic / gather
        print(f"{D:>4} {k:>4} {degree:>6.0f} {compared.itemsize:>5}"
              f" {slow:>8.0f} {fast:>10.0f} {fast / slow:>6.1f}"
              f" {flops * peak / 1e9:>8.0f} ({flops:>4.0%}) {traffic / 1e9:>11.1f}"
              f" ({gathered:>4.0%}) {flops + gathered:>9.0%}", flush=True)  # fmt: skip


def growth(D, k=50, classes=100, rounds=10):
    """All sizes and settings take turns: a slow minute of the machine is a minute of all."""
    print(f"\ncost per row against the number of rows, D={D}, k={k}: µs a row, the best (and the"
          f" median) of {rounds} runs")  # fmt: skip
    print("    rows   X, MiB degree" + "".join(f"{name:>25}" for name in ORDERS))
    made = {}
    for n in (10_000, 50_000, 200_000):
        X, y = World(D, classes).sample(n)
        hoods = neighborhoods(nearest(X, k)[1], y)
        made[n] = [learner(X, hoods, **settings) for settings in ORDERS.values()]
    turns = [{n: [one_run(m, 8_192)[0] for m in made[n]] for n in made} for _ in range(rounds)]
    for n, (first, *_) in made.items():
        times = 1e6 * np.array([turn[n] for turn in turns])
        print(f"{n:>8} {first.X.nbytes >> 20:>8} {first.hoods.degrees.mean():>6.0f}"
              + "".join(f"{low:>16.1f} ({middle:>6.1f})" for low, middle in
                        zip(times.min(axis=0), np.median(times, axis=0))))  # fmt: skip


def memory(n=60_000, D=500, k=50):
    X, y = clustered(n, D)
    lists = np.random.default_rng(0).integers(0, n, (n, k), dtype=np.int32)
    SLNE.paper(max_epochs=1, random_state=0).fit(X[:500], y[:500])  # compile
    release_memory()
    with MemoryWatch() as watch:
        SLNE.paper(max_epochs=1, random_state=0).fit(X, y, neighbors=lists)
    sizes = {"graph": sum(a.nbytes for a in neighborhoods(lists, y).arrays),
             "M": 4 * D * D, "X": X.nbytes}  # fmt: skip
    beside = ", ".join(f"{name} {size / 2**20:.0f}" for name, size in sizes.items())
    print(f"\nMiB of a fit on {n}×{D} beside X and lists: {(watch.growth or 0) >> 20} ({beside})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--only", choices=["compare", "growth", "memory"])
    arguments = parser.parse_args()
    print(machine.facts())
    if arguments.only in (None, "memory"):
        memory()
    if arguments.only in (None, "compare"):
        compare(arguments.rows)
    if arguments.only in (None, "growth"):
        growth(256)
        growth(1_000)
