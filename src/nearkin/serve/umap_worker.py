"""A process of its own for UMAP: compiling it would hold up the service for a minute.

``python -m nearkin.serve.umap_worker ROWS.npy PLACES.npy``
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.io.atomic import atomic_write

NEIGHBORS = 15


def main(rows: str, places: str) -> None:
    """Read rows, write two columns for each."""
    import umap

    if hasattr(os, "nice"):
        os.nice(10)
    reducer: Any = umap.UMAP(n_neighbors=NEIGHBORS, metric="cosine", random_state=0, n_jobs=1)
    flat = np.asarray(reducer.fit_transform(np.load(rows)), np.float32)
    with atomic_write(Path(places)) as temporary, open(temporary, "wb") as file:
        np.save(file, flat)


if __name__ == "__main__":
    main(*sys.argv[1:])
