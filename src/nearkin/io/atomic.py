"""Atomic writes: a file appears complete under its name, or not at all."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Numpy reports a short write as a plain OSError without a number.
_DISK_FULL = (None, errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
# A name that exists is never opened, and a symbolic link is never followed.
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)


def check_target(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can be written to, before any work is done for it."""
    target = Path(path)
    with suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(target)  # fails with a name that is too long
        if not target.is_file():  # a rename would replace a folder, or a link that leads nowhere
            raise FileExistsError(f"{target} exists and is not a regular file; give another name")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {target.parent}; make it first")


def new_temporary(folder: Path, suffix: str = "") -> Path:
    """Create an empty file with a random name.

    The suffix of the target is kept because numpy appends its own to names that lack it.
    """
    path = folder / f".nearkin-{secrets.token_hex(16)}.tmp{suffix}"
    os.close(os.open(path, _NEW, 0o666))
    return path


def is_temporary(name: str) -> bool:
    """Whether `new_temporary` could have made this file name."""
    return re.fullmatch(r"\.nearkin-[0-9a-f]{32}\.tmp(\..*)?", name) is not None


@contextmanager
def atomic_write(path: str | os.PathLike[str], temporaries: Path | None = None) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to `path` if the block succeeds.

    Any number of threads and processes may write to one path: the last rename wins. A process
    that is killed leaves its temporary behind. Beside a lone file nothing records whose that was,
    so it stays; a run folder keeps `temporaries` in a folder of its own and empties that.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_write(target) as temporary:
    ...     _ = temporary.write_text("complete")
    >>> target.read_text(), [p.name for p in target.parent.iterdir()]
    ('complete', ['a.txt'])
    """
    target = Path(path)
    check_target(target)
    temporary = None
    try:
        temporary = new_temporary(temporaries or target.parent, target.suffix)
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
        if os.name == "posix":  # the rename itself must survive a power cut
            _flush(target.parent, os.O_RDONLY)
    except OSError as error:
        if error.errno in _DISK_FULL and (error.errno or type(error) is OSError):
            raise OSError(
                f"{target} could not be written ({error}): the disk is full; free some space"
            ) from error
        if temporary is None:  # whose name says nothing to anybody
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def _flush(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
