"""UnitLength: rows of unit length, whose inner products are cosines."""

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nearkin.preprocessing.linear import LinearPreprocessing, power
from nearkin.validation.parameters import Table, check_parameters


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
