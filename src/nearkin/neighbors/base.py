"""What every back end of the search offers: `_exact`, `_cells`, `_faiss`.

A back end answers ``search(queries, k)`` with the row numbers it believes nearest, at least k for
each query, ``-1`` where it found fewer. `save` and `load` let workers share one index.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Index(Protocol):
    """What every back end offers."""

    @property
    def order(self) -> NDArray[np.int64] | None:
        """The order in which the rows are best asked; None is their own."""
        ...

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Rows nearest to each query."""
        ...

    def prepare(self, k: int) -> None:
        """Get ready for searches of `k` rows."""
        ...

    def save(self, path: Path) -> None:
        """Write what `load` needs beside the rows."""
        ...

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """The index that `save` wrote."""
        ...


def blocks(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of `size` that cover ``0:n``."""
    for lo in range(0, n, size):
        yield lo, min(lo + size, n)
