"""Arrays of ``.npy`` and ``.npz`` files; what a header claims is checked before it is allocated."""

import math
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import error as StructError
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo
from zlib import error as ZlibError

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from nearkin.io.files import check_file
from nearkin.validation import memory

PathLike = str | os.PathLike[str]

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
SMALL = 64 << 20  # bytes that an array may have whatever it was compressed to
RATIO = 400  # most that data is compressed by; a file of zeros by 1,000
# What numpy and zipfile raise on a damaged file.
_DAMAGED = (ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, IndexError,
            RuntimeError, BadZipFile, ZlibError, StructError, TokenError)  # fmt: skip


@dataclass(frozen=True)
class Header:
    """Type and shape of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the array; of one item, if it is empty."""
        return max(1, math.prod(self.shape)) * self.dtype.itemsize

    @classmethod
    def read(cls, file: BinaryIO, size: int) -> "Header":
        """The header of a file of `size` bytes, which must suffice for the array."""
        version = npy.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"version {version} of the format is not known")
        shape, _, dtype = _HEADERS[version](file)
        header = cls(dtype, shape)
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        if min(shape, default=0) < 0 or header.nbytes > size:
            raise ValueError(f"it is too short for {dtype} of shape {shape}")
        return header


def map_array(path: PathLike) -> NDArray[Any]:
    """The array of an ``.npy`` file, memory-mapped."""
    check_file(path, "an .npy file")
    try:
        with open(path, "rb") as file:
            Header.read(file, os.path.getsize(path))
        mapped: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGED as reason:
        raise ValueError(f"{path} is not a whole .npy file of numbers ({reason})") from None
    return mapped


def archive_headers(path: PathLike) -> dict[str, Header]:
    """Types and shapes of the arrays of an ``.npz`` file, which are not read."""
    with _archive(path) as archive:
        return {name: header for name, (_, header) in _members(archive).items()}


def read_archive(path: PathLike, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that an ``.npz`` file holds."""
    with _archive(path) as archive:
        members = {n: found for n, found in _members(archive).items() if n in names}
        size = sum(header.nbytes for _, header in members.values())
        advice = "give the array as an .npy file, which is mapped into memory"
        memory.check(str(path), {"reading": size}, advice)
        arrays = {}
        for name, (info, _) in members.items():
            with archive.open(info) as file:
                arrays[name] = npy.read_array(file, allow_pickle=False)
        return arrays


@contextmanager
def _archive(path: PathLike) -> Iterator[ZipFile]:
    check_file(path, "an .npz file")
    try:
        with ZipFile(Path(path)) as archive:
            yield archive
    except MemoryError:
        raise
    except _DAMAGED as reason:
        raise ValueError(
            f"{path} cannot be used ({reason}); a whole .npz file of arrays is expected"
        ) from None


def _members(archive: ZipFile) -> dict[str, tuple[ZipInfo, Header]]:
    found = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if info.file_size > max(SMALL, RATIO * info.compress_size):
            raise ValueError(f"{name} is {info.file_size:,} bytes in {info.compress_size:,}: no "
                             "data is compressed so well")  # fmt: skip
        with archive.open(info) as file:
            found[name] = info, Header.read(file, info.file_size)  # type: ignore[arg-type]
    return found
