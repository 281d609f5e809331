"""Neighbourhoods from any retrieval: the k nearest rows, by one contract for all back ends."""

from nearkin.neighbors.search import NeighborIndex, nearest, recall

__all__ = ["NeighborIndex", "nearest", "recall"]
