"""Rows on their way into a model: preprocessed, or read back from a run folder."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.io import models
from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.io.safetensors import Stream
from nearkin.preprocessing.transformers import applied, may_learn_from_labels, seeded
from nearkin.validation.parameters import is_fitted

Array = NDArray[np.float32]

_PART = "preprocessed"
FITTED_ROWS = 200_000  # that are copied, where others are held out


def prepared(
    preprocess: Any, rows: Any, y: NDArray[Any], rng: Any, folder: RunFolder,
    held: NDArray[np.bool_] | None = None,
) -> tuple[Any, Array]:  # fmt: skip
    """Fit the preprocessing, if it is not fitted, and apply it; or read what was kept.

    Where it may learn from labels, `held` rows take no part.
    """
    if preprocess is None or is_fitted(preprocess):
        return preprocess, applied(preprocess, rows)
    unfitted = seeded(preprocess, rng)
    inputs = {"preprocess": unfitted, "X": Digest(*_arrays(rows)), "y": Digest(y)}
    without = held is not None and may_learn_from_labels(unfitted)
    if without:
        inputs["held"] = Digest(held)
    kept = _read(folder, inputs)
    if kept is not None:
        return kept
    fitted = unfitted.fit(*_without(held, rows, y)) if without else unfitted.fit(rows, y)
    if not (folder.durable and models.can_hold(fitted)):
        return fitted, applied(fitted, rows)
    arrays, description = models.describe(fitted)
    folder.write(_PART, inputs, arrays | {"rows": _written(fitted, rows)}, {"model": description})
    return _read(folder, inputs) or (fitted, applied(fitted, rows))


def _without(held: Any, rows: Any, y: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Rows, at most `FITTED_ROWS`, that are not held out, and their labels."""
    some = np.flatnonzero(~held)
    some = some[:: -(-len(some) // FITTED_ROWS)]
    return rows[some], y[some]


def _written(fitted: Any, rows: Any) -> Array | Stream:
    """The preprocessed rows for a file, block by block if they can be."""
    return fitted.stream(rows) if hasattr(fitted, "stream") else applied(fitted, rows)


def _read(folder: RunFolder, inputs: dict[str, Any]) -> tuple[Any, Array] | None:
    kept = folder.read(_PART, inputs)
    if kept is None:
        return None
    arrays, notes = kept
    return models.restore(notes["model"], arrays), arrays["rows"]


def _arrays(rows: Any) -> tuple[NDArray[Any], ...]:
    """What a matrix, dense or sparse, consists of."""
    return (rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,)
