"""An HNSW graph by dot product, as vector stores have it: fast, and not sure to find all.

Made to measure what such an index loses, at any `ef` of the search; see `nearkin.neighbors.faiss`
for graphs that find neighbours to learn from.
"""

import faiss
import numpy as np
from numpy.typing import NDArray

from nearkin.native.threads import before_openmp, limited_libraries
from nearkin.neighbors.base import Array, blocks

LINKS, EF_CONSTRUCTION = 16, 100  # what stores have by default, or near it


class DotGraph:
    """HNSW over rows of unit length.

    Examples
    --------
    >>> graph = DotGraph(np.eye(8, dtype=np.float32))
    >>> graph.search(np.eye(8, dtype=np.float32)[[5]], 1, ef=8).tolist()
    [[5]]
    """

    def __init__(self, rows: Array) -> None:
        before_openmp("a graph of faiss")
        self.index = faiss.IndexHNSWFlat(rows.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = EF_CONSTRUCTION
        with limited_libraries(1):  # with more threads every build gives another graph
            for lo, hi in blocks(len(rows), 65_536):
                self.index.add(np.ascontiguousarray(rows[lo:hi]))

    def search(self, queries: Array, k: int, ef: int) -> NDArray[np.int64]:
        """The `k` rows that the graph finds for each query, best first; -1 for none.

        `ef` is the number of rows that a search keeps in view, at least `k`.
        """
        before_openmp("a graph of faiss")
        self.index.hnsw.efSearch = ef
        return self.index.search(np.ascontiguousarray(queries), k)[1]
