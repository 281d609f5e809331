"""The safetensors file format, read as memory maps and written without a second copy.

A file is eight bytes of header length, a JSON header that gives each array's type, shape and
offsets, and the arrays. The format's own library holds everything in memory twice to write it, and
copies to read; here a database of any size streams through, by plain writes: on a full disk, a
write to a memory map kills the process. Tests read our files with the library and its files here.

The format has no checksum. Ours is an entry of the metadata, ``crc32``, for the whole file with
that entry taken as zeros.
"""

import json
import math
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from nearkin.io.atomic import atomic_write
from nearkin.io.files import check_file

_NAMES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
          "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
          "BOOL": "|b1"}  # fmt: skip
_DTYPES = {dtype: name for name, dtype in _NAMES.items()}
_LARGEST_HEADER = 100_000_000
_CHUNK = 32 << 20
_ALIGNMENT = 64  # of the first array: a cache line, and the widest vector register
_VERIFIED = 1 << 30  # larger files are not read, at a second a gigabyte, unless asked for
_UNKNOWN = "00000000"


class FileFormatError(ValueError):
    """The file is not in the format, or is damaged."""


@dataclass(frozen=True)
class Stream:
    """An array that is computed block by block while it is written."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Callable[[], Iterable[NDArray[Any]]]

    @property
    def nbytes(self) -> int:
        """Size of the array in the file."""
        return math.prod(self.shape) * self.dtype.itemsize


Arrays = Mapping[str, "NDArray[Any] | Stream"]


def can_hold(dtype: np.dtype[Any]) -> bool:
    """Whether the format has a name for this type."""
    return dtype.newbyteorder("<").str in _DTYPES


def write(path: str | os.PathLike[str], arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write named arrays and string metadata to a file, atomically."""
    with atomic_write(path) as temporary:
        write_to(temporary, arrays, metadata)


def write_to(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write named arrays and string metadata to a temporary file."""
    header: dict[str, Any] = {"__metadata__": {"crc32": _UNKNOWN, **metadata}}
    # Widest items first, so that every array starts at a multiple of its item size.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    at = 0
    for name in names:
        array = arrays[name]
        end = at + array.nbytes
        header[name] = {
            "dtype": _DTYPES[array.dtype.newbyteorder("<").str],
            "shape": list(array.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    head = len(text).to_bytes(8, "little") + text
    with open(path, "wb") as file:
        file.write(head)
        crc = zlib.crc32(head)
        for name in names:
            crc = _write_array(file, arrays[name], crc)
        file.seek(0)
        file.write(head.replace(_entry(_UNKNOWN), _entry(f"{crc:08x}"), 1))


def _entry(crc: str) -> bytes:
    return f'"crc32": "{crc}"'.encode()


def _write_array(file: BinaryIO, array: NDArray[Any] | Stream, crc: int) -> int:
    """Append an array; return the checksum up to here."""
    dtype = array.dtype.newbyteorder("<")
    for block in array.blocks() if isinstance(array, Stream) else _chunks(array):
        data = np.ascontiguousarray(block, dtype).tobytes()
        file.write(data)
        crc = zlib.crc32(data, crc)
    return crc


def _chunks(array: NDArray[Any]) -> Iterable[NDArray[Any]]:
    array = np.atleast_1d(array)
    step = max(1, _CHUNK // max(1, array.nbytes // max(1, len(array))))
    return (array[lo : lo + step] for lo in range(0, len(array), step))


def read(
    path: str | os.PathLike[str], verify: bool | None = None
) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays, as read-only memory maps, and the metadata.

    The checksum is compared if the file has one and is not large, or if `verify` says so.
    """
    check_file(path, "a model that nearkin.save wrote")
    path = Path(path)
    header, start = _header(path)
    size = path.stat().st_size - start
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise FileFormatError(f"{path} is damaged: its metadata is {metadata!r:.60}; get it again")
    try:
        arrays = {name: _map(path, start, size, entry) for name, entry in header.items()}
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged or truncated ({error}); get it again") from None
    crc = metadata.pop("crc32", None)
    if verify or (verify is None and crc is not None and size <= _VERIFIED):
        _verify(path, start, crc)
    return arrays, metadata


def _header(path: Path) -> tuple[dict[str, Any], int]:
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LARGEST_HEADER, path.stat().st_size - 8):
            raise FileFormatError(f"{path} is not a safetensors file, or is truncated")
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise FileFormatError(f"{path} is not a safetensors file") from None
    if not isinstance(header, dict):
        raise FileFormatError(f"{path} is not a safetensors file")
    return header, 8 + length


def _verify(path: Path, start: int, expected: Any) -> None:
    if expected is None:
        raise FileFormatError(
            f"{path} has no checksum to verify; load it without, and save it to give it one"
        )
    with open(path, "rb") as file:
        head = file.read(start)
        crc = zlib.crc32(head.replace(_entry(str(expected)), _entry(_UNKNOWN), 1))
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    if f"{crc:08x}" != expected:
        raise FileFormatError(
            f"{path} is damaged: its bytes have the checksum {crc:08x}, not {expected!r:.20} as "
            "when they were written; get it again"
        )


def _map(path: Path, start: int, size: int, entry: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = np.dtype(_NAMES[entry["dtype"]]), tuple(entry["shape"])
    lo, hi = entry["data_offsets"]
    if hi - lo != math.prod(shape) * dtype.itemsize or not 0 <= lo <= hi <= size:
        raise ValueError(f"an array of shape {shape} does not fit between bytes {lo} and {hi}")
    if hi == lo:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start + lo, shape)
