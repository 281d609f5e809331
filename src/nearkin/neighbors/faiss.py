"""Indexes of faiss's index factory: inverted files, graphs, quantisation, hashing.

Some factory strings crash faiss or never return, such as ``"HNSW1"`` or ``"NSG2,Flat"``. So a
string must be of the families below, and its numbers within their limits.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import before_openmp
from nearkin.neighbors.base import Array, Index, blocks
from nearkin.neighbors.registry import choices

_SETTINGS = (
    "after the semicolon give faiss's search parameters for this index: nprobe, efSearch, "
    "quantizer_efSearch or k_factor_rf, as in 'IVF1024,Flat;nprobe=64'"
)
_MIN_EF_SEARCH = 16  # faiss's default

_TRANSFORM = r"(?:(?:PCAW?R?|RR|Pad|ITQ|OPQ\d+_)\d+|OPQ\d+|ITQ|L2norm)"
_CODE = r"(?:Flat|SQ(?:4|6|8|fp16|bf16)|PQ\d+(?:x\d+)?(?:np|fsr?)?)"
_INDEX = rf"(?:{_CODE}|LSH\d*r?t?|HNSW\d*(?:[,_]{_CODE})?|(?:IVF\d+(?:_HNSW\d*)?|IMI2x\d+),{_CODE})"
_FACTORY = re.compile(rf"(?:{_TRANSFORM},){{0,3}}{_INDEX}(?:,RFlat|,Refine\({_CODE}\))?", re.ASCII)
# The least and the largest number behind a name. One link a row makes faiss crash; more cells or
# links than these take its memory before it looks at the rows.
_LIMITS = {"HNSW": (2, 512), "IVF": (1, 1 << 20), "IMI2x": (1, 12), "PQ": (1, 4_096), "x": (1, 16),
           "LSH": (1, 65_536), "nprobe": (1, 1 << 20), "efSearch": (1, 65_536),
           "quantizer_efSearch": (1, 65_536), "k_factor_rf": (1, 64)}  # fmt: skip
_NUMBER = re.compile(r"(HNSW|IVF|IMI2x|PQ|x|LSH|\w+=)(\d+)", re.ASCII)
_WIDTH = re.compile(r"(?:PCAW?R?|RR|Pad|ITQ|OPQ\d+_)(\d+),", re.ASCII)
_SETTING = re.compile(r"(?:nprobe|efSearch|quantizer_efSearch|k_factor_rf)=\d+", re.ASCII)


class FaissIndex(Index):
    """The index of a factory string, with search parameters after a semicolon."""

    TRAIN_ROWS = 200_000

    @classmethod
    def check(cls, description: str) -> None:
        """Refuse strings that faiss may not survive."""
        factory, semicolon, settings = description.partition(";")
        if len(description) > 200 or not _FACTORY.fullmatch(factory):
            raise ValueError(f"index={description[:200]!r} is not known; {choices()}")
        if semicolon and not all(_SETTING.fullmatch(part) for part in settings.split(",")):
            raise ValueError(f"index={description!r}: settings {settings!r}: {_SETTINGS}")
        for name, digits in _NUMBER.findall(description):
            low, high = _LIMITS[name.rstrip("=")]
            if not low <= int(digits) <= high:
                raise ValueError(
                    f"index={description!r}: {name}{digits} must lie between {low} and {high}"
                )

    def __init__(self, rows: Array, description: str) -> None:
        factory, _, settings = description.partition(";")
        what, most = f"index={description!r}", 2 * rows.shape[1]
        before_openmp(what)
        if any(not 1 <= int(width) <= most for width in _WIDTH.findall(factory)):
            raise ValueError(f"{what} must make rows of 1 to {most} columns, twice those of X")
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
        inner = _innermost(self.index)
        if hasattr(inner, "do_polysemous_training"):  # minutes for a filter that is not used
            inner.do_polysemous_training = False

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Return the rows that the index finds nearest to each query."""
        before_openmp("faiss")
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
