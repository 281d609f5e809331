"""Rows and labels from files: .npy (memory-mapped), .npz, parquet, CSV."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zlib import error as ZlibError

import numpy as np
from numpy.typing import NDArray

from nearkin.validation import expect
from nearkin.validation.parameters import checked

PathLike = str | os.PathLike[str]

_BLOCK_ROWS = 16_384
# What numpy raises on a damaged archive.
_DAMAGED = (ValueError, OSError, EOFError, AttributeError, TypeError, BadZipFile, ZlibError)


@dataclass(frozen=True)
class Dataset:
    """Rows, and their labels if the file has any."""

    rows: NDArray[Any]
    labels: NDArray[Any] | None = None


@checked(
    path=expect.path,
    labels=expect.optional(expect.path),
    label_column=expect.optional(expect.text),
)
def read(
    path: PathLike, labels: PathLike | None = None, label_column: str | None = None
) -> Dataset:
    r"""Read rows, and labels from the same file, one of its columns, or a separate file.

    Parameters
    ----------
    path : path
        ``.npy``: one (n, D) array. ``.npz``: arrays ``X`` and, if there are labels, ``y``.
        ``.parquet`` and ``.csv``: one column per dimension; labels in `label_column`, or else in
        a column named ``label`` or ``y``.
    labels : path, optional
        ``.npy``, or a text file with one label per line.
    label_column : str, optional

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("a,b,label\n1,2,cat\n3,4,dog\n")
    >>> data = read(path)
    >>> data.rows.tolist(), data.labels.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], ['cat', 'dog'])
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give a .npy, .npz, .parquet or .csv file")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} has the suffix {path.suffix!r}; one of {', '.join(_READERS)} is "
                         "expected")  # fmt: skip
    rows, own = reader(path, label_column)
    found = own if labels is None else read_labels(labels)
    if rows.ndim != 2:
        raise ValueError(
            f"{path} holds an array of shape {rows.shape}; (rows, columns) is expected"
        )
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {rows.dtype} cells; numbers are expected")
    if found is not None and (found.ndim != 1 or len(found) != len(rows)):
        held = len(found) if found.ndim == 1 else f"an array of shape {found.shape} for"
        raise ValueError(
            f"{labels or path} holds {held} labels for {len(rows)} rows; one per row is expected"
        )
    return Dataset(rows, found)


def check_finite(rows: NDArray[Any], path: PathLike) -> None:
    """Refuse NaN and infinity, naming the first such row; memory maps are read in blocks."""
    for lo in range(0, len(rows), _BLOCK_ROWS):
        finite = np.isfinite(rows[lo : lo + _BLOCK_ROWS]).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"{path} contains NaN or infinity in row {lo + int(np.argmin(finite))}; drop such "
                "rows or fill them in"
            )


@checked(path=expect.path)
def read_labels(path: PathLike) -> NDArray[Any]:
    """Read labels from a ``.npy`` file or a text file with one label per line."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give a file of labels")
    if path.suffix == ".npy":
        return _array(path, None)[0]
    try:
        return np.array(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError as reason:
        raise ValueError(f"{path} is not a text file in UTF-8 ({reason}); give one label per line, "
                         "or an .npy file") from None  # fmt: skip


def _array(path: Path, _: str | None) -> tuple[NDArray[Any], None]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False), None
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a whole .npy file of numbers ({error})") from None


@checked(path=expect.path)
def read_archive(path: PathLike) -> dict[str, NDArray[Any]]:
    """Read all arrays of an ``.npz`` file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; give an .npz file") from None
    except _DAMAGED as reason:
        raise ValueError(
            f"{path} cannot be used ({reason}); a whole .npz file of arrays is expected"
        ) from None


def read_array(path: PathLike, name: str, hint: str) -> NDArray[Any]:
    """Read the array `name` of an ``.npz`` file; the error for a file without it ends in `hint`."""
    return _entry(path, read_archive(path), name, hint)


def _entry(path: PathLike, arrays: dict[str, NDArray[Any]], name: str, hint: str) -> NDArray[Any]:
    if name not in arrays:
        held = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} holds {held}, but no array {name}; {hint}")
    return arrays[name]


def _archive(path: Path, _: str | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    arrays = read_archive(path)
    return _entry(path, arrays, "X", "arrays X and y are expected"), arrays.get("y")


def _parquet(path: Path, column: str | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import read_table
    except ImportError:
        raise ImportError("parquet files need pyarrow: pip install 'nearkin[parquet]'") from None
    try:
        table = read_table(path)
    except ArrowInvalid as error:
        raise ValueError(f"{path} is not a whole parquet file ({error})") from None
    names = table.column_names
    label, columns = _label_column(path, names, column)
    if len(columns) == 1 and str(table.schema.field(columns[0]).type).startswith(("list", "fixed")):
        rows = np.array(table[columns[0]].to_pylist(), np.float32)  # one column of vectors
    else:
        rows = _stacked(path, [table[name].to_numpy() for name in columns])
    return rows, None if label is None else np.array(table[label].to_pylist())


def _stacked(path: Path, columns: list[NDArray[Any]]) -> NDArray[np.float32]:
    if not columns:
        raise ValueError(
            f"{path} has no column besides the labels; one column per dimension is needed"
        )
    try:
        return np.column_stack(columns).astype(np.float32)
    except (ValueError, TypeError) as reason:
        raise ValueError(
            f"{path} has a column that is not numeric ({reason}); if it holds the "
            "labels, name it as the label column"
        ) from None


def _csv(path: Path, column: str | None) -> tuple[NDArray[Any], NDArray[Any] | None]:
    import csv

    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as reason:
        raise ValueError(f"{path} is not a CSV file in UTF-8 ({reason})") from None
    if len(lines) < 2:
        raise ValueError(
            f"{path} holds {len(lines)} lines; a header and at least one row is needed"
        )
    label, columns = _label_column(path, lines[0], column)
    places = [lines[0].index(name) for name in columns]
    try:
        rows = np.array([[line[p] for p in places] for line in lines[1:]], dtype=np.float32)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path} has a cell that is not a number ({error})") from None
    if label is None:
        return rows, None
    return rows, np.array([line[lines[0].index(label)] for line in lines[1:]])


def _label_column(path: Path, names: list[str], wanted: str | None) -> tuple[str | None, list[str]]:
    if wanted is not None and wanted not in names:
        raise ValueError(f"{path} has no column {wanted!r}; it has {', '.join(names[:20])}")
    label = wanted or next((name for name in ("label", "y") if name in names), None)
    return label, [name for name in names if name != label]


_READERS: dict[str, Callable[[Path, str | None], tuple[NDArray[Any], NDArray[Any] | None]]] = {
    ".npy": _array,
    ".npz": _archive,
    ".parquet": _parquet,
    ".csv": _csv,
}
