"""Rows with the structure of real descriptors, as many as are asked for, the same for each seed.

A thousand classes in families of ten that resemble each other; each class has four clusters; the
spectrum falls as a power law; twenty "styles" (think of light and pose) vary as much within every
class as classes differ; noise in all directions. Every row has unit length.
"""

from collections.abc import Iterator

import numpy as np

CLUSTERS, FAMILY, STYLES, BLOCK = 4, 10, 20, 20_000
DIFFERENCE, SPREAD, STYLE, NOISE = 0.4, 0.8, 0.25, 0.4  # a family's centre has length 1


class World:
    """What the rows have in common: centres, styles, spectra."""

    def __init__(self, dims: int = 1_000, classes: int = 1_000, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.seed, self.dims, self.classes = seed, dims, classes
        self.signal, noise = _spectrum(dims, 0.5), _spectrum(dims, 0.25)
        families = np.repeat(_normal(rng, -(-classes // FAMILY), 1, dims), FAMILY, axis=0)
        own = _normal(rng, classes, 1, dims) + _normal(rng, classes, CLUSTERS, dims)
        self.centres = (families[:classes] + DIFFERENCE * own) * self.signal
        self.within = NOISE * noise + SPREAD * self.signal
        self.styles = STYLE * _normal(rng, STYLES, dims) * self.signal
        self.rotation = np.linalg.qr(_normal(rng, dims, dims))[0]

    def blocks(self, rows: int, part: int = 0) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield ``(first row, rows, labels)``; another `part` holds other rows."""
        for lo in range(0, rows, BLOCK):
            rng, m = np.random.default_rng([self.seed, part, lo]), min(BLOCK, rows - lo)
            labels = rng.integers(0, self.classes, m)
            X = self.centres[labels, rng.integers(0, CLUSTERS, m)]
            X += _normal(rng, m, self.dims) * self.within + _normal(rng, m, STYLES) @ self.styles
            X = X @ self.rotation
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            yield lo, X, labels.astype(np.int32)

    def sample(self, rows: int, part: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows and labels, in memory."""
        X, y = np.empty((rows, self.dims), np.float32), np.empty(rows, np.int32)
        for lo, block, labels in self.blocks(rows, part):
            X[lo : lo + len(block)], y[lo : lo + len(block)] = block, labels
        return X, y


def _spectrum(dims: int, fall: float) -> np.ndarray:
    s = np.arange(1, dims + 1, dtype=np.float32) ** -fall
    return s / np.linalg.norm(s)


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)
