"""From labelled rows to the parts of a classifier, and a report of the choice."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nearkin.preprocessing.transformers import learns_from_labels
from nearkin.selection.options import Selection
from nearkin.selection.search import select
from nearkin.validation.parameters import is_fitted
from nearkin.voting.votes import Vote


class Parts(NamedTuple):
    """What a soft-voting classifier is made of; none of it is fitted, unless it was given so."""

    similarity: Any
    preprocess: Any
    n_neighbors: int
    vote: Any
    novelty_threshold: float | None = None


def select_parts(
    rows: Any,
    y: ArrayLike,
    groups: ArrayLike | None,
    options: Selection,
    seed: int,
    preprocess: Any,
) -> tuple[Parts, list[dict[str, Any]]]:
    """The parts that are best on held-out rows, and the candidates that were tried."""
    if not isinstance(preprocess, str) and is_fitted(preprocess) and learns_from_labels(preprocess):
        raise ValueError(
            f"preprocess is a {type(preprocess).__name__} that has seen the labels of the rows to "
            "choose on; give one that is not fitted"
        )
    labels = np.unique(np.asarray(y), return_inverse=True)[1]
    counts = np.bincount(labels)
    if len(labels) < 10 or np.count_nonzero(counts >= 3) < 2:
        given = None if isinstance(preprocess, str) else preprocess
        return Parts(None, given, min(5, len(labels)), Vote("softmax", class_weight=0.5)), []
    best, trials = select(
        rows, labels, _group_codes(groups, len(labels)), options, seed, preprocess
    )
    similarity = best.similarity(seed)
    if similarity is not None:
        similarity.n_neighbors = min(similarity.n_neighbors, len(labels) - 1)
    chosen = best.chosen.vote
    parts = Parts(similarity, best.preprocess, best.n_neighbors, chosen, best.novelty_threshold)
    return parts, trials


def _group_codes(groups: ArrayLike | None, n: int) -> Any:
    if groups is None:
        return None
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes.shape != (n,):
        raise ValueError(f"groups has shape {codes.shape}; one entry for each of the {n} rows")
    if codes.max() == 0:
        raise ValueError("groups names one group for all rows; at least two are needed")
    return codes
