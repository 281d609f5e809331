"""Who owns a run folder, and what in it is ours: lock, marker, identity of parts and files."""

import hashlib
import json
import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nearkin.io import marker
from nearkin.io.fingerprint import Fingerprint
from nearkin.io.marker import Marker
from nearkin.io.storage import Storage

_SCRATCH = "scratch-"
_IDENTITY_BYTES = 4096  # the identity of a part is at the beginning of its metadata


class Root:
    """Ownership of a folder: lock and marker, shared by all its sections.

    A worker's has the marker of its owner and takes no lock.
    """

    def __init__(self, storage: Storage, path: Path, of_owner: Marker | None = None) -> None:
        self.storage, self.path = storage, path
        self.marker, self.is_worker = of_owner, of_owner is not None
        self.thread: int | None = None

    @contextmanager
    def owned(self, create: bool = True) -> Iterator[bool]:
        """Hold the lock; give whether the folder is ours now. Nested calls share the lock."""
        if self.is_worker or self.thread == threading.get_ident():
            yield True
            return
        if not create and not self.storage.exists(marker.NAME):
            yield False
            return
        self._claimable()  # before anything is made in it
        self.storage.create()
        release = self.storage.lock() if self.thread is None else None
        if release is None:
            raise RuntimeError(
                f"folder={str(self.path)!r} is in use by another process or thread; wait until it "
                "has ended, or give another folder"
            )
        self.thread = threading.get_ident()
        try:
            self._open()
            yield True
        finally:
            self.thread = self.marker = None
            release()

    def _claimable(self) -> bool:
        """Whether there is a marker; a folder with files of others alone is refused."""
        if self.storage.exists(marker.NAME):
            return True
        others = self.storage.names()
        # Asked again: another process may have claimed it while the names were read.
        if others and not self.storage.exists(marker.NAME):
            raise ValueError(
                f"folder={str(self.path)!r} holds files that are not nearkin's "
                f"({', '.join(others[:3])}); give a new or an empty folder"
            )
        return bool(others)

    def _open(self) -> None:
        """Read the marker, or write the first. The lock is held."""
        self.storage.clear_temporaries()
        if self._claimable():
            self.marker = Marker.decode(self.storage.read(marker.NAME) or b"", self.path)
        else:
            self.marker = Marker()
            self.save()

    def claimed(self) -> Marker:
        """The marker; only whoever has claimed the folder has one."""
        if self.marker is None:
            raise RuntimeError(f"{self.path} is used outside of 'with folder.claim(...)'")
        return self.marker

    def save(self) -> None:
        """Write the marker."""
        with self.storage.write(marker.NAME) as temporary:
            temporary.write_bytes(self.claimed().encode())

    def note_purpose(self, prefix: str, purpose: str) -> None:
        """Record what a section is used for; refuse another use."""
        if self.is_worker:
            return
        known = self.claimed().purposes.get(prefix)
        if known is None:
            self.claimed().purposes[prefix] = purpose
            self.save()
        elif known != purpose:
            raise ValueError(
                f"folder={str(self.path)!r} belongs to {known} and cannot serve {purpose}; give "
                "another folder"
            )

    def scratch(self, name: str, inputs: Fingerprint) -> Path:
        """A folder for unfinished work from these inputs; that from others is removed."""
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]
        path = self.storage.scratch() / f"{_SCRATCH}{name}-{digest}"
        self.clear_scratch(f"{name}-", keep=path)
        if path.is_symlink():  # its name can be foreseen, and it would lead elsewhere
            raise FileExistsError(f"{path} is a link, but nearkin needs a folder there; remove it")
        path.mkdir(exist_ok=True)
        return path

    def identity(self, file: str) -> str:
        """What the part in this file, and no other, carries."""
        return f"{self.claimed().id}/{file}"

    def is_ours(self, file: str) -> bool:
        """Whether a part was written for this folder; damage does not hide that."""
        start = self.storage.read(file, _IDENTITY_BYTES)
        return start is not None and self.claimed().id.encode() in start

    def check_ours(self, file: str) -> None:
        """Refuse to use or replace a file of others."""
        if not self.is_ours(file):
            raise self._others(file)

    def _others(self, file: str) -> FileExistsError:
        return FileExistsError(
            f"{self.path / file} is needed by nearkin, which did not write it (or it is damaged "
            "beyond recognition); move it elsewhere, or give another folder"
        )

    def current_version(self, file: str) -> dict[str, Any] | None:
        """The record of a file as it is now; None if there is none or it must be made again."""
        if not self.storage.exists(file):
            return None
        versions = self.claimed().files.get(file, [])
        if self.storage.read(file, 0) is None:
            raise self._others(file)
        checksum = _checksum(self.storage.local(file))
        for version in reversed(versions):
            if version["sha256"] == checksum:
                return version
        if not any(version["confirmed"] for version in versions):
            raise self._others(file)
        self._set_aside(file)
        return None

    def _set_aside(self, file: str) -> None:
        """Rename a file that was damaged, or edited by somebody who may want to keep it."""
        names = (f"{file}.changed{n or ''}" for n in range(1_000_000))
        free = next(name for name in names if not self.storage.exists(name))
        self.storage.move(file, free)
        warnings.warn(
            f"{self.path / file} was changed or damaged since it was written; it is now called "
            f"{Path(free).name}, and {Path(file).name} is made again",
            stacklevel=2,
        )

    def announce(self, file: str, temporary: Path, inputs: Fingerprint) -> None:
        """Record a file before it appears; the one that it replaces stays on record."""
        version = {"sha256": _checksum(temporary), "inputs": inputs, "confirmed": False}
        self.claimed().files.setdefault(file, []).append(version)
        self.save()

    def confirm(self, file: str) -> None:
        """Record that the last version of a file is the one that is there."""
        files = self.claimed().files
        files[file] = [files[file][-1] | {"confirmed": True}]
        self.save()

    def remove_section(self, prefix: str) -> None:
        """Remove the recorded files and the scratch folders of a section."""
        if not self.is_worker:
            files = self.claimed().files
            self.remove_files([file for file in files if file.startswith(prefix)])
            self.clear_scratch(prefix)

    def forget(self, prefix: str) -> None:
        """Forget what a section was made from, and for what."""
        if self.is_worker:
            return
        record = self.claimed()
        for about in (record.inputs, record.purposes):
            known = [section for section in about if section.startswith(prefix)]
            for section in known:
                del about[section]
            if known:
                self.save()

    def clear_scratch(self, prefix: str, keep: Path | None = None) -> None:
        """Remove scratch folders whose names begin so, but for one."""
        for path in self.storage.scratch().iterdir():
            ours = path.name.startswith(_SCRATCH + prefix)
            if ours and path != keep and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)

    def remove_files(self, files: list[str]) -> None:
        """Remove recorded files, unless somebody has changed them, and then their records."""
        for file in files:
            if self.is_as_written(file):
                self.storage.remove(file)
        if files:
            record = self.claimed()
            record.files = {k: v for k, v in record.files.items() if k not in files}
            self.save()

    def is_as_written(self, file: str) -> bool:
        """Whether a recorded file is there and unchanged."""
        if self.storage.read(file, 0) is None:
            return False
        checksum = _checksum(self.storage.local(file))
        return any(version["sha256"] == checksum for version in self.claimed().files.get(file, []))

    def give_up(self) -> None:
        """Remove the marker, then the lock and the folder; in this order a kill does no harm."""
        self.storage.remove(marker.NAME)
        self.storage.destroy()


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
