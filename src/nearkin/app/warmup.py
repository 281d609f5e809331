"""Compile the main kernels ahead of time: ``python -m nearkin.app.warmup``.

Compiled code is cached, so that later processes load it within milliseconds.
"""

import numpy as np

from nearkin.learning.constraints import Constraint
from nearkin.native.threads import limited
from nearkin.slne import SLNE


def compile_all() -> None:
    """Search, learn and score on a few rows, with and without a constraint; starts no threads."""
    with limited(1):
        X, y = np.eye(8, dtype=np.float32), np.arange(8) % 2
        for constraint in (Constraint(symmetric=True), None):  # block by block, and pipelined
            model = SLNE(n_neighbors=2, max_epochs=1, constraint=constraint).fit(X, y)
        model.objective(X, y)
        model.neighbor_scores(X, X, np.zeros((8, 2), np.int32))


if __name__ == "__main__":
    compile_all()
