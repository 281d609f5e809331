"""Compile the main kernels ahead of time: ``python -m nearkin.app.warmup``.

Compiled code is cached, so that later processes load it within milliseconds.
"""

import numpy as np

from nearkin.native.threads import limited
from nearkin.slne import SLNE

_WIDE = 256  # columns from which on learning uses superblocks


def compile_all() -> None:
    """Search, learn and score on a few rows, narrow and wide; starts no threads."""
    with limited(1):
        for dims in (8, _WIDE):
            X, y = np.eye(8, dims, dtype=np.float32), np.arange(8) % 2
            model = SLNE(n_neighbors=2, max_epochs=1, random_state=0).fit(X, y)
        model.objective(X, y)
        model.neighbor_scores(X, X, np.zeros((8, 2), np.int32))


if __name__ == "__main__":
    compile_all()
