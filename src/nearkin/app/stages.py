"""A folder of stages: each output is one file, and a record says what it was made from.

A stage is done again only if that has changed: its own settings, or the outputs it is made of.
``stages.json`` is the record. An entry is taken out before its output is touched and put back when
the output is whole, so that whatever kills the process, no entry ever describes another file.
"""

import fcntl
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearkin.io.atomic import atomic_write

RECORD = "stages.json"
SOURCE = "source"  # its entry in the record


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system lets go of however the process ends."""
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(
                f"another process is at work in {folder}; wait for it or give another folder"
            ) from None
        for left in folder.glob(".*.part*"):  # of a process that was killed while it wrote
            left.unlink(missing_ok=True)
        yield


class Stages:
    """Outputs of a run folder.

    Attributes
    ----------
    kept, made : list of str
        Outputs that were there, and outputs made now.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> def work(parts):
    ...     stages = Stages(folder)
    ...     stages.get("sum.txt", lambda path: path.write_text(str(sum(parts))), parts)
    ...     stages.get("note.txt", lambda path: path.write_text("done"), after=["sum.txt"])
    ...     return stages.made
    >>> work([1, 2]), work([1, 2]), work([1, 3])
    (['sum.txt', 'note.txt'], [], ['sum.txt', 'note.txt'])
    """

    def __init__(self, folder: Path, say: Callable[[str], object] = lambda _: None) -> None:
        self.folder, self.say = folder, say
        self.kept: list[str] = []
        self.made: list[str] = []
        self._digests: dict[str, str] = {}

    def source(self, name: str, *files: Path | None) -> None:
        """Give a name to files from elsewhere, so that stages can be made from them."""
        found = [(str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns) for f in files if f]
        self._digests[name] = _digest(found)

    def belong_to(self, source: Path) -> None:
        """Note what all is made from; refuse a folder that holds something made from another."""
        record, path = self._record(), str(source.resolve())
        known = record.pop(SOURCE, {}).get("path")
        if known == path:
            return
        # Folders of earlier versions do not say, and where nothing was made nothing is lost.
        if known is not None and record:
            raise FileExistsError(
                f"--out {self.folder} belongs to a run on {known}; give another --out, or remove "
                "the folder"
            )
        self._note(SOURCE, {"path": path})

    def get(
        self,
        name: str,
        make: Callable[[Path], object],
        settings: Any = None,
        after: Sequence[str] = (),
        resumable: Sequence[str] | None = None,
    ) -> Path:
        """The output `name`, made now unless it is there and made from the same.

        Parameters
        ----------
        make : callable
            Writes the output to the path that it is given.
        settings
            What the output depends on, beside the outputs and sources named in `after`.
        resumable : names, optional
            Files and folders, beside the output, with which `make` goes on where it was
            interrupted. They are removed if they belong to other settings.
        """
        path = self.folder / name
        digest = _digest(name, settings, [self._digests[other] for other in after])
        self._digests[name] = digest
        entry = self._record().get(name, {})
        if entry.get("made_from") == digest and _size(path) == entry.get("bytes"):
            self.kept.append(name)
            return path
        self.say(name)
        began = time.time()
        if resumable is None:
            self._note(name, None)
            with atomic_write(path) as part:
                make(part)
        else:
            if entry.get("begun") != digest:
                self._note(name, None)
                for left in [name, *resumable]:
                    _remove(self.folder / left)
                self._note(name, {"begun": digest})
            make(path)
        self._note(name, {"made_from": digest, "bytes": _size(path), "settings": settings,
                          "seconds": round(time.time() - began, 2)})  # fmt: skip
        self.made.append(name)
        return path

    def _record(self) -> dict[str, dict[str, Any]]:
        try:
            record = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # none, or spoiled from outside: all is done again
            return {}
        entries = record.items() if isinstance(record, dict) else ()
        return {name: entry for name, entry in entries if isinstance(entry, dict)}

    def _note(self, name: str, entry: dict[str, Any] | None) -> None:
        record = self._record()
        record.pop(name, None)
        if entry is not None:
            record[name] = entry
        with atomic_write(self.folder / RECORD) as part:
            part.write_text(json.dumps(record, indent=1), encoding="utf-8")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else -1


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _digest(*parts: Any) -> str:
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()
