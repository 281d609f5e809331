"""Rows of ``.npy`` files by plain writes: on a full disk, a write to a memory map kills."""

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
