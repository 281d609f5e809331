"""Binary codes by iterative quantisation (ITQ, Gong and Lazebnik 2011): ``"itq;bits=256"``.

Rows are turned by a rotation that brings them as close as possible to the corners of a cube; the
signs are their codes. Rows whose codes differ in the fewest bits are candidates. Given the rows and
queries that a learned similarity makes (`learning.factorization.factors`), the Hamming distance of
the codes follows that similarity.
"""

from pathlib import Path
from typing import ClassVar, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.native.blas import project_rows, serial_blas
from nearkin.native.threads import before_openmp
from nearkin.neighbors.base import Array, Index, Metric, blocks

BITS, CANDIDATES = 256, 20  # of a code; a neighbour that is looked for
ITERATIONS, SAMPLE = 30, 20_000
_BLOCK = 16_384
_LIMITS = {"bits": (8, 4_096), "candidates": (1, 1_000)}


class IterativeQuantization(Index):
    """Codes of `bits` bits; the nearest by Hamming distance are proposed."""

    metrics: ClassVar = ("euclidean", "dot")

    def __init__(
        self, rows: Array, description: str = "itq", *, metric: Metric = "euclidean"
    ) -> None:
        settings = settings_of(description)
        self.metric, self.candidates = metric, settings["candidates"]
        sample = rows[np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int)]
        with serial_blas():  # the same bits on any number of threads
            self.centre = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
            self.directions = learn_directions(sample - self.centre, settings["bits"])
            parts = blocks(len(rows), _BLOCK)
            self.codes = np.concatenate(
                [self._encoded(rows[lo:hi] - self.centre) for lo, hi in parts]
            )
        self._index = _searchable(self.codes)

    def search(self, queries: Array, k: int) -> NDArray[np.int64]:
        """Return the rows whose codes differ least from the query's."""
        before_openmp("faiss")
        # To take the centre off the rows changes a query's dot products by a constant.
        shifted = queries if self.metric == "dot" else queries - self.centre
        with serial_blas():
            codes = self._encoded(np.ascontiguousarray(shifted))
        most = max(k, min(len(self.codes), k * self.candidates))
        return self._index.search(codes, most)[1]

    def _encoded(self, rows: Array) -> NDArray[np.uint8]:
        return np.packbits(project_rows(rows, self.directions) > 0, axis=1)

    @classmethod
    def check(cls, description: str) -> None:
        """Refuse settings other than bits and candidates."""
        settings_of(description)

    def save(self, path: Path) -> None:
        """Write the codes and the directions."""
        arrays = {"centre": self.centre, "directions": self.directions, "codes": self.codes}
        notes = {"metric": self.metric, "candidates": str(self.candidates)}
        safetensors.write(path, arrays, notes)

    @classmethod
    def load(cls, rows: Array, path: Path) -> Self:
        """Return the same codes over the same rows."""
        arrays, described = safetensors.read(path)
        index = cls.__new__(cls)
        index.centre, index.directions = arrays["centre"], arrays["directions"]
        index.codes = np.array(arrays["codes"])
        index.metric = described["metric"]  # type: ignore[assignment]
        index.candidates = int(described["candidates"])
        index._index = _searchable(index.codes)
        return index


def learn_directions(rows: Array, bits: int, iterations: int = ITERATIONS) -> Array:
    """Directions whose signs are the bits: rotated principal directions of centred rows.

    More bits than columns are several rotations, each from a start of its own.
    """
    rng = np.random.default_rng(0)
    vectors = np.linalg.eigh((rows.T @ rows).astype(np.float64))[1]
    made: list[NDArray[np.float64]] = []
    while sum(map(len, made)) < bits:
        width = min(bits - sum(map(len, made)), rows.shape[1])
        axes = vectors[:, ::-1][:, :width]
        projected = rows @ axes.astype(np.float32)
        start = np.linalg.qr(rng.standard_normal((width, width)))[0]
        made.append((axes @ rotate(projected.astype(np.float64), start, iterations)).T)
    return np.ascontiguousarray(np.concatenate(made), np.float32)


def rotate(
    rows: NDArray[np.float64], rotation: NDArray[np.float64], iterations: int
) -> NDArray[np.float64]:
    """Turn rows towards the corners of the cube: signs, then the best rotation for them."""
    for _ in range(iterations):
        signs = np.where(rows @ rotation > 0, 1.0, -1.0)
        u, _, vt = np.linalg.svd(rows.T @ signs)
        rotation = u @ vt
    return rotation


def _searchable(codes: NDArray[np.uint8]) -> faiss.IndexBinaryFlat:
    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(np.ascontiguousarray(codes))
    return index


def settings_of(description: str) -> dict[str, int]:
    """Read ``bits`` and ``candidates`` from a description."""
    found = {"bits": BITS, "candidates": CANDIDATES}
    kind, _, given = description.partition(";")
    for setting in filter(None, given.split(",")):
        name, _, value = setting.partition("=")
        low, high = _LIMITS.get(name, (1, 0))
        number = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 0
        if not low <= number <= high or (name == "bits" and number % 8):
            raise ValueError(
                f"index={description!r}: {kind!r} takes bits, a multiple of 8 from 8 to 4096, and "
                f"candidates from 1 to 1000, such as '{kind};bits=256,candidates=20'"
            )
        found[name] = number
    return found
