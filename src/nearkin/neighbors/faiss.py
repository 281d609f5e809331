"""Any index that faiss can name: inverted files, graphs, hashing."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin.neighbors.base import Array, blocks

_KNOWN = (
    "use 'auto', 'exact', 'cells' or a faiss index-factory string such as 'IVF1024,Flat' or "
    "'HNSW32'"
)
_SETTINGS = (
    "after the semicolon come faiss's search parameters for this index, such as "
    "'IVF1024,Flat;nprobe=64' or 'HNSW32;efSearch=200'"
)
_LOOKS = 16  # rows that faiss has an HNSW index look at, at least

# No bits, no links, or a graph of one link a row: faiss would end the process, or never come back.
_FATAL = re.compile(r"(?<![\d.])0(?![\d.])|(HNSW|NSG)1(?!\d)")


class Factory:
    """The index of a factory string."""

    TRAIN_ROWS = 200_000
    order: NDArray[np.int64] | None = None

    def __init__(self, rows: Array, description: str) -> None:
        factory, _, settings = description.partition(";")
        what = f"index={description!r}"
        if _FATAL.search(factory):
            raise ValueError(f"{what} holds a number that is too small for faiss; {_KNOWN}")
        with _explained(f"{what} is not understood by faiss", _KNOWN):
            self.index = faiss.index_factory(rows.shape[1], factory)
        # Before training, which may take long.
        with _explained(f"{what}: {factory!r} does not take the settings {settings!r}", _SETTINGS):
            self._configure(settings)
        step = max(1, len(rows) // self.TRAIN_ROWS)
        advice = "use fewer cells or index='exact'"
        with _explained(f"{what} cannot be trained on {len(rows)} rows", advice):
            self.index.train(np.ascontiguousarray(rows[::step], np.float32))
        with _explained(f"{what} cannot hold rows under their own numbers", _KNOWN):
            for lo, hi in blocks(len(rows), 65_536):
                self.index.add(np.ascontiguousarray(rows[lo:hi], np.float32))
        # Some settings, such as nprobe=0, are refused only now.
        with _explained(f"{what} cannot be searched", _SETTINGS):
            self.index.search(np.ascontiguousarray(rows[:1], np.float32), 1)

    def _configure(self, settings: str) -> None:
        cells = faiss.try_extract_index_ivf(self.index)
        if cells is not None:  # faiss looks into a single cell by default
            cells.nprobe = max(1, int(2 * cells.nlist**0.5))
        if settings:
            faiss.ParameterSpace().set_index_parameters(self.index, settings)  # type: ignore[arg-type]
        self._looks_set = "efSearch" in settings

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Rows nearest to each query, by the index's own lights."""
        return self.index.search(queries, k)[1]

    def prepare(self, k: int) -> None:
        """Let an HNSW index look at enough rows to find `k`, whatever it was asked before."""
        plain = _innermost(self.index)
        if isinstance(plain, faiss.IndexHNSW) and not self._looks_set:
            plain.hnsw.efSearch = max(_LOOKS, 2 * k)

    def save(self, path: Path) -> None:
        """Write the index in faiss's format, search parameters included."""
        faiss.write_index(self.index, str(path))

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """The index that `save` wrote."""
        index = cls.__new__(cls)
        index.index, index._looks_set = faiss.read_index(str(path)), True
        return index


def _innermost(index: faiss.Index) -> faiss.Index:
    """The index behind what transforms queries before it or ranks again after it."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return _innermost(index.index)
    return _innermost(index.base_index) if isinstance(index, faiss.IndexRefine) else index


@contextmanager
def _explained(problem: str, advice: str) -> Iterator[None]:
    """Turn an error of faiss into one that says what was asked for and what to do."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(f"{problem} ({_reason(error)}); {advice}") from None


def _reason(error: Exception) -> str:
    """What faiss says, without the places in its source."""
    text = str(error).rsplit("Error: ", 1)[-1].strip().splitlines()[0]
    text = text.rsplit(": ", 1)[-1] if text.startswith("Error in ") else text
    return re.sub(r"^((\w+::)+\w+: *|'.*' failed: )", "", text)
