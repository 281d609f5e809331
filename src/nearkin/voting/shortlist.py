"""The shortlist of a classifier: the stored rows nearest to queries, or to each other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.neighbors.index import NeighborIndex, index_of
from nearkin.neighbors.retrieval import index_description, kept_lists, retrieved, searchable
from nearkin.preprocessing.transformers import last_columns

Array = NDArray[np.float32]
Lists = NDArray[np.int32]


def searched_columns(model: Any, rows: Array) -> Array:
    """What is searched of preprocessed rows, or of queries for them."""
    return last_columns(rows, model.n_search_columns_)


def row_index(model: Any) -> NeighborIndex:
    """The index of the stored rows, built or taken from the model's file when first needed."""
    if getattr(model, "_cached_index", None) is None:
        kept = getattr(model, "search_index_", None)
        model._cached_index = index_of(
            searched_columns(model, model.database_), index_description(model.index), kept
        )
    return model._cached_index


def searched_index(model: Any) -> NeighborIndex | None:
    """The index of what is searched; a function that finds neighbours has none."""
    if model.retrieval_ is None:
        return row_index(model)
    return searchable(model.retrieval_, getattr(model, "search_index_", None))


def shortlist(model: Any, given: Any, queries: Array) -> Lists:
    """The rows that vote on queries, of which the rows as given are known."""
    k = min(model.shortlist_length, len(model.database_))
    if model.retrieval_ is not None:
        return retrieved(model.retrieval_, k, given)
    return row_index(model).nearest(k, searched_columns(model, queries))[1]


def wanted_length(model: Any, n_neighbors: int | None, most: int) -> int:
    """How many of a shortlist of `most` rows a caller wants."""
    if n_neighbors is None:
        return most
    if n_neighbors > most:
        raise ValueError(
            f"n_neighbors={n_neighbors} must lie between 1 and {most}, the length of the "
            "shortlist; for more, raise n_neighbors of the model with "
            f"set_params(n_neighbors=...), up to its {len(model.database_)} rows"
        )
    return n_neighbors


def stored_lists(model: Any, k: int) -> Lists:
    """The nearest of the other stored rows."""
    if model.retrieval_ is not None:
        return model.retrieval_.lists(k)
    return row_index(model).lists(k)


def kept_stored_lists(model: Any, k: int, folder: RunFolder) -> Lists:
    """`stored_lists`, kept in a folder."""
    if model.retrieval_ is not None:
        return kept_lists(model.retrieval_, k, folder)
    searched = model.database_[:, -model.n_search_columns_ :]  # from 0 on, that is all
    inputs = {"n_neighbors": k, "index": model.index, "X": Digest(searched)}
    return folder.part("neighbors", inputs, lambda: {"indices": stored_lists(model, k)})["indices"]
