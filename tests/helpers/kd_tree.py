"""A back end from outside the package: scipy's k-d tree, exact or within ``1 + eps``."""

from scipy.spatial import cKDTree

from nearkin.neighbors import Index


class KDTree(Index):
    def __init__(self, rows, description="tree"):
        self._build(rows, eps_of(description))

    def _build(self, rows, eps):
        self.tree, self.eps = cKDTree(rows), eps

    @classmethod
    def check(cls, description):
        eps_of(description)

    def search(self, queries, k):
        return self.tree.query(queries, k, eps=self.eps)[1].reshape(len(queries), k)

    def save(self, path):
        path.write_text(str(self.eps))

    @classmethod
    def load(cls, rows, path):
        index = cls.__new__(cls)
        index._build(rows, float(path.read_text()))
        return index


def eps_of(description):
    name, _, value = description.partition(";")[2].partition("=")
    if name not in ("", "eps"):
        raise ValueError(f"index={description!r}: the tree has no setting {name!r}; use eps")
    return float(value or 0)
