"""Ways to damage a file; each returns a few words on what it did."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Mutate = Callable[[Path, Path, np.random.Generator], str]

STRANGE = [
    0, -1, 1, 2, 7, 10**6, 2**31, 2**63, 10**30, 0.5, -0.5, 1e-320, 1e308, None, True, "", "x", [],
    {}, [0], [[1]], {"array": "matrix_"}, {"array": "no such"}, {"list": []}, {"tuple": [0]},
    {"class": "SLNE", "state": {}}, {"class": "os.system", "state": {}},
    {"values": [1], "dtype": "O"}, {"values": ["a"], "dtype": "<U100000000"},
]  # fmt: skip
TOKENS = [",", "\n", "\r", '"', "\0", "nan", "1e999", "x", ";", " ", "-", "\ufeff", "label",
          "\n\n", "é", "{", "}", "null", "-1", "9" * 400]  # fmt: skip


def damaged(source: Path, target: Path, rng: np.random.Generator) -> str:
    """Bytes flipped, cut off, zeroed, doubled or added; half of the time near the beginning."""
    data = source.read_bytes()
    at = int(rng.integers(len(data) if rng.random() < 0.5 else min(256, len(data))))
    size, bit = int(rng.integers(1, 65)), 1 << int(rng.integers(8))
    before, after = data[:at], data[at + size :]
    ways = {
        "flip": before + bytes([data[at] ^ bit]) + data[at + 1 :],
        "byte": before + rng.bytes(1) + data[at + 1 :],
        "cut": before,
        "zero": before + bytes(size) + after,
        "double": data[: at + size] + data[at:],
        "insert": before + rng.bytes(size) + data[at:],
        "remove": before + after,
        "append": data + rng.bytes(size),
    }
    way = str(rng.choice(list(ways)))
    target.write_bytes(ways[way])
    return f"{way} at {at}"


def damaged_text(source: Path, target: Path, rng: np.random.Generator) -> str:
    """Tokens put in, lines moved, or bytes damaged."""
    if rng.random() < 0.3:
        return damaged(source, target, rng)
    text = source.read_text("utf-8")
    at = int(rng.integers(len(text) if rng.random() < 0.6 else min(40, len(text))))
    token = str(rng.choice(TOKENS))
    lines = text.splitlines(keepends=True)
    i, j = sorted(rng.integers(len(lines), size=2).tolist())
    ways = {
        "put": text[:at] + token + text[at:],
        "replace": text[:at] + token + text[at + len(token) :],
        "swap": "".join([*lines[:i], lines[j], *lines[i + 1 : j], lines[i], *lines[j + 1 :]]),
        "repeat": "".join([*lines[: i + 1], *lines[i:]]),
        "drop": "".join([*lines[:i], *lines[i + 1 :]]),
    }
    way = str(rng.choice(list(ways)))
    target.write_text(ways[way], "utf-8", newline="")
    return f"{way} {token!r:.8} at {at}"


def valid_model(source: Path, target: Path, rng: np.random.Generator) -> str:
    """A model with other contents, well-formed and with a valid checksum."""
    header, data = read_safetensors(source)
    model = json.loads(header["__metadata__"]["model"])
    arrays = [name for name in header if name != "__metadata__"]
    way = rng.choice(
        ["setting", "setting", "entries", "shape", "swap", "type"] if arrays else ["setting"]
    )
    name = str(rng.choice(arrays)) if arrays else ""
    if way == "setting":
        place, key = _places(model)[rng.integers(len(_places(model)))]
        name = str(key)
        if rng.random() < 0.15:
            del place[key]
        else:
            place[key] = STRANGE[rng.integers(len(STRANGE))]
    elif way == "entries":
        _spoil(header[name], data, rng)
    elif way == "swap":
        other = str(rng.choice(arrays))
        header[name], header[other] = header[other], header[name]
    elif way == "type":
        header[name]["dtype"] = {"F32": "I32", "I32": "F32", "I64": "F64"}.get(
            header[name]["dtype"], "U8"
        )
    else:
        _reshape(header[name], rng)
    header["__metadata__"]["model"] = json.dumps(model)
    write_safetensors(target, header, bytes(data))
    return f"{way} {name}"


def _places(item: Any) -> list[tuple[Any, Any]]:
    """Every place in a tree of JSON, as container and key."""
    keys = list(item) if isinstance(item, dict) else range(len(item))
    found = [(item, key) for key in keys]
    return found + [p for k in keys if isinstance(item[k], dict | list) for p in _places(item[k])]


def _spoil(entry: Any, data: bytearray, rng: np.random.Generator) -> None:
    lo, hi = entry["data_offsets"]
    kind = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}.get(entry["dtype"], "<u1")
    values = np.frombuffer(bytes(data[lo:hi]), kind).copy()
    if len(values):
        strange = (
            [np.nan, np.inf, 3e38, -1e30, 0] if kind[1] == "f" else [-1, 2**31 - 1, 60, 255, 0]
        )
        chosen = slice(None) if rng.random() < 0.2 else rng.integers(len(values))
        with np.errstate(all="ignore"):
            values[chosen] = np.array(strange[rng.integers(5)]).astype(kind)
        data[lo:hi] = values.tobytes()


def _reshape(entry: Any, rng: np.random.Generator) -> None:
    """Another shape for the same bytes, or fewer of them."""
    size = int(np.prod(entry["shape"]))
    width = (entry["data_offsets"][1] - entry["data_offsets"][0]) // max(1, size)
    shape = entry["shape"]
    fewer = [max(0, n - 1) for n in shape]
    shapes = [[size], [size, 1], [1, size], [1, 1, size], [0], [0, 6], [max(0, size - 1)],
              shape[::-1], fewer, shape[1:]]  # fmt: skip
    entry["shape"] = shapes[rng.integers(len(shapes))]
    entry["data_offsets"][1] = entry["data_offsets"][0] + width * int(np.prod(entry["shape"]))


def read_safetensors(path: Path) -> tuple[dict[str, Any], bytearray]:
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), bytearray(raw[8 + length :])


def write_safetensors(path: Path, header: dict[str, Any], data: bytes) -> None:
    """With a checksum that fits: of the whole file, with zeros in its place."""
    header["__metadata__"] = {**header["__metadata__"], "crc32": "00000000"}
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % 64)
    raw = struct.pack("<Q", len(text)) + text + data
    crc = f'"crc32": "{zlib.crc32(raw):08x}"'.encode()
    path.write_bytes(raw.replace(b'"crc32": "00000000"', crc, 1))


def _npy(kind: str, shape: str, data: bytes = b"") -> Callable[[Path], object]:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}"
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    raw = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data
    return lambda path: path.write_bytes(raw)


def _zip_bomb(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("X.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (400_000, 1000)}
        )
        for _ in range(400):
            file.write(bytes(4_000_000))


def _picture_bomb(path: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    body = zlib.compress(bytes(30_001 * 300), 9)
    head = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


CRAFTED: dict[str, Callable[[Path], object]] = {
    "wide.npy": _npy("<U100000000", "1,"),
    "long.npy": _npy("<f4", "100000000000, 9"),
    "negative.npy": _npy("<f4", "-1, 9", bytes(360)),
    "overflow.npy": _npy("<f4", "4294967296, 4294967296"),
    "pickle.npy": _npy("|O", "2, 2", b"cos\nsystem\n."),
    "deep.npy": _npy("<f4", "[" * 20_000),
    "bomb.npz": _zip_bomb,
    "bomb.png": _picture_bomb,
    "deep.safetensors": lambda p: p.write_bytes(struct.pack("<Q", 90_000) + b"[" * 90_000),
    "long.safetensors": lambda p: p.write_bytes(struct.pack("<Q", 2**63) + b"{}" * 99),
    "wide.csv": lambda p: p.write_text("a," * 200_000 + "b\n" + "1," * 200_000 + "2\n"),
    "long.csv": lambda p: p.write_text("a,label\n" + "9" * 5_000_000 + ",x\n"),
}  # fmt: skip
