"""Search libraries behind one interface, for search.py and latency.py.

A peer is built from rows and a number of threads; ``lists(queries, k, dial)`` returns row numbers.
`dials` are settings of rising recall, (None,) where there is nothing to turn.

To add a peer, add a class to `PEERS`; one that is not installed is left out.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

TRAIN_ROWS = 64  # for each cell of an inverted file; faiss would take up to 256
ROUNDS = (1, 2, 3, 4, None)  # of pynndescent
FINER = 4  # halvings between two steps of a dial


class FaissFlat:
    """Exact."""

    module, dials = "faiss", (None,)

    def __init__(self, X: np.ndarray, threads: int) -> None:
        import faiss

        faiss.omp_set_num_threads(threads)
        self.index = faiss.index_factory(X.shape[1], self.factory(len(X)))
        if not self.index.is_trained:
            self.index.train(X[:: max(1, len(X) // (TRAIN_ROWS * self.index.nlist))])
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


def pynndescent(X: np.ndarray, k: int, threads: int, rounds: int | None = None) -> np.ndarray:
    """Lists of all rows, after so many rounds of descent; None: until it has converged."""
    from pynndescent import NNDescent

    graph = NNDescent(X, n_neighbors=k + 1, random_state=0, n_jobs=threads, n_iters=rounds)
    return graph.neighbor_graph[0]


def installed(only: list[str] | None = None) -> list[str]:
    """Names of the peers that are there, or those of `only`."""
    return [name for name in PEERS if find_spec(PEERS[name].module) and name in (only or PEERS)]


def turned_up(
    index: Any, recall: Callable[[np.ndarray], float], queries: np.ndarray, k: int, wanted: float
) -> tuple[Any, float]:
    """The lowest dial that reaches a recall, within a sixteenth of a step, and its recall."""
    low = found = None
    for dial in index.dials:
        found = dial, recall(index.lists(queries, k, dial))
        if found[1] >= wanted or dial is None:
            break
        low = dial
    if low is None or found[1] < wanted:
        return found
    high = found[0]
    for _ in range(FINER):
        middle = (low + high) // 2
        share = recall(index.lists(queries, k, middle))
        if share >= wanted:
            high, found = middle, (middle, share)
        else:
            low = middle
    return found
