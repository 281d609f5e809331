"""Neighbour lists of all rows: nearkin beside other libraries, at the same recall, in one run.

    python benchmarks/search.py [--data DIR] [--rows 50000] [--k 15 100 500] [--threads 1]
    python benchmarks/search.py --growth 50000 100000 200000 [--also 1200000=379] --k 500

Made-up rows of 1,000 dimensions (--file has some of an earlier run) and, with --data, MNIST (DIR
holds ``mnist.npz``). Every library gets the same rows. Those with a dial (probes, the breadth of a
graph search) are turned up, on `CHECKED` rows, until they reach --recall less .01, and between the
steps of the dial as little as is needed; exact ones are shown as they are. The time is of CPU:
building the index, and the lists. A peer's lists are made for --queries of the rows and counted as
if for all of them, each costing the same; nearkin and pynndescent make all lists. One index is in
memory at a time; MiB is the growth of the process beside the rows, for the lists that were made. On
a machine that others use, --threads 1 is the fair comparison: OpenMP threads spin while they wait,
which counts as CPU time.

Below each table stand nearkin's shares of the machine's limits, measured in the same run: products
of bytes against register tiles on cached data, products in float32 (with the centroids: rows come
from their codes) against a large product by BLAS, and re-ranked rows against the
bandwidth of reading memory in order: above 100 % where queries share rows in the cache. The limit
of all is the sum of the three times, at full speed, over the time that the lists took.

With --growth only nearkin is timed, on the first so many rows (CPU seconds, lists without
distances); --also adds what another run took, such as one of benchmarks/scale.py. The exponent is
the slope between logarithms.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import machine
from made_up import World
from nearkin.app.memory_watch import MemoryWatch, release_memory
from nearkin.native.threads import limited
from nearkin.neighbors import nearest, recall
from nearkin.neighbors.cells import Cells
from nearkin.neighbors.lists import row_neighbors
from search_peers import PEERS, ROUNDS, installed, pynndescent, turned_up

CHECKED = 500
BELOW = 0.01  # of the recall that is asked for
HEAD = "| k | method | dial | CPU s | ratio | MiB | recall |\n|--:|---|--:|--:|--:|--:|--:|"


class Judge:
    """Recall of lists of the checked rows."""

    def __init__(self, X: np.ndarray, k: int) -> None:
        self.at = np.sort(np.random.default_rng(1).permutation(len(X))[:CHECKED])
        self.queries = np.ascontiguousarray(X[self.at])
        self.true = nearest(X, k + 1, queries=self.queries, index="exact")[1]

    def recall(self, lists: np.ndarray) -> float:
        """Of lists with or without the rows themselves."""
        hits = [len(np.intersect1d(a[a != i], b)) for i, a, b in zip(self.at, lists, self.true)]
        return float(np.sum(hits) / (len(hits) * (self.true.shape[1] - 1)))


def measured(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Result, CPU seconds, MiB."""
    release_memory()
    began = time.process_time()
    with MemoryWatch() as memory:
        result = work()
    return result, time.process_time() - began, (memory.growth or 0) / 2**20


class Table:
    """Rows of one table, printed as they come; ratios are to the first of the same k."""

    def __init__(self, X: np.ndarray, given: argparse.Namespace) -> None:
        self.X, self.given, self.base = X, given, {}
        self.judges = {k: Judge(X, k) for k in given.k}

    def row(self, k: int, name: str, dial: Any, cpu: float, size: float, share: float) -> None:
        base = self.base.setdefault(k, cpu)
        print(f"| {k} | {name} | {dial} | {cpu:.1f} | {cpu / base:.1f} | {size:.0f} "
              f"| {share:.3f} |", flush=True)  # fmt: skip

    def whole(self, k: int, name: str, dial: Any, work: Callable[[], np.ndarray]) -> float:
        """A row of something that makes the lists of all rows; returns their recall."""
        lists, cpu, size = measured(work)
        share = self.judges[k].recall(lists[self.judges[k].at])
        self.row(k, name, dial, cpu, size, share)
        return share

    def descent(self, k: int) -> None:
        """Rows of pynndescent, after ever more rounds, up to the first that reaches the recall."""
        for rounds in ROUNDS:
            work = partial(pynndescent, self.X, k, self.given.threads, rounds)
            dial = f"{rounds or 'all'} rounds"
            if self.whole(k, "pynndescent", dial, work) >= self.given.recall - BELOW:
                return

    def nearkin(self, k: int) -> None:
        index = f"cells;recall={self.given.recall}"
        asked = self.given.recall
        self.whole(k, "nearkin cells", asked, lambda: nearest(self.X, k, index=index)[1])
        self.whole(k, "nearkin cells, without distances", asked,
                   lambda: nearest(self.X, k, index=index, return_distance=False))  # fmt: skip
        if self.given.exact:
            self.whole(k, "nearkin exact", "exact", lambda: nearest(self.X, k, index="exact")[1])

    def peer(self, name: str) -> None:
        """Build an index once, and for each k turn its dial up and time the lists."""
        index, building, size = measured(partial(PEERS[name], self.X, self.given.threads))
        some = np.ascontiguousarray(self.X[: self.given.queries])
        for k, judge in self.judges.items():
            wanted = self.given.recall - BELOW
            dial, share = turned_up(index, judge.recall, judge.queries, k + 1, wanted)
            _, cpu, more = measured(partial(index.lists, some, k + 1, dial))
            whole = building + cpu * len(self.X) / len(some)
            self.row(k, name, "exact" if dial is None else dial, whole, size + more, share)


