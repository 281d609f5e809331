"""Rows and labels from files: .npy (memory-mapped), .npz, parquet, CSV."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.arrays import archive_headers, map_array, read_archive
from nearkin.io.files import check_file, read_lines
from nearkin.io.tables import Columns, Labelled, read_csv, read_parquet
from nearkin.validation import expect
from nearkin.validation.parameters import checked

PathLike = str | os.PathLike[str]

_BLOCK_ROWS = 16_384


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
    path: PathLike,
    labels: PathLike | None = None,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
) -> Dataset:
    r"""Read rows, and labels from the same file, one of its columns, or a separate file.

    Parameters
    ----------
    path : path
        ``.npy``: one (n, D) array. ``.npz``: arrays ``X`` and, if there are labels, ``y``.
        ``.parquet`` and ``.csv``: one column per dimension; labels in `label_column`, or else in
        a column named ``label`` or ``y``. The columns of a CSV file without a header are called
        0, 1, 2, …
    labels : path, optional
        ``.npy``, or a text file with one label per line.
    label_column : str, optional
    columns : list of str, optional
        The columns that are features: names, or patterns such as ``"x*"``; a ``-`` in front leaves
        columns out. By default all but the labels; a column that looks like an id is then refused.

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
    check_file(path, "a .npy, .npz, .parquet or .csv file")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} has the suffix {path.suffix!r}; one of {', '.join(_READERS)} is "
                         "expected")  # fmt: skip
    rows, own = reader(path, Columns(label_column, columns))
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
    if Path(path).suffix == ".npy":
        return map_array(path)
    expected = "a text file with one label per line, or an .npy file"
    return np.array(read_lines(path, expected))


def read_array(path: PathLike, name: str, hint: str) -> NDArray[Any]:
    """Read the array `name` of an ``.npz`` file; the error for a file without it ends in `hint`."""
    arrays = read_archive(path, [name])
    if name not in arrays:
        held = ", ".join(archive_headers(path)) or "nothing"
        raise ValueError(f"{path} holds {held}, but no array {name}; {hint}")
    return arrays[name]


def _array(path: Path, _: Columns) -> Labelled:
    return map_array(path), None


def _archive(path: Path, _: Columns) -> Labelled:
    rows = read_array(path, "X", "arrays X and y are expected")
    return rows, read_archive(path, ["y"]).get("y")


_READERS: dict[str, Callable[[Path, Columns], Labelled]] = {
    ".npy": _array,
    ".npz": _archive,
    ".parquet": read_parquet,
    ".csv": read_csv,
}
