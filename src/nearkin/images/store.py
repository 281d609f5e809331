"""Where rows of features go: an array, or a file that says which of its rows are done.

Beside ``features.npy`` lies ``features.npy.journal``, one JSON object a line: first the settings,
then a line for each finished range of rows. Until every row has been tried the features are in
``features.npy.part``. Rows reach the disk before the line that says so.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearkin.io.atomic import atomic_write
from nearkin.io.rows import create_rows

Settings: TypeAlias = dict[str, Any]
Failures: TypeAlias = dict[int, str]  # row → reason
Shape: TypeAlias = tuple[int, int]


class FeatureArray:
    """Rows in memory, behind the same methods as `FeatureFile`."""

    path = None

    def __init__(self, shape: Shape, dtype: DTypeLike) -> None:
        _check_room(shape, dtype, _memory(), "memory: pass out='features.npy'")
        self.rows = np.zeros(shape, dtype=dtype)
        self.done = np.zeros(shape[0], dtype=bool)

    def record(self, start: int, stop: int, failed: Failures, values: NDArray[Any] | None) -> None:
        """Keep these rows."""
        self.rows[start:stop] = values

    def finish(self) -> NDArray[Any]:
        """Return all rows."""
        return self.rows


class FeatureFile:
    """Rows on disk, written in any order, resumed after any interruption.

    Parameters
    ----------
    out : path
        Where the finished file will be; its name ends in ``.npy``.
    shape : (int, int)
        Rows and dimensions.
    dtype : dtype
        Type of the features.
    settings : dict
        Everything the features depend on, as JSON: only a file of the same settings is resumed.

    Attributes
    ----------
    done : array of bool
        Which rows are done.

    Examples
    --------
    >>> import tempfile
    >>> from nearkin.io.rows import write_rows
    >>> out = Path(tempfile.mkdtemp()) / "features.npy"
    >>> file = FeatureFile(out, (3, 2), "float32", {"words": 8})
    >>> write_rows(file.path, 0, np.ones((2, 2), dtype=np.float32))
    >>> file.record(0, 2, failed={})
    >>> FeatureFile(out, (3, 2), "float32", {"words": 8}).done.tolist()  # in another process
    [True, True, False]
    """

    def __init__(
        self, out: str | os.PathLike[str], shape: Shape, dtype: DTypeLike, settings: Settings
    ) -> None:
        self.out = Path(out)
        if self.out.suffix != ".npy":
            raise ValueError(f"out={str(out)!r}: expected a name that ends in .npy")
        if not self.out.absolute().parent.is_dir():
            raise FileNotFoundError(f"out={str(out)!r}: there is no folder {self.out.parent}")
        self.part = self.out.with_name(self.out.name + ".part")
        self.journal = self.out.with_name(self.out.name + ".journal")
        self.done = np.zeros(shape[0], dtype=bool)
        settings = {**settings, "shape": shape, "dtype": np.dtype(dtype).name}
        if self.path.exists():
            self._resume(json.loads(json.dumps(settings)))
        else:
            self._start(shape, dtype, settings)

    @property
    def path(self) -> Path:
        """Where the rows are now: the part file or, once renamed, the finished one."""
        return self.out if self.out.exists() and not self.part.exists() else self.part

    def _start(self, shape: Shape, dtype: DTypeLike, settings: Settings) -> None:
        free = shutil.disk_usage(self.out.absolute().parent).free
        _check_room(
            shape, dtype, free, f"free space for out={str(self.out)!r}: choose another disk"
        )
        with atomic_write(self.journal) as aside:
            aside.write_text(json.dumps({"settings": settings}) + "\n")
        with atomic_write(self.part) as aside:
            create_rows(aside, shape, dtype)

    def _resume(self, settings: Settings) -> None:
        lines = _json_lines(self.journal)
        if not lines:
            raise FileExistsError(
                f"{self.path} is there without its journal ({self.journal.name}), so it is not "
                "known how it was made: move or delete it, or choose another out"
            )
        then = lines[0]["settings"]
        changed = [key for key in {**then, **settings} if then.get(key) != settings.get(key)]
        if changed:
            raise FileExistsError(
                f"{self.path} was made with other settings "
                f"({'; '.join(_change(key, then, settings) for key in changed)}): delete it to "
                "start anew, or choose another out"
            )
        for line in lines[1:]:
            start, stop = line["rows"]
            self._mark(start, stop, [int(row) for row in line["failed"]])

    def _mark(self, start: int, stop: int, failed: list[int]) -> None:
        self.done[start:stop] = True
        self.done[failed] = False

    def record(
        self, start: int, stop: int, failed: Failures, values: NDArray[Any] | None = None
    ) -> None:
        """Note that these rows are on disk, but for those that failed."""
        self._mark(start, stop, list(failed))
        # Led by a line break, in case the process was killed while it wrote the line before.
        line = "\n" + json.dumps({"rows": [start, stop], "failed": failed}) + "\n"
        with open(self.journal, "a", encoding="utf-8") as journal:
            journal.write(line)
            journal.flush()
            os.fsync(journal.fileno())

    def finish(self) -> NDArray[Any]:
        """Give the file its final name; return its rows as a read-only memory map."""
        if self.part.exists():
            os.replace(self.part, self.out)
        return np.load(self.out, mmap_mode="r")


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; one cut short by a crash counts as not written."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def _change(key: str, then: Settings, now: Settings) -> str:
    old, new = str(then.get(key)), str(now.get(key))
    digests = len(old) == len(new) == 64
    return f"other {key}" if digests else f"{key}: {old} then, {new} now"


def _check_room(shape: Shape, dtype: DTypeLike, room: int, what: str) -> None:
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if size > room:
        raise MemoryError(
            f"{shape[0]:,} × {shape[1]:,} features need {size / 2**30:.1f} GiB, and there are "
            f"{room / 2**30:.1f} GiB of {what}, or dtype='float16'"
        )


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return 2**63
