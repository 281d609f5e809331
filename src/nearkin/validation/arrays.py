"""Input arrays: float32, C order, finite; memory maps are used without a copy."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from sklearn.utils.validation import validate_data as sklearn_validate_data

_CHECK_ROWS = 16_384
_KINDS = {"U": "text", "S": "text", "O": "text", "M": "date", "m": "duration"}
SMALLEST, LARGEST = 1e-15, 4e18  # lengths whose squares, and differences of these, are float32
TINY = float(np.finfo(np.float32).tiny)  # squared lengths up to it count as zero


def as_rows(X: ArrayLike, name: str, width: int | None = None) -> NDArray[np.float32]:
    """Return `X` as an (n, D) float32 array without copying what already is one.

    It is finite, and float32 can hold squared distances and products of its rows.
    """
    rows = as_numbers(X, name)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"{name} has shape {rows.shape}; a two-dimensional array with at least one row and "
            f"one column is needed: use {name}.reshape(1, -1) for a single row"
        )
    if width is not None and rows.shape[1] != width:
        raise ValueError(f"{name} has {rows.shape[1]} columns where {width} are expected")
    lo = first_not_finite(rows)
    if lo is not None:
        raise ValueError(
            f"{name} contains NaN or infinity (first seen in rows {lo} to "
            f"{min(lo + _CHECK_ROWS, len(rows)) - 1}); drop those rows or fill them in"
        )
    check_squares(rows, name)
    return rows


def as_numbers(X: ArrayLike, name: str) -> NDArray[np.float32]:
    """Return `X` as a float32 array in C order, of any shape."""
    refuse_no_numbers(X, name)
    if isinstance(X, np.ndarray) and X.dtype == np.float32 and X.flags.c_contiguous:
        return X
    with named(name), np.errstate(over="ignore"):  # infinity is refused where it matters
        return np.ascontiguousarray(X, dtype=np.float32)


@contextmanager
def named(name: str, expected: str = "an array of numbers") -> Iterator[None]:
    """Let errors of conversions, which speak of their own inner life, name the argument.

    Those that name it already, as most of scikit-learn's do, pass.
    """
    try:
        yield
    except (TypeError, ValueError, LookupError) as error:
        if re.search(rf"\b({name}|y)\b", str(error)):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name} must be {expected} ({error})") from None


def check_squares(rows: Any, name: str) -> None:
    """Refuse rows, dense or sparse, whose squared distances float32 cannot hold; zeros it can."""
    blocks = (rows[lo : lo + _CHECK_ROWS] for lo in range(0, rows.shape[0], _CHECK_ROWS))
    largest = max(max(float(block.max()), -float(block.min())) for block in blocks)
    if largest and not SMALLEST <= largest <= LARGEST / np.sqrt(rows.shape[1]):
        raise ValueError(
            f"{name}: its largest number is {largest:.1e}, and squared distances of such rows are "
            f"beyond float32; divide {name} by it"
        )


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **settings: Any) -> Any:
    """scikit-learn's `validate_data`, which takes dates for numbers and ignores masks."""
    refuse_no_numbers(X, "X")
    if y is not None and not (isinstance(y, str) and y == "no_validation"):
        with named("y", "an array of labels"):
            y = column_or_1d(y, warn=True)
    with named("X"):
        return sklearn_validate_data(estimator, X, y, **settings)


def refuse_no_numbers(X: Any, name: str) -> None:
    """Refuse dates, durations, complex numbers and masked entries: all convert to some float."""
    if np.ma.is_masked(X):
        raise ValueError(f"{name} has masked entries; drop such rows or fill them: {name}.filled()")
    kinds = _kinds(X)
    if kinds & {"m", "M"}:
        raise ValueError(
            f"{name} holds dates or durations; give numbers, such as days since the first date: "
            f"({name} - {name}.min()) / np.timedelta64(1, 'D')"
        )
    if "c" in kinds:
        raise ValueError(
            f"{name} holds complex numbers. Complex data not supported; give real and imaginary "
            "parts as columns of their own"
        )


