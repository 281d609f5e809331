"""A progress bar for people; nothing when nobody is looking."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(
    items: Iterable[T], description: str, total: int | None = None, show: bool = True
) -> Iterator[T]:
    """Yield `items`, with a bar on standard error when it is a terminal and `show` is true."""
    if not (show and sys.stderr.isatty()):
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    yield from rich_track(
        items, description=description, total=total, console=Console(stderr=True), transient=True
    )
