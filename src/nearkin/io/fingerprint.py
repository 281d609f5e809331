"""Fingerprints: what a result was made from, stored beside it and compared before it is used."""

import hashlib
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

_CHUNK = 64 << 20
_HASHED = "sha256:"


class Digest:
    """The contents of arrays as an input; they are hashed when first needed, and once.

    All of them are read, at a gigabyte a second: a sample would not notice a few changed rows.
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays

    @cached_property
    def _text(self) -> str:
        digest = hashlib.sha256()
        for array in map(np.asarray, self.arrays):
            digest.update(repr((array.dtype.str, array.shape)).encode())
            flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            for lo in range(0, len(flat), _CHUNK):
                digest.update(flat[lo : lo + _CHUNK].data)
        return _HASHED + digest.hexdigest()[:32]

    def __str__(self) -> str:
        return self._text


class FileDigest(Digest):
    """Names and contents of files as an input, and what is read of them.

    Size and time would miss a replaced file.
    """

    def __init__(self, *paths: str | os.PathLike[str], settings: Any = None) -> None:
        self.paths, self.settings = paths, settings

    @cached_property
    def _text(self) -> str:
        digest = hashlib.sha256(repr(self.settings).encode())
        for path in self.paths:
            digest.update(os.fsencode(path) + b"\0" + _contents(path))
        return _HASHED + digest.hexdigest()[:32]


def _contents(path: str | os.PathLike[str]) -> bytes:
    """A hash of a file, or of nothing where there is no file that can be read."""
    try:
        if not os.path.isfile(path):  # a pipe would wait for a writer
            return b""
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""


class TextDigest(Digest):
    """A long text as an input."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _text(self) -> str:
        return _HASHED + hashlib.sha256(self.text.encode()).hexdigest()[:32]


class Fingerprint(dict[str, str]):
    """Named inputs as text, to be stored and compared.

    Examples
    --------
    >>> stored = Fingerprint.of({"k": 5, "X": Digest(np.zeros(3))})
    >>> stored.differences({"k": 7, "X": Digest(np.ones(3))})
    'X differs; k is 5 there and 7 here'
    """

    @classmethod
    def of(cls, inputs: Mapping[str, Any]) -> "Fingerprint":
        """The fingerprint of inputs, or of what already is one."""
        if isinstance(inputs, cls):
            return inputs
        return cls(
            (name, str(item) if isinstance(item, Digest) else repr(item))
            for name, item in inputs.items()
        )

    def differences(self, inputs: Mapping[str, Any]) -> str:
        """What differs between these inputs, "there", and those at hand; empty if nothing does."""
        now = Fingerprint.of(inputs)
        names = sorted(self.keys() | now.keys())
        return "; ".join(
            _difference(name, self.get(name), now.get(name))
            for name in names
            if self.get(name) != now.get(name)
        )


def _difference(name: str, there: str | None, here: str | None) -> str:
    if there is None or here is None or here.startswith(_HASHED):
        return f"{name} differs"
    return f"{name} is {there} there and {here} here"
