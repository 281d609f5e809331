"""Any index of faiss's index factory: inverted files, graphs, hashing."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin.neighbors.base import Array, Index, blocks, choices

_SETTINGS = (
    "after the semicolon come faiss's search parameters for this index, such as "
    "'IVF1024,Flat;nprobe=64' or 'HNSW32;efSearch=200'"
)
_MIN_EF_SEARCH = 16  # faiss's default

# Zero bits or links, or a graph of one link per row: faiss would crash or not return.
_FATAL = re.compile(r"(?<![\d.])0+(?![\d.])|(HNSW|NSG)0*1(?!\d)")


class FaissIndex(Index):
    """The index of a factory string, with search parameters after a semicolon."""

    TRAIN_ROWS = 200_000

    def __init__(self, rows: Array, description: str) -> None:
        factory, _, settings = description.partition(";")
        what = f"index={description!r}"
        if _FATAL.search(factory):
            raise ValueError(f"{what} holds a number that is too small for faiss; {choices()}")
        with _explained(f"{what} is not understood by faiss", choices()):
            self.index = faiss.index_factory(rows.shape[1], factory)
        # Before training, which may take long.
        with _explained(f"{what}: {factory!r} does not take the settings {settings!r}", _SETTINGS):
            self._configure(settings)
        step = max(1, len(rows) // self.TRAIN_ROWS)
        advice = "use fewer cells or index='exact'"
        with _explained(f"{what} cannot be trained on {len(rows)} rows", advice):
            self.index.train(np.ascontiguousarray(rows[::step], np.float32))
        with _explained(f"{what} cannot hold rows under their own numbers", choices()):
            for lo, hi in blocks(len(rows), 65_536):
                self.index.add(np.ascontiguousarray(rows[lo:hi], np.float32))
        # Some settings, such as nprobe=0, are refused only now.
        with _explained(f"{what} cannot be searched", _SETTINGS):
            self.index.search(np.ascontiguousarray(rows[:1], np.float32), 1)

    def _configure(self, settings: str) -> None:
        cells = faiss.try_extract_index_ivf(self.index)
        if cells is not None:  # faiss probes a single cell by default
            cells.nprobe = max(1, int(2 * cells.nlist**0.5))
        if settings:
            faiss.ParameterSpace().set_index_parameters(self.index, settings)  # type: ignore[arg-type]
        self._ef_search_set = "efSearch" in settings

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Return the rows that the index finds nearest to each query."""
        return self.index.search(queries, k)[1]

    def prepare(self, k: int) -> None:
        """Set efSearch of an HNSW index for `k`, so that earlier searches have no effect."""
        inner = _innermost(self.index)
        if isinstance(inner, faiss.IndexHNSW) and not self._ef_search_set:
            inner.hnsw.efSearch = max(_MIN_EF_SEARCH, 2 * k)

    def save(self, path: Path) -> None:
        """Write the index in faiss's format, search parameters included."""
        faiss.write_index(self.index, str(path))

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """Return the index that `save` wrote."""
        index = cls.__new__(cls)
        index.index, index._ef_search_set = faiss.read_index(str(path)), True
        return index


def _innermost(index: faiss.Index) -> faiss.Index:
    """Return the index inside pre-transforms and refinements."""
    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return _innermost(index.index)
    return _innermost(index.base_index) if isinstance(index, faiss.IndexRefine) else index


@contextmanager
def _explained(problem: str, advice: str) -> Iterator[None]:
    """Turn an error of faiss into one that names the argument and says what to do."""
    try:
        yield
    except RuntimeError as error:
        raise ValueError(f"{problem} ({_reason(error)}); {advice}") from None


def _reason(error: Exception) -> str:
    """Return the message of faiss without locations in its source."""
    text = str(error).rsplit("Error: ", 1)[-1].strip().splitlines()[0]
    text = text.rsplit(": ", 1)[-1] if text.startswith("Error in ") else text
    return re.sub(r"^((\w+::)+\w+: *|'.*' failed: )", "", text)
