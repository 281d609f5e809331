"""Neighbour lists in shards: separate jobs, each written when done, joined at the end.

The folder holds the index, then ``shard-0000.safetensors`` …, each written atomically, and at the
end ``indices.npy`` and ``distances.npy``. A worker gets the folder and a shard's number.
"""

import json
import os
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.io.atomic import replacing
from nearkin.io.fingerprint import Digest, differences, words
from nearkin.io.progress import track
from nearkin.native.threads import limited, n_threads
from nearkin.neighbors.base import Index, blocks, resolve
from nearkin.neighbors.lists import QUERY_BLOCK, Neighbors, row_neighbors

SHARD_ROWS = 16_384


class Shards:
    """One search on disk: rows, index, finished shards, finished lists."""

    def __init__(self, folder: Path, rows: NDArray[np.float32], k: int, description: str) -> None:
        self.folder, self.rows, self.k, self.description = folder, rows, k, description
        self.back_end = resolve(description, len(rows))  # workers need not have registered it
        self.size, self.count = SHARD_ROWS, -(-len(rows) // SHARD_ROWS)

    def __getstate__(self) -> dict[str, Any]:
        """Send workers the name of a mapped file instead of its content."""
        rows, state = self.rows, dict(self.__dict__)
        if isinstance(rows, np.memmap) and isinstance(rows.base, mmap):
            state["rows"] = str(rows.filename), rows.offset, rows.shape
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        if isinstance(self.rows, tuple):
            name, offset, shape = self.rows
            self.rows = np.memmap(name, np.float32, "r", offset, shape)

    @property
    def lists(self) -> tuple[Path, Path]:
        """Paths of the finished lists."""
        return self.folder / "indices.npy", self.folder / "distances.npy"

    def shard(self, n: int) -> Path:
        """Path of shard `n`."""
        return self.folder / f"shard-{n:04d}.safetensors"

    def claim(self) -> None:
        """Claim the folder, or refuse one that belongs to another search."""
        self.folder.mkdir(parents=True, exist_ok=True)
        note = self.folder / "search.json"
        made_from = {"rows": Digest(self.rows), "k": self.k, "index": self.description}
        if not note.exists():
            if any(self.folder.iterdir()):
                raise FileExistsError(
                    f"out={str(self.folder)!r} is a folder with other things in it: give a new one"
                )
            with replacing(note) as aside:
                aside.write_text(json.dumps(words(made_from)))
        differing = differences(json.loads(note.read_text()), made_from)
        if differing:
            raise FileExistsError(
                f"out={str(self.folder)!r} holds another search: {differing}. Nothing in it was "
                "changed: give another folder, or remove this one"
            )

    def index(self) -> Index:
        """Return the index, built by the first caller."""
        path = self.folder / "index"
        if not path.exists():
            index = self.back_end(self.rows, self.description)
            index.prepare(self.k)
            with replacing(path) as aside:
                index.save(aside)
        return self.back_end.load(self.rows, path)

    def join(self) -> None:
        """Join the shards, each list in the place of its row."""
        shape = len(self.rows), self.k
        for path, dtype, name in zip(self.lists, ("i4", "f4"), ("indices", "distances")):
            with replacing(path) as aside:
                whole = np.lib.format.open_memmap(aside, "w+", dtype, shape)
                for n in range(self.count):
                    arrays, _ = safetensors.read(self.shard(n))
                    whole[arrays["at"]] = arrays[name]
                whole.flush()
        for path in [*map(self.shard, range(self.count)), self.folder / "index"]:
            path.unlink()


def nearest_in_shards(
    rows: NDArray[np.float32],
    k: int,
    out: str | os.PathLike[str],
    index: str,
    n_jobs: int | None,
    verbose: int,
) -> Neighbors:
    """Find the neighbours of all rows, in a folder from which a second call resumes."""
    shards = Shards(Path(out), rows, k, index)
    shards.claim()
    if not all(path.exists() for path in shards.lists):
        missing = [n for n in range(shards.count) if not shards.shard(n).exists()]
        if missing:
            shards.index()
        found = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(find_shard)(shards, n, _threads_each(n_jobs)) for n in missing
        )
        for _ in track(found, "neighbours", total=len(missing), show=verbose > 0):
            pass
        shards.join()
    indices, distances = (np.load(path, mmap_mode="r") for path in shards.lists)
    return distances, indices


def _threads_each(n_jobs: int | None) -> int:
    return n_threads() if n_jobs in (None, 1) else 1


def find_shard(shards: Shards, n: int, threads: int) -> None:
    """Find and write the lists of shard `n`; runs in a worker."""
    if shards.shard(n).exists():
        return
    with limited(threads):
        index, rows = shards.index(), shards.rows
        order = np.arange(len(rows)) if index.order is None else index.order
        at = np.asarray(order[n * shards.size : (n + 1) * shards.size])
        parts = [
            row_neighbors(index, rows, at[lo:hi], shards.k)
            for lo, hi in blocks(len(at), QUERY_BLOCK)
        ]
    distances, indices = (np.concatenate(column) for column in zip(*parts))
    arrays = {"at": at, "indices": indices, "distances": distances}
    safetensors.write(shards.shard(n), arrays, {})
