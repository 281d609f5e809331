"""Search and k-means of nearkin beside those of faiss and scikit-learn, in the same run.

    python benchmarks/search.py [--data DIR] [--queries 10000] [--repeats 3]

About five minutes on two cores with MNIST (DIR holds ``mnist.npz``), one without. It shows whether
a library could replace code of ours:

* exact search: seconds by the clock and of CPU (building the index included), memory beside the
  rows, recall against float64 distances on 200 queries, and whether one thread gives the same bits
  as two. The case far from the origin adds 1,000 to every number.
* k-means of the cells, with the same sample, number of cells and iterations: seconds, inertia, and
  the share of true neighbours in the nearest cells (probes) of a row.

Times are the best of --repeats, taken in turns, with --threads threads each. A ratio is that of
CPU seconds to ours. On a machine that others use, only --threads 1 is a fair comparison: OpenMP
threads spin while they wait, which counts as CPU time of faiss and scikit-learn.

To add a peer, add a line to `SEARCHES` or `KMEANS`; one that is not installed is left out.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from nearkin.reproduction.watching import Watch, give_back
from scipy.spatial.distance import cdist

import machine
from made_up import World
from nearkin.native.threads import limited
from nearkin.neighbors import nearest
from nearkin.neighbors.kmeans import ITERATIONS, Partition, kmeans

Lists = tuple[np.ndarray, np.ndarray]  # distances, indices
CHECKED, PROBES = 200, (1, 4, 16)


def ours(X: np.ndarray, queries: np.ndarray, k: int) -> Lists:
    return nearest(X, k, queries=queries, index="exact")


def faiss_flat(X: np.ndarray, queries: np.ndarray, k: int) -> Lists:
    import faiss

    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return index.search(queries, k)


def scikit_learn(X: np.ndarray, queries: np.ndarray, k: int) -> Lists:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X).kneighbors(queries)


def our_kmeans(rows: np.ndarray, n: int) -> np.ndarray:
    return kmeans(rows, n, np.random.default_rng(0))


def faiss_kmeans(rows: np.ndarray, n: int) -> np.ndarray:
    import faiss

    model = faiss.Kmeans(
        rows.shape[1], n, niter=ITERATIONS, seed=0,
        min_points_per_centroid=1, max_points_per_centroid=len(rows),
    )  # fmt: skip
    model.train(rows)
    return model.centroids


SEARCHES: dict[str, tuple[str, Callable[..., Lists]]] = {
    "nearkin exact": ("nearkin", ours),
    "faiss IndexFlatL2": ("faiss", faiss_flat),
    "scikit-learn brute (ArgKmin)": ("sklearn", scikit_learn),
}
KMEANS: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "nearkin k-means": ("nearkin", our_kmeans),
    "faiss.Kmeans": ("faiss", faiss_kmeans),
}


@dataclass
class Run:
    """What the best of some runs took, and the result of the last."""

    wall: float = np.inf
    cpu: float = np.inf
    mebibytes: float = 0.0
    result: Any = None

    def again(self, work: Callable[[], Any]) -> None:
        """Measure another run."""
        self.result = None
        give_back()
        clock, cpu = time.perf_counter(), time.process_time()
        with Watch() as memory:
            self.result = work()
        self.wall = min(self.wall, time.perf_counter() - clock)
        self.cpu = min(self.cpu, time.process_time() - cpu)
        self.mebibytes = max(self.mebibytes, (memory.growth or 0) / 2**20)


def in_turns(methods: dict[str, Any], repeats: int, threads: int, *given: Any) -> dict[str, Run]:
    """Run every installed method on the same input, one after the other, `repeats` times."""
    runs = {}
    for name, (module, _) in methods.items():
        if find_spec(module) is None:
            print(f"{name}: {module} is not installed")
        else:
            runs[name] = Run()
    with limited(threads):
        for _ in range(repeats):
            for name, run in runs.items():
                run.again(lambda name=name: methods[name][1](*given))
    return runs


def recall(true: np.ndarray, indices: np.ndarray) -> float:
    """Share of the found rows that are no farther than the true k-th; ties count as found."""
    kth = np.partition(true, indices.shape[1] - 1, axis=1)[:, indices.shape[1] - 1]
    return float((np.take_along_axis(true, indices, axis=1) <= kth[:, None]).mean())


def same_bits(result: Any, other: Any) -> str:
    pairs = zip(result, other) if isinstance(result, tuple) else [(result, other)]
    return "yes" if all(np.array_equal(a, b) for a, b in pairs) else "no"


def search_tables(name: str, X: np.ndarray, given: argparse.Namespace) -> None:
    queries = np.ascontiguousarray(X[:: max(1, len(X) // given.queries)][: given.queries])
    some = np.linspace(0, len(queries) - 1, CHECKED).astype(int)
    true = cdist(queries[some].astype(float), X.astype(float), "sqeuclidean")
    for k in (15, 100):
        print(f"\n{name}, {len(X):,} × {X.shape[1]}, {len(queries):,} queries, k={k}\n")
        search_table(X, queries, k, lambda found: recall(true, found[some]), given)


def search_table(
    X: np.ndarray,
    queries: np.ndarray,
    k: int,
    judge: Callable[[np.ndarray], float],
    given: argparse.Namespace,
) -> None:
    runs = in_turns(SEARCHES, given.repeats, given.threads, X, queries, k)
    few = in_turns(SEARCHES, 1, 1, X, queries[:2_000], k)
    two = in_turns(SEARCHES, 1, 2, X, queries[:2_000], k)
    base = runs["nearkin exact"].cpu
    print("| method | s | CPU s | ratio | MiB | recall | same bits for 1 and 2 threads |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for method, run in runs.items():
        same = same_bits(few[method].result, two[method].result)
        print(f"| {method} | {run.wall:.2f} | {run.cpu:.2f} | {run.cpu / base:.2f} | "
              f"{run.mebibytes:.0f} | {judge(run.result[1]):.5f} | {same} |",
              flush=True)  # fmt: skip


def coverage(rows: np.ndarray, centroids: np.ndarray, near: np.ndarray, at: np.ndarray) -> list:
    """Share of the true neighbours in the nearest cells of each row `at`, per number of probes."""
    cell = nearest(centroids, 1, queries=rows)[1].ravel()
    order = nearest(centroids, max(PROBES), queries=centroids)[1]
    return [
        float(np.mean([np.isin(cell[n], order[cell[i], :p]).mean() for i, n in zip(at, near)]))
        for p in PROBES
    ]


def kmeans_table(name: str, X: np.ndarray, given: argparse.Namespace) -> None:
    partition = Partition(X)
    rows, n = partition.reduce(X), len(partition.centroids)
    at = np.linspace(0, len(X) - 1, CHECKED).astype(int)
    near = nearest(X, 16, queries=X[at])[1][:, 1:]
    runs = in_turns(KMEANS, given.repeats, given.threads, rows, n)
    other = in_turns(KMEANS, 1, 2 if given.threads == 1 else 1, rows, n)
    base = runs["nearkin k-means"].cpu
    print(f"\n{name}, {len(X):,} rows in {rows.shape[1]} dimensions, {n} cells, {ITERATIONS} "
          "iterations\n")  # fmt: skip
    probes = " | ".join(f"{p} probes" for p in PROBES)
    print(f"| method | s | CPU s | ratio | inertia | {probes} | same bits for 1 and 2 threads |")
    print("|---|--:|--:|--:|--:|" + "--:|" * len(PROBES) + "---|")
    for method, run in runs.items():
        distances = nearest(run.result, 1, queries=rows)[0].astype(float)
        shares = " | ".join(f"{share:.3f}" for share in coverage(rows, run.result, near, at))
        print(f"| {method} | {run.wall:.2f} | {run.cpu:.2f} | {run.cpu / base:.2f} | "
              f"{np.square(distances).mean():.5g} | {shares} | "
              f"{same_bits(run.result, other[method].result)} |", flush=True)  # fmt: skip


def cases(data: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    made_up, _ = World(256, 200).sample(20_000)
    yield "made-up rows", made_up
    yield "the same, far from the origin", made_up + np.float32(1_000)
    if data:
        with np.load(data / "mnist.npz") as file:
            yield "MNIST", file["x_train"].reshape(60_000, 784).astype(np.float32) / 255


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with mnist.npz")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print(machine.facts())
    for name, X in cases(given.data):
        nearest(X[:500], 5)  # compile
        search_tables(name, X, given)
        kmeans_table(name, X, given)


if __name__ == "__main__":
    main()
