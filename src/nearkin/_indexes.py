"""What searches the rows: brute force, or whatever faiss can name (`_cells` is a third).

A back end answers ``search(queries, k)`` with the row numbers it believes nearest, at least k for
each query, ``-1`` where it found fewer. `save` and `load` let workers share one index.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin._pca import mean

Array = NDArray[np.float32]

# Up to here the blocked matrix products of the exact search were about as fast as building and
# searching an inverted file of recall .95; not measured anew for cells.
EXACT_ROWS = 100_000
DATABASE_BYTES = 256 << 20


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


class Exact:
    """Brute force in blocks of the database, so that a memory map is read in order."""

    order: NDArray[np.int64] | None = None

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.step = max(1, DATABASE_BYTES // (4 * rows.shape[1]))
        # faiss expands |x-z|² into products; far from the origin they would drown the difference.
        self.centre = mean(rows)

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Rows nearest to each query."""
        return self.nearest(queries, k)[1]

    def nearest(self, queries: Array, k: int) -> tuple[Array, NDArray[np.int64]]:
        """Squared distances and rows, nearest first."""
        queries = queries - self.centre
        best_d = np.full((len(queries), k), np.inf, np.float32)
        best_i = np.full((len(queries), k), -1, np.int64)
        for lo, hi in blocks(len(self.rows), self.step):
            block = self.rows[lo:hi] - self.centre
            d, i = faiss.knn(queries, block, min(k, hi - lo))
            d = np.concatenate([best_d, d], axis=1)
            i = np.concatenate([best_i, i + lo], axis=1)
            order = np.argsort(d, axis=1, kind="stable")[:, :k]
            best_d = np.take_along_axis(d, order, axis=1)
            best_i = np.take_along_axis(i, order, axis=1)
        return best_d, best_i

    def prepare(self, k: int) -> None:
        """Nothing to do."""

    def save(self, path: Path) -> None:
        """Nothing but the rows is needed."""
        path.touch()

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """An index of the same rows."""
        return cls(rows)


class Factory:
    """Any index that faiss can name."""

    TRAIN_ROWS = 200_000
    order: NDArray[np.int64] | None = None

    def __init__(self, rows: Array, description: str) -> None:
        factory, _, settings = description.partition(";")
        try:
            self.index = faiss.index_factory(rows.shape[1], factory)
        except RuntimeError as error:
            raise ValueError(
                f"index={description!r} is not understood by faiss ({_reason(error)}); use 'auto', "
                "'exact', 'cells' or a faiss index-factory string such as 'IVF1024,Flat' or "
                "'HNSW32'"
            ) from None
        step = max(1, len(rows) // self.TRAIN_ROWS)
        try:
            self.index.train(np.ascontiguousarray(rows[::step], np.float32))
        except RuntimeError as error:
            raise ValueError(
                f"index={description!r} cannot be trained on {len(rows)} rows "
                f"({_reason(error)}); use fewer cells or index='exact'"
            ) from None
        for lo, hi in blocks(len(rows), 65_536):
            self.index.add(np.ascontiguousarray(rows[lo:hi], np.float32))
        self._configure(settings)

    def _configure(self, settings: str) -> None:
        space = faiss.ParameterSpace()
        plain = faiss.downcast_index(self.index)
        if isinstance(plain, faiss.IndexIVF):  # faiss looks into a single cell by default
            space.set_index_parameter(self.index, "nprobe", max(1, int(2 * plain.nlist**0.5)))
        if settings:
            space.set_index_parameters(self.index, settings)  # type: ignore[arg-type]

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Rows nearest to each query, by the index's own lights."""
        return self.index.search(queries, k)[1]

    def prepare(self, k: int) -> None:
        """Let an HNSW index look at enough rows to find `k`."""
        plain = faiss.downcast_index(self.index)
        if isinstance(plain, faiss.IndexHNSW):
            plain.hnsw.efSearch = max(plain.hnsw.efSearch, 2 * k)

    def save(self, path: Path) -> None:
        """Write the index in faiss's format, search parameters included."""
        faiss.write_index(self.index, str(path))

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """The index that `save` wrote."""
        index = cls.__new__(cls)
        index.index = faiss.read_index(str(path))
        return index


def _reason(error: Exception) -> str:
    text = str(error).rsplit("Error: ", 1)[-1].strip().splitlines()[0]
    return text.rsplit(": ", 1)[-1] if text.startswith("Error in ") else text
