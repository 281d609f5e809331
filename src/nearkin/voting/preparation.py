"""Rows on their way into a model: preprocessed, or read back from a run folder."""

from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.io import models
from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.io.safetensors import Stream
from nearkin.neighbors.retrieval import Retrieval, keep
from nearkin.validation.parameters import is_fitted
from nearkin.voting.parts import learns_from_labels, seeded

Array = NDArray[np.float32]

_PART = "preprocessed"


def prepared(
    preprocess: Any, rows: Any, y: NDArray[Any], rng: Any, folder: RunFolder
) -> tuple[Any, Array]:
    """Fit the preprocessing, if it is not fitted, and apply it; or read what was kept."""
    if preprocess is None or is_fitted(preprocess):
        return preprocess, applied(preprocess, rows)
    unfitted = seeded(preprocess, rng)
    inputs = {"preprocess": unfitted, "X": Digest(*_arrays(rows)), "y": Digest(y)}
    kept = _read(folder, inputs)
    if kept is not None:
        return kept
    fitted = unfitted.fit(rows, y)
    if not (folder.durable and models.can_hold(fitted)):
        return fitted, applied(fitted, rows)
    arrays, description = models.describe(fitted)
    folder.write(_PART, inputs, arrays | {"rows": _written(fitted, rows)}, {"model": description})
    return _read(folder, inputs) or (fitted, applied(fitted, rows))


def _written(fitted: Any, rows: Any) -> Array | Stream:
    """The preprocessed rows for a file, block by block if they can be."""
    return fitted.stream(rows) if hasattr(fitted, "stream") else applied(fitted, rows)


def _read(folder: RunFolder, inputs: dict[str, Any]) -> tuple[Any, Array] | None:
    kept = folder.read(_PART, inputs)
    if kept is None:
        return None
    arrays, notes = kept
    return models.restore(notes["model"], arrays), arrays["rows"]


def applied(preprocess: Any, rows: Any) -> Array:
    """Rows as the fitted preprocessing, if there is one, makes them."""
    if preprocess is None:
        return rows.toarray() if sparse.issparse(rows) else rows
    made = preprocess.transform(rows)
    return np.ascontiguousarray(made.toarray() if sparse.issparse(made) else made, np.float32)


def fitted_retrieval(
    index: str | Retrieval, rows: Any, y: NDArray[Any], rng: Any, folder: RunFolder
) -> Retrieval | None:
    """The retrieval that an ``index=`` may be, fitted on rows as they were given."""
    if isinstance(index, str):
        return None
    retrieval = Retrieval(index.source, index.index)
    if retrieval.kind != "transformer":
        return keep(retrieval, rows, None)
    own = deepcopy(rng)  # so that all else is as with ready-made lists
    made = prepared(index.source, rows, y, own, folder.sub("retrieval"))
    return keep(retrieval, rows, *made)


def check_unlabelled(index: str | Retrieval, what: str) -> None:
    """Refuse a retrieval that has seen the labels of rows which are to judge."""
    if isinstance(index, Retrieval) and learns_from_labels(index.source):
        raise ValueError(
            f"{what}, and index=Retrieval({type(index.source).__name__}(...)) learns from labels; "
            "give it a transformer that does not"
        )


def width_of(preprocess: Any, n: int, columns: int) -> int:
    """Columns that a preprocessing makes of `n` rows, if it says so; else as many as there are."""
    fourier = getattr(preprocess, "n_features", None)
    if isinstance(fourier, int):
        return 2 * fourier
    wanted = getattr(preprocess, "n_components", None)
    return max(1, min(n, columns, wanted if isinstance(wanted, int) else columns))


def _arrays(rows: Any) -> tuple[NDArray[Any], ...]:
    """What a matrix, dense or sparse, consists of."""
    return (rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,)
