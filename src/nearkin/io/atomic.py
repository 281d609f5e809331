"""Files that are whole or not there: write aside, then rename."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Numpy reports a short write without a number.
_NO_ROOM = (None, errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can be written to, before any work is done for it."""
    target = Path(path)
    if target.exists() and not target.is_file():  # a rename would replace a folder or a device
        raise FileExistsError(f"{target} exists and is not a regular file; give another name")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"{target}: there is no folder {target.parent}; make it first")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to; rename it to `path` if the block succeeds, remove it if not.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as aside:
    ...     _ = aside.write_text("whole")
    >>> target.read_text(), [p.name for p in target.parent.iterdir()]
    ('whole', ['a.txt'])
    """
    target = Path(path)
    check_place(target)
    _sweep(target)
    # The suffix stays, because numpy appends one of its own to names that lack it.
    aside = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield aside
        with open(aside, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(aside, target)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise OSError(
                f"{target} could not be written ({error}): the disk is full; make room for it"
            ) from error
        raise
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()


def discard(folder: Path) -> None:
    """Remove a folder that may be missing; nobody ever sees a part of it."""
    _sweep(folder)
    aside = folder.with_name(f".{folder.stem}.{os.getpid()}.part{folder.suffix}")
    try:
        with suppress(FileNotFoundError):
            os.rename(folder, aside)
            shutil.rmtree(aside, ignore_errors=True)
    finally:  # Ctrl-C may have come in between
        shutil.rmtree(aside, ignore_errors=True)


def is_aside(path: Path) -> bool:
    """Whether a file is something that `replacing` was writing, or left when it was killed."""
    return re.fullmatch(r"\..*\.\d+\.part(\..*)?", path.name) is not None


def _sweep(target: Path) -> None:
    """Remove what processes that were killed while they wrote `target` have left."""
    name = re.compile(rf"\.{re.escape(target.stem)}\.(\d{{1,9}})\.part{re.escape(target.suffix)}")
    with suppress(FileNotFoundError), os.scandir(target.parent) as entries:
        for entry in entries:
            found = name.fullmatch(entry.name)
            if found and not _alive(int(found[1])):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                with suppress(OSError):
                    os.unlink(entry.path)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True
