"""Files that are whole or not there: write aside, then rename."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
    # The suffix stays, because numpy appends one of its own to names that lack it.
    aside = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield aside
        with open(aside, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(aside, target)
    finally:
        with suppress(FileNotFoundError):
            aside.unlink()
