"""Neighbour lists in shards: separate jobs, each kept when done, joined at the end.

The run folder holds the index and the finished shards, and at the end one part, ``lists``, with
``indices`` and, unless nobody wants them, ``distances``. A worker gets the folder and a number.
"""

from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.io.fingerprint import Digest, Fingerprint
from nearkin.io.progress_bar import track
from nearkin.io.run_folder import RunFolder
from nearkin.native.threads import limited, n_threads
from nearkin.neighbors.base import Index, blocks
from nearkin.neighbors.lists import Neighbors, query_block, row_lists, row_neighbors
from nearkin.neighbors.registry import resolve

SHARD_ROWS = 16_384

LISTS = "lists"
_INDEXES = {True: "index", False: "index-for-lists"}  # with distances, and without
_TYPES = {"indices": "i4", "distances": "f4"}


class Shards:
    """One search in a run folder that is claimed."""

    def __init__(
        self,
        folder: RunFolder,
        rows: NDArray[np.float32],
        k: int,
        index: str,
        distances: bool = True,
    ) -> None:
        self.folder, self.rows, self.k, self.description = folder, rows, k, index
        self.distances, self.columns = distances, ("indices", "distances")[: 1 + distances]
        self.back_end = resolve(index, len(rows))  # workers need not have registered it
        self.size, self.count = SHARD_ROWS, -(-len(rows) // SHARD_ROWS)
        self.inputs = Fingerprint.of({"X": Digest(rows), "k": k, "index": index})
        folder.begin(self.inputs)

    def __getstate__(self) -> dict[str, Any]:
        """Workers map the file that the rows lie in; its content is not sent to them."""
        rows, state = self.rows, dict(self.__dict__)
        if isinstance(rows, np.memmap) and isinstance(getattr(rows, "base", None), mmap):
            state["rows"] = str(rows.filename), rows.offset, rows.shape
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state
        if isinstance(state["rows"], tuple):
            name, offset, shape = state["rows"]
            self.rows = np.memmap(name, np.float32, "r", offset, shape)

    def lists(self) -> dict[str, NDArray[Any]] | None:
        """The finished lists, memory-mapped; None if there are none."""
        return self._read(LISTS)

    def shard(self, n: int) -> dict[str, NDArray[Any]] | None:
        """Rows and lists, perhaps with distances, of shard `n`; None if it is not finished."""
        return self._read(_shard(n))

    def _read(self, name: str) -> dict[str, NDArray[Any]] | None:
        """A part, if it has what is wanted: an earlier search may have been without distances."""
        kept = self.folder.read(name, self.inputs)
        return kept[0] if kept is not None and kept[0].keys() >= set(self.columns) else None

    def prepare(self) -> None:
        """Build the index, if it is not there."""
        self.index = self.folder.file(_INDEXES[self.distances], self.inputs, self._build)

    def _build(self, path: Path) -> None:
        index = self.back_end(self.rows, self.description)
        index.prepare(self.k)
        if not self.distances and hasattr(index, "prepare_lists"):
            index.prepare_lists()
        index.save(path)

    def find(self, index: Index, at: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Lists of the rows `at`, perhaps with distances."""
        if not self.distances:
            return {"indices": row_lists(index, self.rows, at, self.k)}
        return dict(zip(("distances", "indices"), row_neighbors(index, self.rows, at, self.k)))

    def join(self) -> None:
        """Write all lists in the order of the rows."""
        shards = [found for n in range(self.count) if (found := self.shard(n)) is not None]
        order = np.argsort(np.concatenate([shard["at"] for shard in shards]))

        def stream(name: str) -> safetensors.Stream:
            parts = [shard[name] for shard in shards]
            shape = len(self.rows), self.k
            return safetensors.Stream(
                shape, np.dtype(_TYPES[name]), lambda: _in_order(parts, order, self.size)
            )

        self.folder.write(LISTS, self.inputs, {name: stream(name) for name in self.columns})

    def clear(self) -> None:
        """Remove what the finished lists were made from."""
        for n in range(self.count):
            self.folder.remove(_shard(n))
        for name in _INDEXES.values():
            self.folder.remove_file(name)


def finished_lists(path: Path) -> NDArray[np.int32]:
    """The indices that a finished search has left in a folder, memory-mapped."""
    file = path / f"{LISTS}.safetensors"
    if not file.exists():
        raise FileNotFoundError(
            f"{path} holds no {file.name}; give a folder in which 'nearkin neighbors' has ended"
        )
    return safetensors.read(file)[0]["indices"]


def _shard(n: int) -> str:
    return f"shard-{n:04d}"


def _in_order(
    shards: list[NDArray[Any]], order: NDArray[np.int64], size: int
) -> Iterator[NDArray[Any]]:
    """Rows of shards of `size` rows each, in blocks, in the order of their places in all shards."""
    for lo, hi in blocks(len(order), SHARD_ROWS):
        places = order[lo:hi]
        block = np.empty((len(places), shards[0].shape[1]), shards[0].dtype)
        by_shard = np.argsort(places)
        changes = np.flatnonzero(np.diff(places[by_shard] // size)) + 1
        for at in np.split(by_shard, changes):
            block[at] = shards[places[at[0]] // size][places[at] % size]
        yield block


def nearest_in_shards(
    rows: NDArray[np.float32],
    k: int,
    folder: RunFolder,
    index: str,
    n_jobs: int | None,
    verbose: int,
    distances: bool = True,
) -> Neighbors | NDArray[np.int32]:
    """Neighbour lists of all rows, in a folder from which a second call resumes."""
    with folder.claim("nearest"):
        shards = Shards(folder, rows, k, index, distances)
        lists = shards.lists()
        if lists is None:
            _find_missing(shards, n_jobs, verbose)
            shards.join()
            lists = shards.lists()
        if lists is None:
            raise OSError(f"{folder.path} does not give back what was written; check the disk")
        shards.clear()
    return (lists["distances"], lists["indices"]) if distances else lists["indices"]


def _find_missing(shards: Shards, n_jobs: int | None, verbose: int) -> None:
    missing = [n for n in range(shards.count) if shards.shard(n) is None]
    if missing:
        shards.prepare()
    threads = n_threads() if n_jobs in (None, 1) else 1
    found = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(find_shard)(shards, n, threads) for n in missing
    )
    for _ in track(found, "neighbours", total=len(missing), show=verbose > 0):
        pass


def find_shard(shards: Shards, n: int, threads: int) -> None:
    """Find and keep the lists of shard `n`; runs in a worker."""
    rows = shards.rows
    with limited(threads):
        index = shards.back_end.load(rows, shards.index)
        order = np.arange(len(rows)) if index.order is None else index.order
        at = np.asarray(order[n * shards.size : (n + 1) * shards.size])
        parts = [shards.find(index, at[lo:hi]) for lo, hi in blocks(len(at), query_block(shards.k))]
    found = {name: np.concatenate([part[name] for part in parts]) for name in shards.columns}
    shards.folder.worker().write(_shard(n), shards.inputs, {"at": at} | found)
