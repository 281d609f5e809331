"""Rows on their way into a model: preprocessed, or taken as they were kept."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nearkin.io import models
from nearkin.io.checkpoint import Checkpoint
from nearkin.io.fingerprint import Digest, words
from nearkin.validation import memory
from nearkin.voting.parts import is_fitted, seeded

Array = NDArray[np.float32]


def prepared(preprocess: Any, rows: Any, rng: Any, keep: Checkpoint) -> tuple[Any, Array]:
    """Fit the preprocessing, if it is not fitted, and apply it; or take what was kept."""
    if preprocess is None or is_fitted(preprocess):
        return preprocess, applied(preprocess, rows)
    unfitted = seeded(preprocess, rng)
    path = keep.folder / "preprocessed.safetensors"
    made_from = {"preprocess": unfitted, "X": Digest(*_arrays(rows))}
    if keep and path.exists():
        kept = models.load(path)
        keep.compare(kept["made_from"], made_from)
        return kept["preprocess"], kept["database"]
    _check_room(rows, unfitted)
    fitted = unfitted.fit(rows)
    database = applied(fitted, rows)
    if keep and models.can_hold(fitted):
        parts = {"preprocess": fitted, "database": database}
        models.save(parts | {"made_from": words(made_from)}, path)
        database = models.load(path)["database"]  # from memory to the file
    return fitted, database


def applied(preprocess: Any, rows: Any) -> Array:
    """Rows as the fitted preprocessing, if there is one, makes them."""
    if preprocess is None:
        return rows
    made = preprocess.transform(rows)
    return np.ascontiguousarray(made.toarray() if sparse.issparse(made) else made, np.float32)


def _check_room(rows: Any, preprocess: Any) -> None:
    n, D = rows.shape
    columns = min(D, getattr(preprocess, "n_components", None) or D)
    memory.check(
        f"SoftVotingKNN on {n} rows",
        {"preprocessed rows": 4 * n * columns},
        "lower n_components of the preprocessing, or preprocess into a file, "
        "Preprocess().fit(X).transform(X, out=...), and fit on that",
    )


def _arrays(rows: Any) -> tuple[NDArray[Any], ...]:
    """What a matrix, dense or sparse, consists of."""
    return (rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,)
