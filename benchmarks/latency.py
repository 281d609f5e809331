"""Latency of a single query: nearkin beside faiss, on one thread, at the same recall, in one run.

    python benchmarks/latency.py [--rows 200000] [--peers "faiss IVF, Flat" "faiss HNSW32"]

Made-up rows of 1,000 dimensions (`made_up.py`; --made is a folder in which scale.py has left
``rows.npy`` and ``labels.npy``), mapped from a file, pages warm. nearkin is a whole classifier,
saved and loaded again: search, re-ranking by distance and the vote. Peers are turned up, on the
same queries, as far as --recall needs it; only their search is timed. One index is in memory at a
time, and none is asked for much more than `LIMIT` seconds. Below the table stand the first query of
the loaded file, and queries of the file when none of its pages is in memory.
"""

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import machine
from made_up import World
from nearkin import SoftVotingKNN, load
from nearkin.native.threads import limited
from nearkin.neighbors import nearest
from search_peers import PEERS, turned_up

LIMIT, COLD, MODEL = 60, 100, "model.safetensors"


def milliseconds(ask: Callable[[np.ndarray], Any], queries: np.ndarray) -> str:
    """Median and 99th percentile of one query at a time, the first ten left out."""
    taken: list[float] = []
    for query in queries:
        began = time.perf_counter()
        ask(query[None])
        taken.append(1e3 * (time.perf_counter() - began))
        if len(taken) > 50 and sum(taken) > 1e3 * LIMIT:
            break
    p50, p99 = np.quantile(taken[10:], [0.5, 0.99])
    return f"{p50:.2f} | {p99:.2f}"


def seconds(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def recall(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([np.isin(a, b).mean() for a, b in zip(true, found)]))


def own(X: Any, y: Any, Q: Any, true: Any, given: argparse.Namespace, folder: Path) -> str:
    k, path = given.k, folder / MODEL
    index = f"cells;recall={given.recall}"
    model = SoftVotingKNN(None, preprocess=None, n_neighbors=k, vote="softmax", index=index)
    _, fitting = seconds(lambda: model.fit(X, y).save(path))
    model, loading = seconds(lambda: load(path, verify=False))
    _, first = seconds(lambda: model.predict(Q[:1]))
    share = recall(model.kneighbors(Q, rerank=False)[1], true)
    print(f"| nearkin, `predict` | {fitting:.0f} | {given.recall} | {share:.3f} "
          f"| {milliseconds(model.predict, Q)} |", flush=True)  # fmt: skip
    return f"load {loading:.3f} s without checksum, first query {1e3 * first:.0f} ms"


def cold(path: Path, Q: Any) -> str:
    """The first queries of a saved model that is not in memory."""
    evict(path)
    model = load(path, verify=False)
    _, first = seconds(lambda: model.predict(Q[:1]))
    spent = milliseconds(model.predict, Q[1 : COLD + 1])
    return f"pages cold: first query {1e3 * first:.0f} ms, p50 | p99 of {COLD} after it {spent} ms"


def evict(path: Path) -> None:
    """Drop a file from the page cache; nothing may map it."""
    gc.collect()
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peer(name: str, X: np.ndarray, Q: Any, true: Any, given: argparse.Namespace) -> None:
    index, building = seconds(lambda: PEERS[name](X, 2))
    dial, share = turned_up(index, lambda found: recall(found, true), Q, given.k, given.recall)
    import faiss

    faiss.omp_set_num_threads(1)
    spent = milliseconds(lambda q: index.lists(q, given.k, dial), Q)
    print(f"| {name} | {building:.0f} | {dial} | {share:.3f} | {spent} |", flush=True)


def rows_of(given: argparse.Namespace, folder: Path) -> tuple[Any, Any]:
    """Mapped rows, and labels."""
    if given.made:
        X, labels = np.load(given.made / "rows.npy", mmap_mode="r"), given.made / "labels.npy"
        given.rows, given.dims = min(given.rows, len(X)), X.shape[1]
        return X[: given.rows], np.load(labels)[: given.rows]
    path, labels = folder / "rows.npy", np.empty(given.rows, np.int32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (given.rows, given.dims))
    for lo, block, of_block in World(given.dims, 1_000).blocks(given.rows):
        X[lo : lo + len(block)], labels[lo : lo + len(block)] = block, of_block
    X.flush()
    return np.load(path, mmap_mode="r"), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dims", type=int, default=1_000)
    parser.add_argument("--made", type=Path, help="folder with rows.npy and labels.npy")
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--recall", type=float, default=0.95)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--peers", nargs="*", choices=PEERS, metavar="NAME",
                        default=["faiss Flat", "faiss IVF, Flat", "faiss HNSW32"])  # fmt: skip
    given = parser.parse_args()
    print(machine.facts())
    with tempfile.TemporaryDirectory() as name:
        X, labels = rows_of(given, Path(name))
        Q, _ = World(given.dims, 1_000).sample(given.queries, part=1)
        true = nearest(X, given.k, queries=Q, index="exact")[1]
        print(f"\n{given.rows:,} × {given.dims:,}, k={given.k}, one thread\n")
        print("| | build, s | dial | recall | p50 ms | p99 ms |\n|---|--:|--:|--:|--:|--:|")
        with limited(1):
            opened = own(X, labels, Q, true, given, Path(name))
            opened += "\n" + cold(Path(name) / MODEL, Q)
        for peer_name in given.peers:
            peer(peer_name, np.asarray(X), Q, true, given)
        print(f"\n{opened}")


if __name__ == "__main__":
    main()
