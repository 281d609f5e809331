"""Rows in two dimensions under each similarity: UMAP where it is installed, else PCA.

Under a bilinear similarity rows are compared as Lx with LᵀL = M, of M the symmetric and positive
part: what a picture can show of it.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.ensemble.members import matrix_of
from nearkin.learning.constraints import components
from nearkin.learning.holdout import sample
from nearkin.preprocessing import Preprocess
from nearkin.serve.side import Side
from nearkin.serve.tasks import BackgroundTask

Array = NDArray[np.float32]

ROWS, CELLS = 3_000, 32_000_000  # of a map at most
UMAP_NEIGHBORS = 15


class MapTask(BackgroundTask):
    """The places of a sample of the rows, the same sample under each similarity."""

    def __init__(self, sides: dict[str, Side]) -> None:
        super().__init__()
        self.sides = sides
        self.method = "UMAP" if find_spec("umap") else "PCA"
        self.rows = np.empty(0, np.int64)
        self.places: dict[str, Array] = {}

    def steps(self) -> Iterator[float]:
        """Draw the sample, then make one map after the other."""
        model = next(iter(self.sides.values())).model
        widest = max(side.model.database_.shape[1] for side in self.sides.values())
        most = max(2, min(ROWS, CELLS // widest))
        self.rows = np.sort(sample(model.labels_, most, np.random.default_rng(0)))
        for number, (name, side) in enumerate(self.sides.items(), 1):
            flat = plane(compared(side, self.rows), self.method)
            self.places |= {name: flat}
            yield number / len(self.sides)


def compared(side: Side, rows: NDArray[np.int64]) -> Array:
    """Rows whose dot products are, as far as that is possible, the similarity of a side."""
    stored, similarity = side.stored(rows), side.model.similarity_
    return stored if similarity is None else stored @ components(matrix_of(similarity)).T


def plane(rows: Array, method: str = "PCA") -> Array:
    """Two columns within [0, 1] for each row, with equal scales.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    >>> places = plane(rows)
    >>> places.shape, float(places.min()) >= 0, float(places.max()) <= 1
    ((50, 2), True, True)
    """
    few = min(rows.shape) < 3 or len(rows) <= UMAP_NEIGHBORS
    flat = _pca(rows) if few or method == "PCA" else _umap(rows)
    span = float((flat.max(axis=0) - flat.min(axis=0)).max())
    middle = (flat.max(axis=0) + flat.min(axis=0)) / 2
    return ((flat - middle) / (span or 1.0) + 0.5).clip(0, 1).astype(np.float32)


def _pca(rows: Array) -> Array:
    two = min(2, *rows.shape)
    pca = Preprocess(n_components=two, whitening=0.0, unit_length=False, random_state=0)
    flat = pca.fit_transform(rows)
    return np.hstack([flat, np.zeros((len(flat), 2 - flat.shape[1]), np.float32)])


def _umap(rows: Array) -> Array:
    import umap

    reducer: Any = umap.UMAP(n_neighbors=UMAP_NEIGHBORS, metric="cosine", random_state=0, n_jobs=1)
    return np.asarray(reducer.fit_transform(rows), np.float32)