def _kinds(X: Any) -> set[str]:
    """The kinds of numpy types that an array, a data frame or lists hold."""
    types = getattr(X, "dtypes", None)  # of a data frame, one a column
    types = [getattr(X, "dtype", None)] if types is None or not np.iterable(types) else list(types)
    kinds = {getattr(one, "kind", "") for one in types}
    if kinds & {"", "O"} and isinstance(X, np.ndarray | list | tuple):
        cells = X.flat if isinstance(X, np.ndarray) else (c for row in X for c in _cells(row))
        first = next(iter(cells), 0.0)
        dates = isinstance(first, date | timedelta)
        kinds |= {"M"} if dates else {np.asarray(first).dtype.kind}
    return kinds


def _cells(row: Any) -> Any:
    return row if isinstance(row, np.ndarray | list | tuple) else (row,)


def first_not_finite(array: NDArray[Any]) -> int | None:
    """The first row of the first block that holds NaN or infinity, if there is one."""
    for lo in range(0, len(array), _CHECK_ROWS):  # in blocks: no temporary of the size of X
        if not np.isfinite(array[lo : lo + _CHECK_ROWS]).all():
            return lo
    return None


def check_fitted_array(
    name: str, array: Any, shape: tuple[int | None, ...], kind: str = "f", owner: str = "the model"
) -> None:
    """Refuse an attribute of a fitted model, perhaps of a file, that is of another shape or kind.

    None in `shape` stands for any length.
    """
    sides, dtype = np.shape(array), getattr(array, "dtype", np.dtype(object))
    fits = len(sides) == len(shape) and all(w in (None, n) for w, n in zip(shape, sides))
    if not isinstance(array, np.ndarray) or not fits or dtype.kind not in kind:
        wanted = ", ".join("any" if side is None else str(side) for side in shape)
        raise ValueError(
            f"{name} of {owner} has shape {sides} and type {dtype}; an array of shape ({wanted}) "
            "is expected: fit again, or load another file"
        )


def check_label_count(X: Any, y: Any) -> None:
    """Refuse labels that are not as many as rows; what is neither is left to other checks."""
    rows, labels = _count(X), _count(y)
    if None not in (rows, labels) and rows != labels:
        raise ValueError(
            f"y has {labels} labels and X has {rows} rows (inconsistent numbers of samples); "
            "give one label per row"
        )


def labelled_rows(estimator: Any, X: Any, y: Any, **settings: Any) -> tuple[Any, NDArray[Any]]:
    """The rows of an estimator and a label for each, checked; `settings` as in `validate_data`."""
    check_label_count(X, y)
    rows, labels = validate_data(estimator, X, y, **settings)
    check_classification_targets(labels)
    return rows, labels


def labels_of(y: Any, X: Any) -> NDArray[Any]:
    """`y` as an array of one label for each row of `X`."""
    with named("y", "an array of labels"):
        labels = column_or_1d(y)
        check_label_count(X, labels)
        check_classification_targets(labels)
    return labels


def classes_of(y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes of `y`, which are at least two, and the place of each label among them."""
    classes, labels = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError("y holds one class; at least two classes are needed to tell apart")
    return classes, labels


def concatenate_labels(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Old and new labels in one array; text, dates and numbers do not mix."""
    kinds = [_KINDS.get(labels.dtype.kind, "number") for labels in (old, new)]
    if kinds[0] != kinds[1] and len(old):
        raise ValueError(
            f"y holds {new.dtype} where earlier labels are {old.dtype}; give labels of one kind"
        )
    return np.concatenate([old, new]) if len(old) else new


def _count(given: Any) -> int | None:
    """How many rows or labels were given, where that can be told without converting them."""
    if getattr(given, "shape", ()):
        return int(given.shape[0])
    return len(given) if isinstance(given, list | tuple) else None
