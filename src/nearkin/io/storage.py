"""What a run folder needs of the place that it lies in: a few operations on named files."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Storage(Protocol):
    """Named files in one place, all on one level.

    An object store can offer this without renames, maps or locks: `write` uploads what was
    written to a local file, `local` downloads, and `lock` is an entry with a lease.
    """

    def create(self) -> None:
        """Make the place itself."""
        ...

    def exists(self, name: str) -> bool:
        """Whether there is anything under this name, a file or not."""
        ...

    def names(self) -> list[str]:
        """What lies there, that of others included, temporaries excluded."""
        ...

    def read(self, name: str, limit: int = -1) -> bytes | None:
        """The first `limit` bytes of a file; None where there is no regular file."""
        ...

    def write(self, name: str) -> AbstractContextManager[Path]:
        """A local path to write to; what is there when the block succeeds appears at once."""
        ...

    def local(self, name: str) -> Path:
        """A local file with the contents of `name`, to read or to map."""
        ...

    def move(self, name: str, new: str) -> None:
        """Give a file another name, which must be free."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...

    def scratch(self) -> Path:
        """A local folder for work in progress that is not ours to structure."""
        ...

    def lock(self) -> Callable[[], None] | None:
        """Take the exclusive lock; return what releases it, or None if another process has it."""
        ...

    def clear_temporaries(self) -> None:
        """Remove what killed writers left. The caller holds the lock."""
        ...

    def destroy(self) -> None:
        """Remove the place itself, if nothing of others is left in it. The caller has the lock."""
        ...
