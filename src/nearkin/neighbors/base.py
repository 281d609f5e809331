"""The contract of a search back end."""

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Metric = Literal["euclidean", "dot"]


class Index(Protocol):
    """Rows made ready to be searched. Subclass it, or offer the same methods.

    Attributes
    ----------
    order : (n,) int64 array or None
        The order in which to query all rows, if one is faster than their own.
    metric : str
        What is near: a small Euclidean distance, or a large dot product.
    metrics : tuple of str
        Those that the back end offers, as ``metric=`` of its constructor unless Euclidean.
    """

    order: NDArray[np.int64] | None = None
    metric: Metric = "euclidean"
    metrics: ClassVar[tuple[str, ...]] = ("euclidean",)

    @abstractmethod
    def __init__(self, rows: Array, description: str) -> None:
        """Build the index of `rows`, from the whole description, settings included."""

    @abstractmethod
    def search(self, queries: Array, k: int) -> NDArray[np.integer]:
        """Return the row numbers of `k` or more candidates per query, -1 in empty places."""
        ...

    @abstractmethod
    def save(self, path: Path) -> None:
        """Write to the file `path` what `load` needs besides the rows."""

    @classmethod
    @abstractmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """Return the index that `save` wrote, over the same rows; workers share one this way."""
        ...

    def prepare(self, k: int) -> None:
        """Get ready for searches of `k` rows: called before `search` and `save`."""
        return

    @classmethod
    def check(cls, description: str) -> None:
        """Raise ValueError for wrong settings: called before anything is built or written."""
        return


def blocks(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of `size` that cover ``0:n``."""
    for lo in range(0, n, size):
        yield lo, min(lo + size, n)
