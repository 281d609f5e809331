"""What a fit learns from, checked: rows with labels, lists and weights, or rows with judgements."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from nearkin.learning.pairs import PairData, check_weights, pair_data
from nearkin.neighborhoods import NeighborLists, as_lists
from nearkin.validation import memory
from nearkin.validation.arrays import (
    as_rows,
    check_label_count,
    classes_of,
    labelled_rows,
    named,
    validate_data,
)

Array = NDArray[np.float32]

ROWS: dict[str, Any] = {"dtype": np.float32, "order": "C", "ensure_min_samples": 2}


@dataclass
class TrainingData:
    """The arguments of a fit, checked.

    Attributes
    ----------
    rows : (n, D) float32 array
    y : (n,) array
        Labels as they were given, or the indicator array.
    labels : (n,) int64 array, or (n, L) bool array
        Places among the classes; of rows with several labels, which they have.
    neighbors : lists, graph or None
    weights : (n,) float32 array or None
    """

    rows: Array
    y: NDArray[Any]
    labels: NDArray[Any]
    neighbors: NeighborLists | None = None
    weights: Array | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        neighbors: NeighborLists | None,
        weights: ArrayLike | None = None,
        multilabel: bool = False,
    ) -> Self:
        """Check what `model` is given; with `multilabel`, rows may have several labels."""
        memory.check_conversion(X)
        check_label_count(X, y)
        read = _multilabel_rows if multilabel and _is_indicator(y) else _single_label_rows
        rows, given, labels = read(model, X, y)
        model._remember(f"{len(rows)} rows", [rows], labels)
        lists = None if neighbors is None else as_lists(neighbors, len(rows))
        return cls(rows, given, labels, lists, check_weights(weights, len(rows)))

    @property
    def multilabel(self) -> bool:
        """Whether rows have several labels."""
        return self.labels.ndim == 2


def judged_rows(
    model: Any,
    queries: ArrayLike,
    documents: ArrayLike,
    relevant: ArrayLike,
    one_width: bool = False,
) -> PairData:
    """Queries, documents, perhaps of the same width, and judgements that `model` is given."""
    data = pair_data(queries, documents, relevant)
    validate_data(model, queries, skip_check_array=True)  # for its names of columns
    if one_width:
        as_rows(data.documents[:1], "documents", data.queries.shape[1])
    return data


def _single_label_rows(model: Any, X: ArrayLike, y: ArrayLike) -> tuple[Array, Any, Any]:
    rows, given = labelled_rows(model, X, y, **ROWS)
    classes, labels = classes_of(given)
    if len(classes) == len(rows):
        raise ValueError(
            f"y holds {len(classes)} classes for {len(rows)} rows: each class has a single "
            "row and so no row has a target; at least one class needs two rows"
        )
    return rows, np.asarray(y).ravel(), labels


def _multilabel_rows(model: Any, X: ArrayLike, y: ArrayLike) -> tuple[Array, Any, Any]:
    rows = validate_data(model, X, **ROWS)
    labels = np.asarray(y).astype(bool)
    return rows, labels, labels


def _is_indicator(y: Any) -> bool:
    """Whether rows may have several labels: an array of zeros and ones."""
    with named("y", "an array of labels"):
        given = np.asarray(y)
    return given.ndim == 2 and type_of_target(given) == "multilabel-indicator"
