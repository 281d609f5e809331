"""Rows of files by plain writes: on a full disk, a write to a memory map kills."""

import errno
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearkin.validation import memory

_SHARE = 4  # rows that need more than a quarter of the memory that is there go to a file
# What file systems without reservations answer.
_CANNOT_RESERVE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


def create_rows(path: Path, shape: tuple[int, ...], dtype: DTypeLike) -> None:
    """Make a file of zeros, and reserve its space where the system can.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.npy"
    >>> create_rows(path, (3, 2), "float32")
    >>> write_rows(path, 1, np.ones((1, 2), np.float32))
    >>> np.load(path).tolist()
    [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    """
    dtype = np.dtype(dtype)
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        size = file.tell() + shape[0] * shape[1] * dtype.itemsize
        file.flush()
        _reserve(file.fileno(), size)
        file.truncate(size)


def _reserve(descriptor: int, size: int) -> None:
    """Reserve space; where that is not possible, a full disk is noticed by the writes."""
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno not in _CANNOT_RESERVE:
            raise


def write_rows(path: Path, start: int, rows: NDArray[Any]) -> None:
    """Write rows from `start` on and flush them to the disk; several processes may."""
    offset = np.load(path, mmap_mode="r").offset
    with open(path, "rb+") as file:
        file.seek(offset + start * rows[0].nbytes)
        file.write(np.ascontiguousarray(rows).data)
        file.flush()
        os.fsync(file.fileno())


def write_all(
    path: Path, shape: tuple[int, ...], dtype: DTypeLike, blocks: Iterable[NDArray[Any]]
) -> None:
    """Write a file from blocks of rows, in order."""
    create_rows(path, shape, dtype)
    offset = np.load(path, mmap_mode="r").offset
    with open(path, "rb+") as file:
        file.seek(offset)
        for block in blocks:
            file.write(np.ascontiguousarray(block, dtype).data)


def link_or_copy(source: Path, target: Path, copy: bool = False) -> None:
    """Give a large file a second name, in place of `target`, or copy it."""
    if not copy:
        target.unlink(missing_ok=True)
        try:
            os.link(source, target)
            return
        except OSError:  # another file system, or one without hard links
            pass
    shutil.copyfile(source, target)


class GrowingRows:
    """float32 rows that arrive in blocks: in memory or, if they are many, in a temporary file.

    A lone block of float32 is not copied. The file is mapped, and removed with the last array that
    uses it, or when Python ends.

    Examples
    --------
    >>> rows = GrowingRows()
    >>> for block in ([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]):
    ...     rows.append(np.array(block))
    >>> rows.finish().tolist()
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    """

    def __init__(self) -> None:
        there = memory.available()
        self._limit = np.inf if there is None else there // _SHARE
        self._first: NDArray[Any] | None = None  # not copied before there is a second block
        self._rows: NDArray[np.float32] | None = None
        self._file: BinaryIO | None = None
        self._n = 0

    def append(self, block: NDArray[Any]) -> None:
        """Add rows, all of one width."""
        self._width = block.shape[1]
        if self._n == 0 and block.dtype == np.float32:
            self._first = block
        else:
            first, self._first = self._first, None
            if first is not None:
                self._add(first, 0)
            self._add(block, self._n)
        self._n += len(block)

    def finish(self) -> NDArray[np.float32]:
        """All rows."""
        if self._file is None:
            whole = self._first if self._rows is None else self._rows
            return np.require(whole, np.float32, ["C", "ALIGNED"])
        self._file.close()
        mapped: Any = np.memmap(self._path, np.float32, "r", shape=(self._n, self._width))
        self._remove.detach()
        weakref.finalize(mapped._mmap, os.unlink, self._path)
        return mapped

    def _add(self, block: NDArray[Any], at: int) -> None:
        end = at + len(block)
        if self._file is None and 4 * end * self._width > self._limit:
            self._move_to_file()
        with np.errstate(over="ignore"):  # infinity is for those to refuse who use the rows
            if self._file is not None:
                self._write(np.ascontiguousarray(block, np.float32))
                return
            if self._rows is None:
                self._rows = np.empty((end, self._width), np.float32)
            else:
                # The system moves the pages of a large array; nothing is copied.
                self._rows.resize((end, self._width), refcheck=False)
            self._rows[at:] = block

    def _move_to_file(self) -> None:
        descriptor, self._path = tempfile.mkstemp(prefix="nearkin-")
        self._file = os.fdopen(descriptor, "wb")
        self._remove = weakref.finalize(self, os.unlink, self._path)
        if self._rows is not None:
            self._write(self._rows)
            self._rows = None

    def _write(self, rows: NDArray[np.float32]) -> None:
        assert self._file is not None
        try:
            self._file.write(rows.data)
        except OSError as error:
            raise OSError(
                f"{self._path} could not be written ({error}): rows that do not fit into "
                "memory go there; free some space, or name another folder in TMPDIR"
            ) from error
