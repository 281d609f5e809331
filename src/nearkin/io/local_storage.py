"""Storage in a folder of the local file system."""

import errno
import os
import stat
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from nearkin.io.atomic import atomic_write, is_temporary

TEMPORARIES = ".nearkin-tmp"

_LOCK = "lock"
_ATTEMPTS = 100
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_HELD_ELSEWHERE = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK)


class LocalStorage:
    """A folder of a local or a shared file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.temporaries = path / TEMPORARIES

    def create(self) -> None:
        """Make the folder and its sub-folder for temporaries."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"folder={str(self.path)!r} is not a folder; give another path")
        if not stat.S_ISDIR(self._made_folders()):  # a link would lead elsewhere
            raise FileExistsError(
                f"{self.temporaries} is not a folder, but nearkin needs one there"
            )

    def _made_folders(self) -> int:
        """Make both folders; the mode of the inner one."""
        for attempt in range(_ATTEMPTS):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.mkdir(self.temporaries)
                return os.lstat(self.temporaries).st_mode
            except FileNotFoundError:  # its last owner is removing them
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def exists(self, name: str) -> bool:
        """Whether there is anything under this name, a file or not."""
        return os.path.lexists(self.path / name)

    def names(self) -> list[str]:
        """What lies in the folder; nothing where there is no folder."""
        if not self.path.is_dir():
            return []
        return sorted(name for name in os.listdir(self.path) if name != TEMPORARIES)

    def read(self, name: str, limit: int = -1) -> bytes | None:
        """The first `limit` bytes of a file; None where there is no regular file."""
        try:
            if not stat.S_ISREG(os.lstat(self.path / name).st_mode):
                return None
            with open(os.open(self.path / name, os.O_RDONLY | _NO_FOLLOW), "rb") as file:
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, name: str) -> AbstractContextManager[Path]:
        """A temporary path; it is renamed to `name` if the block succeeds."""
        return atomic_write(self.path / name, self.temporaries)

    def local(self, name: str) -> Path:
        """The file itself."""
        return self.path / name

    def move(self, name: str, new: str) -> None:
        """Rename a file."""
        os.rename(self.path / name, self.path / new)

    def remove(self, name: str) -> None:
        """Remove a file."""
        with suppress(FileNotFoundError):
            os.unlink(self.path / name)

    def scratch(self) -> Path:
        """The folder of temporaries, which is never shown."""
        return self.temporaries

    def lock(self) -> Callable[[], None] | None:
        """Lock a file. The system releases the lock when the process ends, however it ends."""
        while True:
            path = self.temporaries / _LOCK
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666)
            except FileNotFoundError:  # its last owner has removed the folder since
                self.create()
                continue
            try:
                if not _lock(descriptor, path):
                    os.close(descriptor)
                    return None
                if _same_file(descriptor, path):
                    return lambda: os.close(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its last owner has removed it since
            self.create()

    def clear_temporaries(self) -> None:
        """Remove temporaries, by the pattern of their names; nothing else in that folder."""
        for entry in os.scandir(self.temporaries):
            if is_temporary(entry.name):
                os.unlink(entry.path)

    def destroy(self) -> None:
        """Remove the lock, the folder of temporaries and, if it is empty then, the folder."""
        self.clear_temporaries()
        with suppress(OSError):  # Windows cannot remove an open file
            os.unlink(self.temporaries / _LOCK)
        _remove_if_empty(self.temporaries)
        _remove_if_empty(self.path)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or gone
        os.rmdir(folder)


def _same_file(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False


def _lock(descriptor: int, path: Path) -> bool:
    """Whether the lock was taken; a system without locks is warned of."""
    try:
        _system_lock()(descriptor)
    except OSError as error:
        if error.errno in _HELD_ELSEWHERE:
            return False
        warnings.warn(
            f"{path.parent.parent} lies on a file system without locks ({error.strerror}); make "
            "sure that one process at a time works in it",
            stacklevel=2,
        )
    return True


def _system_lock() -> Callable[[int], Any]:
    """A function that locks an open file without waiting."""
    with suppress(ImportError):
        import fcntl

        return lambda file: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with suppress(ImportError):
        import msvcrt  # Windows

        return lambda file: msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    return _no_lock


def _no_lock(_: int) -> None:
    raise OSError(errno.ENOSYS, "no locks in this Python")
