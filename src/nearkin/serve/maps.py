"""Rows in two dimensions under each similarity: PCA at once, UMAP after it where it is installed.

Under a bilinear similarity rows are compared as Lx with LᵀL = M, of M the symmetric and positive
part: what a picture can show of it.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.holdout import sample
from nearkin.preprocessing.preprocess import Preprocess
from nearkin.serve.searched import SearchedSide
from nearkin.serve.tasks import BackgroundTask
from nearkin.serve.umap_worker import NEIGHBORS

Array = NDArray[np.float32]

ROWS, CELLS = 3_000, 32_000_000  # of a map at most
PCA, UMAP = "PCA", "UMAP"


class MapTask(BackgroundTask):
    """The places of a sample of the rows, the same sample under each similarity.

    Attributes
    ----------
    rows : the sample
    maps : by method, then by similarity, places within [0, 1]; UMAP comes after PCA
    """

    def __init__(self, sides: Mapping[str, SearchedSide]) -> None:
        super().__init__()
        self.sides, self.rows = sides, np.empty(0, np.int64)
        self.maps: dict[str, dict[str, Array]] = {}

    def steps(self) -> Iterator[float]:
        """Draw the sample, then make one map after the other."""
        model = next(iter(self.sides.values())).model
        widest = max(side.width for side in self.sides.values())
        rows = sample(model.labels_, max(2, min(ROWS, CELLS // widest)), np.random.default_rng(0))
        flat: dict[str, Array] = {}
        for name, side in self.sides.items():
            flat[name] = plane(pca(side.compared(rows)))
            yield 0.2 * len(flat) / len(self.sides)
        self.rows, self.maps = rows, {PCA: flat}
        if find_spec("umap") and len(rows) > NEIGHBORS:
            yield from self._umap(rows)

    def _umap(self, rows: NDArray[np.int64]) -> Iterator[float]:
        flat: dict[str, Array] = {}
        for name, side in self.sides.items():
            done = 0.2 + 0.8 * len(flat) / len(self.sides)
            with tempfile.TemporaryDirectory(prefix="nearkin-map-") as folder:
                yield from _work(folder, side.compared(rows), done)
                flat[name] = plane(np.load(Path(folder, "places.npy")))
        self.maps |= {UMAP: flat}

    @property
    def method(self) -> str:
        """The best there is so far."""
        return UMAP if UMAP in self.maps else PCA


def _work(folder: str, rows: Array, done: float) -> Iterator[float]:
    """Let another process make the map of some rows."""
    given, made = Path(folder, "rows.npy"), Path(folder, "places.npy")
    np.save(given, rows)
    command = [sys.executable, "-m", "nearkin.serve.umap_worker", str(given), str(made)]
    with tempfile.TemporaryFile() as errors:
        worker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=errors)
        try:
            while worker.poll() is None:
                yield done
                _wait(worker)
        finally:  # also when the service stops
            worker.kill()
            worker.wait()
        if worker.returncode:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"UMAP failed: {''.join(last)[:200]}")


def _wait(worker: "subprocess.Popen[bytes]", seconds: float = 0.5) -> None:
    try:
        worker.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def pca(rows: Array) -> Array:
    """The first two principal components; zero where there are fewer."""
    two = min(2, *rows.shape)
    directions = Preprocess(n_components=two, whitening=0.0, unit_length=False, random_state=0)
    flat = directions.fit_transform(rows)
    return np.hstack([flat, np.zeros((len(flat), 2 - flat.shape[1]), np.float32)])


def plane(flat: Array) -> Array:
    """Two columns moved and scaled into [0, 1], both alike.

    Examples
    --------
    >>> plane(np.array([[-2.0, 0.0], [2.0, 1.0]], np.float32)).tolist()
    [[0.0, 0.375], [1.0, 0.625]]
    """
    low, high = flat.min(axis=0), flat.max(axis=0)
    span = float((high - low).max())
    return ((flat - (low + high) / 2) / (span or 1.0) + 0.5).clip(0, 1).astype(np.float32)
