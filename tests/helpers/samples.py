"""Made-up rows for the tests, and where to write them."""

import os

import numpy as np

from nearkin import SLNE, Constraint, Execution
from nearkin.learning.sampling import RULES


def blobs(n=300, dims=12, classes=4, spread=0.6, seed=0):
    """Overlapping classes of unit-length rows."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dims))
    y = rng.integers(0, classes, n)
    X = centres[y] + spread * rng.normal(size=(n, dims)) * np.linspace(3, 0.3, dims)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32), y


def in_memory():
    """A folder in memory; None where the system has none."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


GROUPS = {
    "constraint": (Constraint, ("symmetric", "psd", "rank", "normalize")),
    "execution": (Execution, ("order", "quantize", "index", "hub_limit", "verbose", "callback")),
}


def slne(rule="hardest", margin=0.02, temperature=0.1, **settings):
    """A learner from flat settings, for tests that run over many of them."""
    sampling = RULES[rule](temperature if rule == "softmax" else margin)
    for group, (kind, names) in GROUPS.items():
        given = {name: settings.pop(name) for name in names if name in settings}
        settings |= {group: kind(**given)} if given else {}
    return SLNE.paper(sampling, **settings)
