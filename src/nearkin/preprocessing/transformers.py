"""Any transformer of rows, of nearkin or not: how it is seeded and applied, what it makes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

# Linear columns, and their share of inner products, from which on they are searched alone.
LEAST_SEARCHED, LEAST_LINEAR = 16, 0.5


def applied(preprocess: Any, rows: Any) -> NDArray[np.float32]:
    """Rows as the fitted preprocessing, if there is one, makes them."""
    if preprocess is None:
        return rows.toarray() if sparse.issparse(rows) else rows
    made = preprocess.transform(rows)
    return np.ascontiguousarray(made.toarray() if sparse.issparse(made) else made, np.float32)


def search_columns(preprocess: Any) -> int:
    """Columns at the end of prepared rows in which neighbours are searched; 0 for all.

    Where a few columns order rows nearly as all do, a search in these costs a fraction.
    """
    return int(getattr(preprocess, "n_search_columns_", 0))


def searched_alone(linear: float, columns: int) -> int:
    """The linear columns beside random features, if neighbours are searched in them alone; else 0.

    They hold directions, not lengths, and in few columns lengths tell more: of the 50 rows that are
    nearest in all columns, these find a third with two of them, and four in five with sixteen.
    """
    return columns if columns >= LEAST_SEARCHED and linear >= LEAST_LINEAR else 0


def last_columns(rows: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """A copy of the last `n` columns, for which a memory map is read; for 0 the rows themselves."""
    return np.ascontiguousarray(rows[:, -n:]) if n else rows


def width_of(preprocess: Any, n: int, columns: int) -> int:
    """Columns that a preprocessing makes of `n` rows, if it says so; else as many as there are."""
    fourier = getattr(preprocess, "n_features", None)
    if isinstance(fourier, int):
        return 2 * fourier + _linear_width(preprocess, n, columns)
    wanted = getattr(preprocess, "n_components", None)
    return max(1, min(n, columns, wanted if isinstance(wanted, int) else columns))


def search_width_of(preprocess: Any, n: int, columns: int) -> int:
    """What `search_columns` will be once it is fitted to `n` rows."""
    if not isinstance(getattr(preprocess, "n_features", None), int):
        return 0
    return searched_alone(preprocess.linear, _linear_width(preprocess, n, columns))


def _linear_width(fourier: Any, n: int, columns: int) -> int:
    return width_of(fourier.preprocess, n, columns) if fourier.linear else 0


def learns_from_labels(part: Any) -> bool:
    """Whether fitting a part needs labels."""
    tags = getattr(part, "__sklearn_tags__", None)
    return bool(tags and tags().target_tags.required)


def may_learn_from_labels(part: Any) -> bool:
    """Whether it cannot be excluded: a user's transformer need not say that it does."""
    inner = getattr(part, "preprocess", None)
    known = type(part).__module__.startswith("nearkin.") and not learns_from_labels(part)
    return not known or (inner is not None and may_learn_from_labels(inner))


def seeded(part: Any, rng: Any) -> Any:
    """A clone whose unset seeds follow from ours, so that one seed fixes everything."""
    part = clone(part)
    names = [name for name in sorted(part.get_params()) if name.split("__")[-1] == "random_state"]
    unset = [name for name in names if part.get_params()[name] is None]
    part.set_params(**{name: rng.randint(2**31 - 1) for name in unset})
    return part
