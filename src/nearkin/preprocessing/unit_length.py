"""UnitLength: rows of unit length, whose inner products are cosines."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nearkin.preprocessing.linear import LinearPreprocessing, power
from nearkin.validation.parameters import Table, check_parameters

_SAMPLE, _FEW = 1_000, 16  # rows at most; fewer where they are wide, but a few
_SAMPLE_BYTES = 1 << 20
_UNIT = 1e-2  # embeddings in half precision are off by a thousandth


def spread(rows: Any) -> Any:
    """Rows at equal distances, about a megabyte of them.

    A fit draws them before it checks its memory.
    """
    most = max(_FEW, min(_SAMPLE, _SAMPLE_BYTES // (4 * max(1, rows.shape[1]))))
    return rows[np.linspace(0, rows.shape[0] - 1, min(rows.shape[0], most)).astype(int)]


def have_unit_length(rows: Any) -> bool:
    """Whether rows, of which a sample is looked at, have unit length.

    Examples
    --------
    >>> have_unit_length(np.eye(3)), have_unit_length(np.ones((2, 3)))
    (True, False)
    """
    some = spread(rows)
    squares = some.multiply(some) if hasattr(some, "multiply") else np.square(some, dtype=float)
    return bool((np.abs(np.asarray(squares.sum(axis=1)) - 1) < _UNIT).all())


class UnitLength(LinearPreprocessing):
    """Scale rows to unit length, after a signed power of every entry, and nothing else.

    Neighbours of such rows are those by cosine. scikit-learn's Normalizer has no power, and model
    files hold only transformers of this package.

    Parameters
    ----------
    power : float
        See `Preprocess`.

    Examples
    --------
    >>> float(np.linalg.norm(UnitLength().fit_transform([[3.0, 4.0]]), axis=1)[0])
    1.0
    """

    PARAMETERS: ClassVar[Table] = {"power": power}
    unit_length = True

    def __init__(self, *, power: float = 1.0) -> None:
        self.power = power

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the number of columns."""
        check_parameters(self)
        rows = self._rows(X, reset=True)
        self.mean_ = np.zeros(rows.shape[1], np.float32)
        self._n_features_out = rows.shape[1]
        return self

    def linear_map(self) -> None:
        """There is none: columns stay as they are."""
        return None
