"""Learning from pairs at the size of a store: 100,000 queries, a million documents, 512 dimensions.

    python benchmarks/pairs.py --work DIR [--documents 1000000] [--queries 100000]

DIR keeps the documents (2 GB). Documents are made up (`made_up.py`). A query is a document, which
is relevant to it, and noise in all directions and, more of it, in `STYLES` in which documents
differ: what a question says beside its subject. `SLNE().fit_pairs` learns from the pairs; nDCG@10
and recall@100 are of new queries over all documents, exact, for the vectors as they are and through
M. Seconds are of the clock; indented lines are parts of the fit, summed over the calls. Memory is
the process's own.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import machine
from made_up import World
from nearkin import SLNE
from nearkin.app.memory_watch import MemoryWatch, release_memory
from nearkin.io.atomic import atomic_write
from nearkin.learning import pair_fit, pair_search
from nearkin.learning.pairs import Visits
from nearkin.learning.trainer import Trainer
from nearkin.neighbors.index import NeighborIndex

STYLES, AMPLITUDE, NOISE = 20, 2.0, 1.0
TEST = 1_000
PARTS = (
    ("choice on held-out queries", pair_fit.PairFit, "_choose"),
    ("index of the documents", NeighborIndex, "__init__"),
    ("search", pair_search, "search"),
    ("graph", Visits, "neighborhoods"),
    ("steps", Trainer, "epoch"),
)  # fmt: skip


def documents_of(work: Path, n: int, dims: int) -> np.ndarray:
    """Mapped rows, made once."""
    path = work / f"documents-{n}x{dims}.npy"
    if not path.exists():
        with atomic_write(path) as aside:
            out = np.lib.format.open_memmap(aside, "w+", np.float32, (n, dims))
            for lo, block, _ in World(dims, 1_000).blocks(n):
                out[lo : lo + len(block)] = block
            out.flush()
    return np.load(path, mmap_mode="r")


def queries_of(documents: np.ndarray, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries and the document that each is about."""
    rng = np.random.default_rng([1, seed])
    about = np.sort(rng.choice(len(documents), m, replace=False))
    dims = documents.shape[1]
    one, other = np.random.default_rng(0).integers(0, len(documents), (2, STYLES))
    styles = documents[one] - documents[other]
    styles /= np.sqrt(STYLES) * np.linalg.norm(styles, axis=1, keepdims=True)
    Q = documents[about] + AMPLITUDE * rng.normal(size=(m, STYLES)) @ styles
    Q += NOISE * rng.normal(size=(m, dims)) / np.sqrt(dims)
    return (Q / np.linalg.norm(Q, axis=1, keepdims=True)).astype(np.float32), about


@contextmanager
def clocks() -> Iterator[dict[str, float]]:
    """Seconds that the parts of a fit take; those of the choice count there alone."""
    taken: dict[str, float] = defaultdict(float)
    inside = [False]

    def timed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if inside[0]:
                return work(*args, **kwargs)
            inside[0], began = True, time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                inside[0] = False
                taken[name] += time.perf_counter() - began

        return call

    with_parts = [
        patch.object(of, name, timed(what, getattr(of, name))) for what, of, name in PARTS
    ]
    for part in with_parts:
        part.start()
    try:
        yield taken
    finally:
        for part in with_parts:
            part.stop()


def judged(documents: np.ndarray, asked: np.ndarray, about: np.ndarray) -> str:
    """nDCG@10 and recall@100 of queries that are about one document each."""
    index = NeighborIndex(documents, "exact", metric="dot")
    hits = index.nearest(100, asked)[1] == about[:, None]
    gains = hits[:, :10] / np.log2(np.arange(2, 12))
    return f"nDCG@10 {gains.sum(axis=1).mean():.4f}, recall@100 {hits.any(axis=1).mean():.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder for the documents")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=512)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    print(machine.facts())
    documents = documents_of(given.work, given.documents, given.dims)
    queries, about = queries_of(documents, given.queries, 0)
    pairs = np.stack([np.arange(len(queries)), about], axis=1)
    print(f"{len(queries):,} queries, {len(documents):,} documents, {given.dims} dimensions\n")
    release_memory()
    began = time.perf_counter()
    with MemoryWatch() as memory, clocks() as taken:
        model = SLNE(random_state=0).fit_pairs(queries, documents, pairs)
    seconds = time.perf_counter() - began
    for name, part in {"fit_pairs": seconds, **{f"  {n}": s for n, s in taken.items()}}.items():
        print(f"{name:<32} {part:>8.1f} s")
    print(f"{'  the rest':<32} {seconds - sum(taken.values()):>8.1f} s")
    print(f"memory beside the maps {(memory.growth or 0) / 2**30:.2f} GiB; {model.pair_choice_}")
    asked, about = queries_of(documents, TEST, 1)
    print(f"as they are  {judged(documents, asked, about)}")
    print(f"through M    {judged(documents, model.transform_query(asked), about)}")


if __name__ == "__main__":
    main()
