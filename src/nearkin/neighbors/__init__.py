"""Neighbour search: the k nearest rows, by one contract for all back ends.

The place to add a back end: write a class that keeps the contract of `Index` (module ``base``) and
register it under a name. The name is then accepted wherever an ``index=`` is, with settings of
the back end's own after a semicolon; nothing in this package has to change::

    nearkin.neighbors.register("annoy", "my.module:AnnoyIndex")  # imported on first use
    nearkin.neighbors.nearest(X, 10, index="annoy;trees=50")

Whatever a back end returns is re-ranked by the true distance, and a row is removed from its own
list; a back end only has to propose candidates.
"""

from nearkin.neighbors.base import Index
from nearkin.neighbors.index import NeighborIndex
from nearkin.neighbors.registry import register
from nearkin.neighbors.retrieval import Retrieval
from nearkin.neighbors.search import nearest, recall

__all__ = ["Index", "NeighborIndex", "Retrieval", "nearest", "recall", "register"]