def compare(name: str, X: np.ndarray, given: argparse.Namespace) -> None:
    print(f"\n{name}, {len(X):,} × {X.shape[1]}, {given.threads} threads; lists of "
          f"{min(given.queries, len(X)):,} rows by the peers\n")  # fmt: skip
    print(HEAD, flush=True)
    table = Table(X, given)
    for k in given.k:
        table.nearkin(k)
    for k in given.k:
        if find_spec("pynndescent") and k <= given.descent:
            table.descent(k)
    for peer in installed(given.only):
        table.peer(peer)
    for k in given.k:
        limits(X, k, given.recall)


def limits(X: np.ndarray, k: int, recall: float) -> None:
    """Print the shares of the limits: one thread."""
    with limited(1):
        index = Cells(X, f"cells;recall={recall}")
        index.prepare(k)
        at = index.order[: len(X) // 10]
        # The fastest of some, as the limits are: with memory that is in use, as in a whole search.
        fastest = partial(machine.best_of, repeats=3, clock=time.process_time)
        finding = fastest(lambda: index.search_rows(at, k + 1))
        listing = fastest(lambda: row_neighbors(index, X, at, k))
        reduced = index._reduced_rows(at)
        visited = index._sizes[index._nearest_cells(reduced, int(index.tuned[1]))].sum()
        multiplying = visited * reduced.shape[1] / machine.byte_product_peak()
        ranking = 2 * reduced.size * len(index._sizes) / machine.product_peak()
        reading = len(at) * int(index.tuned[2]) * 4 * X.shape[1] / machine.copy_bandwidth()
    print(f"\nk={k}: {index.tuned[1]} of {len(index._coded.steps)} cells, {index.tuned[2]} "
          f"candidates; products of bytes at {multiplying / finding:.0%} of their peak, re-ranking "
          f"at {reading / max(listing - finding, 1e-9):.0%} of the bandwidth of memory, "
          f"these two at {(multiplying + reading) / listing:.0%} of the limit, with products in "
          f"float32 at {(multiplying + ranking + reading) / listing:.0%}", flush=True)  # fmt: skip


def growth(X: np.ndarray, given: argparse.Namespace) -> None:
    """Time against the number of rows, and what of the plan grows."""
    index = f"cells;recall={given.recall}"
    print("| k | rows | CPU s | µs a row | cells | visited | candidates | recall |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for k in given.k:
        taken = dict(given.also)
        for n in given.growth:
            part = X[:n]
            lists, taken[n], _ = measured(
                lambda part=part, k=k: nearest(part, k, index=index, return_distance=False)
            )
            plan = Cells(part, index)
            plan.prepare(k)
            share = plan.tuned[1] / len(plan._sizes)
            print(f"| {k} | {n:,} | {taken[n]:.1f} | {1e6 * taken[n] / n:.0f} "
                  f"| {len(plan._sizes):,} | {share:.1%} | {plan.tuned[2]} "
                  f"| {recall(part, lists, sample=CHECKED):.3f} |", flush=True)  # fmt: skip
        sizes = sorted(taken)
        slope = np.polyfit(np.log(sizes), np.log([taken[n] for n in sizes]), 1)[0]
        print(f"\nk={k}: exponent {slope:.2f} of {', '.join(f'{n:,}' for n in sizes)} rows\n")


def point(text: str) -> tuple[int, float]:
    rows, _, seconds = text.partition("=")
    return int(rows), float(seconds)


def cases(given: argparse.Namespace) -> Iterator[tuple[str, np.ndarray]]:
    if given.file:
        yield "made-up rows", np.ascontiguousarray(np.load(given.file, mmap_mode="r")[: given.rows])
    elif given.rows:
        yield "made-up rows", World(1_000, 1_000).sample(given.rows)[0]
    if given.data:
        with np.load(given.data / "mnist.npz") as file:
            yield "MNIST", file["x_train"].reshape(60_000, 784).astype(np.float32) / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with mnist.npz")
    parser.add_argument("--rows", type=int, default=50_000, help="made-up rows; 0: none")
    parser.add_argument(
        "--file", type=Path, help="a .npy of made-up rows, of which --rows are used"
    )
    parser.add_argument("--k", type=int, nargs="+", default=[15, 100, 500])
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--queries", type=int, default=1_000, help="lists that a peer makes")
    parser.add_argument("--descent", type=int, default=100, help="largest k for pynndescent")
    parser.add_argument("--exact", action="store_true", help="nearkin's exact search, too")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=PEERS, metavar="NAME",
                        help="peers; all without it")  # fmt: skip
    parser.add_argument("--growth", type=int, nargs="+", metavar="ROWS", help="time nearkin only")
    parser.add_argument("--also", type=point, nargs="*", default=[], metavar="ROWS=SECONDS")
    given = parser.parse_args()
    if given.growth:
        given.rows, given.data = max(given.growth), None
    print(machine.facts())
    for name, X in cases(given):
        with limited(given.threads):
            for distances in (True, False):  # compile
                nearest(X[:2_000], 5, index="cells", return_distance=distances)
            if given.descent and find_spec("pynndescent") and not given.growth:
                pynndescent(X[:2_000], 5, given.threads)
            if given.growth:
                growth(X, given)
            else:
                compare(name, X, given)


if __name__ == "__main__":
    main()
