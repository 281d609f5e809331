"""Any index that faiss can name: inverted files, graphs, hashing."""

from pathlib import Path
from typing import Self

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin._indexes import Array, blocks


class Factory:
    """The index of a factory string."""

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
