"""The setup of a run: paths, sizes, and the cache that items share.

Expensive results go through `Setup.cached` and `Setup.array`, so that an interrupted run resumes
and items share features, rows and matrices.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearkin
from nearkin.io.atomic import atomic_write


class DataMissing(Exception):
    """An item's data is not there; the message says where to put it."""


@dataclass(frozen=True)
class Setup:
    """Paths and sizes of a run, and its cache."""

    data: Path
    out: Path
    quick: bool = False
    splits: int = 1
    again: bool = False
    jobs: int = 2
    log: Callable[[str], None] = print

    @property
    def cache(self) -> Path:
        """The folder for features, rows and matrices of runs of this size."""
        path = self.out / "cache" / ("quick" if self.quick else "full")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def cached(self, name: str, settings: Any, make: Callable[[], Any]) -> Any:
        """The JSON value `name`; computed unless the cache has it for these settings."""
        file = self.cache / f"{name}.json"
        note = json.loads(json.dumps([nearkin.__version__, settings]))
        if file.exists() and not self.again:
            found = json.loads(file.read_text())
            if found["made_with"] == note:
                return found["value"]
        value = make()
        with atomic_write(file) as part:
            part.write_text(json.dumps({"made_with": note, "value": value}))
        return json.loads(json.dumps(value))

    def array(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array `name` as a memory map; computed unless the cache has it."""
        file = self.cache / f"{name}.npy"
        if not file.exists():
            array = make()
            with atomic_write(file) as part:
                np.save(part, array)
        return np.load(file, mmap_mode="r")
