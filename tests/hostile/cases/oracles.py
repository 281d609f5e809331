"""Naive forms: a few lines of numpy in float64."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hostile.judge import FINE, Verdict


def nearest(
    result: Any, X: Any, k: int = 3, queries: Any = None, index: str = "exact", **_: Any
) -> Verdict:
    """Distances as they should be, and to the rows that are named."""
    rows = np.asarray(X, np.float32).astype(float)
    questions = rows if queries is None else np.asarray(queries, np.float32).astype(float)
    true = np.sqrt(((questions[:, None] - rows[None]) ** 2).sum(axis=2))
    if queries is None:
        np.fill_diagonal(true, np.inf)
    expected = np.sort(true, axis=1)[:, :k]
    distances, indices = (np.asarray(part) for part in result)
    slack = 1e-4 * float(expected.max())
    named = np.take_along_axis(true, np.maximum(indices, 0), axis=1)
    named[indices < 0] = np.inf
    if index not in ("exact", "auto"):  # other rows may be nearer
        expected = named
    if distances.shape != expected.shape or not np.allclose(named, expected, 0, slack):
        return Verdict("wrong", "other rows are nearer")
    if not np.allclose(distances, expected, 1e-4, slack):
        return Verdict("wrong", "the distances are others")
    return FINE


NAIVE: dict[str, Callable[..., Verdict]] = {
    "nearest": nearest,
    "NeighborIndex": nearest,
}
