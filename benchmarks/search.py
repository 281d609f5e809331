"""Neighbour lists of all rows: nearkin beside other libraries, at the same recall, in one run.

    python benchmarks/search.py [--data DIR] [--rows 50000] [--k 15 100 500] [--threads 1]

Made-up rows of 1,000 dimensions and, with --data, MNIST (DIR holds ``mnist.npz``). Every library
gets the same rows. Those with a dial (probes, the breadth of a graph search) are turned up, on
`CHECKED` rows, until they reach --recall less .01; exact ones are shown as they are. The time is of
CPU: building the index, and the lists. A peer's lists are made for --queries of the rows and
counted as if for all of them, each costing the same; nearkin and pynndescent make all lists. MiB is
the growth of the process beside the rows, for the lists that were made. On a machine that others
use, --threads 1 is the fair comparison: OpenMP threads spin while they wait, which counts as CPU
time.

Below each table stand nearkin's shares of the machine's limits, measured in the same run: products
of bytes against register tiles on cached data, and re-ranked rows against the bandwidth of reading
memory in order: above 100 % where queries share rows in the cache.

To add a peer, add a class to `PEERS`; one that is not installed is left out.
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
from nearkin.neighbors import nearest
from nearkin.neighbors.cells import Cells
from nearkin.neighbors.lists import row_neighbors

CHECKED = 500


class FaissFlat:
    """Exact."""

    module, dials = "faiss", (None,)

    def __init__(self, X: np.ndarray, threads: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self.index = faiss.index_factory(X.shape[1], self.factory(len(X)))
        if not self.index.is_trained:
            self.index.train(X)
        self.index.add(X)

    def factory(self, n: int) -> str:
        return "Flat"

    def lists(self, queries: np.ndarray, k: int, dial: Any) -> np.ndarray:
        return self.index.search(queries, k)[1]


class FaissIVF(FaissFlat):
    """An inverted file of four times the root of n cells."""

    dials = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

    def factory(self, n: int) -> str:
        return f"IVF{int(4 * n**0.5)},Flat"

    def lists(self, queries: np.ndarray, k: int, dial: Any) -> np.ndarray:
        self.index.nprobe = dial
        return super().lists(queries, k, dial)


class FaissSQ8(FaissIVF):
    """The same, of bytes."""

    def factory(self, n: int) -> str:
        return f"IVF{int(4 * n**0.5)},SQ8"


class FaissHNSW(FaissFlat):
    """A graph."""

    dials = (16, 32, 64, 128, 256, 512, 1_024, 2_048)

    def factory(self, n: int) -> str:
        return "HNSW32"

    def lists(self, queries: np.ndarray, k: int, dial: Any) -> np.ndarray:
        self.index.hnsw.efSearch = max(k, dial)
        return super().lists(queries, k, dial)


class Hnswlib:
    """A graph."""

    module, dials = "hnswlib", FaissHNSW.dials

    def __init__(self, X: np.ndarray, threads: int) -> None:
        import hnswlib

        self.index = hnswlib.Index("l2", X.shape[1])
        self.index.init_index(len(X), ef_construction=100, M=16)
        self.index.set_num_threads(threads)
        self.index.add_items(X)

    def lists(self, queries: np.ndarray, k: int, dial: Any) -> np.ndarray:
        self.index.set_ef(max(k, dial))
        return self.index.knn_query(queries, k)[0].astype(np.int64)


class Usearch:
    """A graph."""

    module, dials = "usearch", FaissHNSW.dials

    def __init__(self, X: np.ndarray, threads: int) -> None:
        from usearch.index import Index

        self.index, self.threads = Index(ndim=X.shape[1], metric="l2sq", dtype="f32"), threads
        self.index.add(np.arange(len(X)), X, threads=threads)

    def lists(self, queries: np.ndarray, k: int, dial: Any) -> np.ndarray:
        self.index.expansion_search = max(k, dial)
        return np.asarray(self.index.search(queries, k, threads=self.threads).keys, np.int64)


class ScikitLearn:
    """Exact."""

    module, dials = "sklearn", (None,)

    def __init__(self, X: np.ndarray, threads: int) -> None:
        from sklearn.neighbors import NearestNeighbors

        self.model = NearestNeighbors(algorithm="brute").fit(X)

    def lists(self, queries: np.ndarray, k: int, dial: Any) -> np.ndarray:
        return self.model.kneighbors(queries, k, return_distance=False)


PEERS: dict[str, type] = {
    "faiss Flat": FaissFlat, "faiss IVF, Flat": FaissIVF, "faiss IVF, SQ8": FaissSQ8,
    "faiss HNSW32": FaissHNSW, "hnswlib": Hnswlib, "usearch": Usearch,
    "scikit-learn brute": ScikitLearn,
}  # fmt: skip


def pynndescent(X: np.ndarray, k: int, threads: int) -> np.ndarray:
    from pynndescent import NNDescent

    return NNDescent(X, n_neighbors=k + 1, random_state=0, n_jobs=threads).neighbor_graph[0]


def nearkin(X: np.ndarray, k: int, recall: float) -> np.ndarray:
    return nearest(X, k, index=f"cells;recall={recall}")[1]


class Judge:
    """Recall of lists of the checked rows."""

    def __init__(self, X: np.ndarray, k: int) -> None:
        self.at = np.sort(np.random.default_rng(1).permutation(len(X))[:CHECKED])
        self.true = nearest(X, k + 1, queries=X[self.at], index="exact")[1]

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


def row(name: str, setting: str, cpu: float, base: float, mebibytes: float, recall: float) -> None:
    print(f"| {name} | {setting} | {cpu:.1f} | {cpu / base:.1f} | {mebibytes:.0f} | {recall:.3f} |",
          flush=True)  # fmt: skip


def peer_row(
    name: str, built: tuple[Any, float, float], X: np.ndarray, k: int, judge: Judge, base: float,
    given: argparse.Namespace,
) -> None:  # fmt: skip
    """Turn the dial up to the recall, and time the lists."""
    index, building, size = built
    checked = np.ascontiguousarray(X[judge.at])
    for dial in index.dials:
        recall = judge.recall(index.lists(checked, k + 1, dial))
        if recall >= given.recall - 0.01:
            break
    some = np.ascontiguousarray(X[: given.queries])
    _, seconds, more = measured(lambda: index.lists(some, k + 1, dial))
    setting = "exact" if dial is None else str(dial)
    row(name, setting, building + seconds * len(X) / len(some), base, size + more, recall)


def table(name: str, X: np.ndarray, built: dict[str, Any], k: int, given: Any) -> None:
    print(f"\n{name}, {len(X):,} × {X.shape[1]}, k={k}, {given.threads} threads\n")
    print("| method | dial | CPU s | ratio | MiB | recall |\n|---|--:|--:|--:|--:|--:|")
    judge = Judge(X, k)
    lists, base, size = measured(lambda: nearkin(X, k, given.recall))
    row("nearkin cells", f"{given.recall}", base, base, size, judge.recall(lists[judge.at]))
    if find_spec("pynndescent") and k <= given.descent:
        lists, cpu, size = measured(lambda: pynndescent(X, k, given.threads))
        row("pynndescent", "all lists", cpu, base, size, judge.recall(lists[judge.at]))
    for peer, index in built.items():
        peer_row(peer, index, X, k, judge, base, given)
    limits(X, k, given.recall)


def limits(X: np.ndarray, k: int, recall: float) -> None:
    """Print the shares of the limits: one thread."""
    with limited(1):
        index = Cells(X, f"cells;recall={recall}")
        index.prepare(k)
        at = index.order[: len(X) // 10]
        queries = np.ascontiguousarray(X[at])
        _, finding, _ = measured(lambda: index.search(queries, k + 1))
        _, listing, _ = measured(lambda: row_neighbors(index, X, at, k))
        reduced = index._reduce(queries)
        visited = index._sizes[index._nearest_cells(reduced, int(index.tuned[1]))].sum()
        products = visited * reduced.shape[1]
        share = products / machine.byte_product_peak() / finding
        read = len(at) * int(index.tuned[2]) * 4 * X.shape[1]
        bandwidth = read / machine.copy_bandwidth() / max(listing - finding, 1e-9)
    print(f"\nplan: {index.tuned[1]} of {len(index._coded.steps)} cells, {index.tuned[2]} "
          f"candidates; products of bytes at {share:.0%} of their peak, re-ranking at "
          f"{bandwidth:.0%} of the bandwidth of memory", flush=True)  # fmt: skip


def cases(given: argparse.Namespace) -> Iterator[tuple[str, np.ndarray]]:
    if given.rows:
        yield "made-up rows", World(1_000, 1_000).sample(given.rows)[0]
    if given.data:
        with np.load(given.data / "mnist.npz") as file:
            yield "MNIST", file["x_train"].reshape(60_000, 784).astype(np.float32) / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with mnist.npz")
    parser.add_argument("--rows", type=int, default=50_000, help="made-up rows; 0: none")
    parser.add_argument("--k", type=int, nargs="+", default=[15, 100, 500])
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--queries", type=int, default=5_000, help="lists that a peer makes")
    parser.add_argument("--descent", type=int, default=100, help="largest k for pynndescent")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="peers; all without it")
    given = parser.parse_args()
    print(machine.facts())
    for name, X in cases(given):
        with limited(given.threads):
            nearest(X[:2_000], 5, index="cells")  # compile
            names = [peer for peer in PEERS if given.only is None or peer in given.only]
            built = {
                peer: measured(partial(PEERS[peer], X, given.threads))
                for peer in names
                if find_spec(PEERS[peer].module)
            }
            for k in given.k:
                table(name, X, built, k, given)


if __name__ == "__main__":
    main()
