"""Where rows of features are stored: an array, a file, or a run folder that records finished rows.

In a run folder, workers write finished rows into one scratch file, and for each chunk of rows a
small part that holds their checksum.
"""

import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearkin.io.atomic import atomic_write
from nearkin.io.fingerprint import Fingerprint, TextDigest
from nearkin.io.rows import create_rows, link_or_copy, write_rows
from nearkin.io.run_folder import RunFolder

Failures: TypeAlias = dict[int, str]  # row → reason
Shape: TypeAlias = tuple[int, int]
Contents: TypeAlias = Callable[[int], str]  # first row of a chunk → digest

FILE = "features.npy"
_COMPLETE = "complete"
_CHANGED = "have changed, or an older version did not note what they held; they are encoded again"


@dataclass(frozen=True)
class Sink:
    """Where a worker writes finished rows."""

    path: Path
    folder: RunFolder
    inputs: Fingerprint

    def write(self, start: int, values: NDArray[Any], failed: Failures, contents: str = "") -> None:
        """Write rows, then the record that they are done, and from which contents."""
        write_rows(self.path, start, values)
        notes = {"failed": failed, "crc32": _checksum(values), "contents": contents}
        self.folder.worker().write(_chunk(start), self.inputs, {}, notes)


class Store:
    """Rows in memory.

    Attributes
    ----------
    sink : Sink or None
        For workers; None if they are to return their rows.
    done : array of bool
        Which rows are done.
    """

    sink: Sink | None = None
    rows: NDArray[Any]

    def __init__(self, shape: Shape, dtype: DTypeLike) -> None:
        _check_memory(shape, dtype)
        self.rows = np.zeros(shape, dtype=dtype)
        self.done = np.zeros(shape[0], dtype=bool)

    def record(self, start: int, stop: int, values: NDArray[Any] | None) -> None:
        """Keep rows that a worker has returned."""
        if values is not None:
            self.rows[start:stop] = values

    def finish(self, failures: Failures) -> None:
        """Complete the store: every row was tried."""


class FileStore(Store):
    """Rows in a temporary file."""

    def __init__(self, path: Path, shape: Shape, dtype: DTypeLike) -> None:
        create_rows(path, shape, dtype)
        self.sink = Sink(path, RunFolder.nowhere(), Fingerprint())
        self.done = np.zeros(shape[0], dtype=bool)


class FolderStore(Store):
    """Rows in a claimed run folder; finished ones are not made again."""

    def __init__(
        self,
        folder: RunFolder,
        shape: Shape,
        dtype: DTypeLike,
        chunk: int,
        inputs: Fingerprint,
        contents: Contents,
    ) -> None:
        folder.begin(inputs)
        self.folder, self.inputs, self.chunk = folder, inputs, chunk
        self.contents = [contents(start) for start in range(0, shape[0], chunk)]
        kept = folder.read(_COMPLETE, inputs)
        complete = kept is not None and folder.is_intact(FILE)
        if complete and kept is not None and kept[1].get("contents") != self.contents:
            warnings.warn(f"images {_CHANGED}", stacklevel=2)
            complete = False
        self.done = np.full(shape[0], complete)
        self.path = folder.scratch("rows", inputs) / FILE
        self.sink = Sink(self.path, folder, inputs)
        if complete:
            return
        if self.path.exists():
            self._resume(np.load(self.path, mmap_mode="r"))
        else:
            with atomic_write(self.path) as temporary:
                create_rows(temporary, shape, dtype)

    def _resume(self, rows: NDArray[Any]) -> None:
        for start in range(0, len(rows), self.chunk):
            part = slice(start, start + self.chunk)
            kept = self.folder.read(_chunk(start), self.inputs)
            if kept is None:
                continue
            if kept[1].get("contents") != self.contents[start // self.chunk]:
                if not kept[1]["failed"]:  # else they may have been repaired
                    warnings.warn(f"images from {start} on {_CHANGED}", stacklevel=2)
                continue
            if kept[1]["crc32"] != _checksum(rows[part]):
                warnings.warn(f"rows from {start} on are damaged and made again", stacklevel=2)
                continue
            self.done[part] = True
            self.done[[int(row) for row in kept[1]["failed"]]] = False

    def finish(self, failures: Failures) -> None:
        """Publish the file; while rows are missing, keep the scratch file that takes them."""
        source = self.path
        if source.exists():  # else it was complete before
            state = {"failed": sorted(failures), "contents": self.contents}
            inputs = Fingerprint.of({**self.inputs, "state": TextDigest(repr(state))})

            def make(path: Path) -> None:
                # Rows that are repaired later must not change the file that is recorded now.
                link_or_copy(source, path, copy=bool(failures))

            self.folder.file(FILE, inputs, make, stale="replace")
        if not failures:
            self.folder.write(_COMPLETE, self.inputs, {}, {"contents": self.contents})
            for start in range(0, len(self.done), self.chunk):
                self.folder.remove(_chunk(start))
            self.folder.remove_scratch("rows")
        self.rows = np.load(self.folder.local(FILE), mmap_mode="r")


@contextmanager
def open_store(
    out: str | os.PathLike[str] | None,
    folder: RunFolder,
    shape: Shape,
    dtype: str,
    chunk: int,
    inputs: Mapping[str, Any],
    contents: Contents = lambda _: "",
) -> Iterator[Store]:
    """A store for rows; after the block, its `rows` are all rows.

    `contents` gives a digest of what the rows from a number on are made from.
    """
    if out is not None and folder.durable:
        raise ValueError("give out= to write a file, or folder= to keep and resume the work")
    if folder.durable:
        made_from = Fingerprint.of({**inputs, "shape": shape, "dtype": dtype})
        with folder.claim("transform"):
            yield FolderStore(folder, shape, dtype, chunk, made_from, contents)
    elif out is not None:
        if Path(out).suffix != ".npy":
            raise ValueError(f"out={str(out)!r}: expected a name that ends in .npy")
        with atomic_write(os.path.abspath(out)) as temporary:  # for workers, who may be elsewhere
            store = FileStore(temporary, shape, dtype)
            yield store
        store.rows = np.load(out, mmap_mode="r")
    else:
        yield Store(shape, dtype)


def _chunk(start: int) -> str:
    return f"chunk-{start:09d}"


def _checksum(rows: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(rows).data)


def _check_memory(shape: Shape, dtype: DTypeLike) -> None:
    size, memory = shape[0] * shape[1] * np.dtype(dtype).itemsize, _memory()
    if size > memory:
        raise MemoryError(
            f"{shape[0]:,} × {shape[1]:,} features need {size / 2**30:.1f} GiB, and there are "
            f"{memory / 2**30:.1f} GiB of memory: pass out='features.npy', or dtype='float16'"
        )


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return 2**63
