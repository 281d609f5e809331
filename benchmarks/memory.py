"""Memory of a fit on a memory map, stage by stage, against the stated bound; of reading a table.

    python benchmarks/memory.py --rows 100000 --dims 256 --k 50

Each stage runs in a process of its own and is watched every hundredth of a second; what counts is
RssAnon, the memory that is the process's own. The map is written beside the temporary files.
"""

import argparse
import multiprocessing
import tempfile

import numpy as np
import pyarrow
import pyarrow.parquet

import machine
from nearkin import SLNE, datasets
from nearkin.app.memory_watch import MemoryWatch
from nearkin.learning.memory import fit_bytes
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest


def stage(name: str, path: str, k: int, index: str) -> int:
    """Bytes by which the process grows in one stage of a fit."""
    X = np.load(path, mmap_mode="r")
    n = len(X)
    y = np.random.default_rng(0).integers(0, 20, n)
    small = SLNE.paper(n_neighbors=5, max_epochs=1).fit(np.array(X[:200]), y[:200])  # compile
    small.fit(X[:200], y[:200], neighbors=nearest(X[:200], 5, index="cells")[1])
    lists = np.random.default_rng(0).integers(0, n, (n, k), np.int32) if name != "neighbours" else 0
    graph = neighborhoods(lists, y) if name == "learning" else None
    work = {
        "neighbours": lambda: nearest(X, k, index=index, return_distance=False),
        "graph": lambda: neighborhoods(lists, y),
        "learning": lambda: SLNE.paper(n_neighbors=k, max_epochs=1).fit(X, y, neighbors=graph),
    }[name]
    with MemoryWatch() as memory:
        work()
    held = 4 * n * k if name == "graph" else 4 * (n * k + len(graph.indices)) if graph else 0
    return (memory.growth or 0) + held


def reading(path: str) -> int:
    """Bytes by which the process grows while it reads the vectors of a Parquet file."""
    with MemoryWatch() as memory:
        datasets.read(path, vector_column="v")
    return memory.growth or 0


def write_parquet(X: np.ndarray, path: str) -> None:
    kind = pyarrow.list_(pyarrow.float32())
    with pyarrow.parquet.ParquetWriter(path, pyarrow.schema({"v": kind})) as writer:
        for lo in range(0, len(X), 65_536):
            part = np.ascontiguousarray(X[lo : lo + 65_536])
            starts = np.arange(0, part.size + 1, part.shape[1], dtype=np.int32)
            lists = pyarrow.ListArray.from_arrays(starts, part.ravel())
            writer.write_table(pyarrow.table({"v": lists}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=256)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--index", default="auto")
    given = parser.parse_args()
    print(machine.facts())
    bound = fit_bytes(given.rows, given.dims, given.k, index=given.index)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.npy"
        out = np.lib.format.open_memmap(path, "w+", np.float32, (given.rows, given.dims))
        rng = np.random.default_rng(0)
        for lo in range(0, given.rows, 4_096):
            part = out[lo : lo + 4_096]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32)
        out.flush()
        print(f"{given.rows} × {given.dims}, k={given.k}: X {out.nbytes / 2**20:.0f} MiB")
        for name, most in bound.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                used = pool.apply(stage, (name, path, given.k, given.index))
            print(f"{name:<10} measured {used / 2**20:7.0f} MiB   bound {most / 2**20:7.0f} MiB")
        write_parquet(out, f"{folder}/x.parquet")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            used = pool.apply(reading, (f"{folder}/x.parquet",))
        print(
            f"parquet    measured {used / 2**20:7.0f} MiB   {used / out.nbytes:.2f} × the vectors"
        )


if __name__ == "__main__":
    main()
