"""What something that is kept was made from: written beside it, compared before it is used."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

_CHUNK = 64 << 20


class Digest:
    """Stands for the contents of arrays, which are read only when somebody asks, and once.

    All of them are read, at a gigabyte a second: with a sample, work on rows of which a few have
    changed since would be taken for work on these.
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
        return digest.hexdigest()[:32]

    def __str__(self) -> str:
        return self._text


def words(made_from: Mapping[str, Any]) -> dict[str, str]:
    """What something was made from as text, to be kept and compared."""
    return {
        name: str(item) if isinstance(item, Digest) else repr(item)
        for name, item in made_from.items()
    }


def differences(there: Mapping[str, str], here: Mapping[str, Any]) -> str:
    """What differs between the `words` that were kept and what is at hand; empty if nothing does.

    Examples
    --------
    >>> there = words({"k": 5, "X": Digest(np.zeros(3))})
    >>> differences(there, {"k": 7, "X": Digest(np.ones(3))})
    'X differs; k is 5 there and 7 here'
    """
    now = words(here)
    return "; ".join(
        f"{name} differs"
        if isinstance(here.get(name), Digest) or name not in now or name not in there
        else f"{name} is {there[name]} there and {now[name]} here"
        for name in sorted(there.keys() | now.keys())
        if there.get(name) != now.get(name)
    )
