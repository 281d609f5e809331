"""Rows, labels and ids from files (.npy, .npz, Parquet, Arrow, CSV) and tables; judgements."""

import os
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin.io.arrays import archive_headers, map_array, read_archive
from nearkin.io.arrow import read_ipc, read_parquet, read_stream
from nearkin.io.csv_files import read_csv
from nearkin.io.files import check_file, read_lines
from nearkin.io.judgements import read_judgements as _read_judgements
from nearkin.io.tables import Columns, Dataset
from nearkin.validation import expect
from nearkin.validation.parameters import checked, shown

PathLike = str | os.PathLike[str]

_BLOCK_ROWS = 16_384
_COLUMNS = {
    "label_column": expect.optional(expect.text),
    "columns": expect.optional(expect.each(expect.text, "a list of names or patterns of columns")),
    "vector_column": expect.optional(expect.text),
    "id_column": expect.optional(expect.text),
}


@checked(path=expect.path, labels=expect.optional(expect.path), **_COLUMNS)
def read(
    path: PathLike,
    labels: PathLike | None = None,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    vector_column: str | None = None,
    id_column: str | None = None,
) -> Dataset:
    r"""Read rows, and labels from the same file, one of its columns, or a separate file.

    Parameters
    ----------
    path : path
        ``.npy``: one (n, D) array. ``.npz``: arrays ``X`` and, if there are labels, ``y``.
        ``.parquet``, ``.arrow`` (``.feather``, ``.ipc``): one column of vectors, lists or lists of
        fixed size, or one column per dimension. ``.csv``: one column per dimension, called
        0, 1, 2, … if there is no header.
    labels : path, optional
        ``.npy``, or a text file with one label per line.
    label_column : str, optional
        By default a column named ``label`` or ``y``, if there is one.
    columns : list of str, optional
        The columns that are features: names, or patterns such as ``"x*"``; a ``-`` in front leaves
        columns out. By default all but labels and ids; a column that looks like an id is then
        refused.
    vector_column : str, optional
        By default the only column of lists of numbers, if there is one. A warning says so.
    id_column : str, optional
        By default, beside a column of vectors, one with the name ``id``, ``_id`` or ``doc_id``.

    Returns
    -------
    Dataset
        ``rows``, ``labels`` and ``ids``. Rows of a table are float32. What would fill more than a
        quarter of the memory is a map of a temporary file, in ``TMPDIR``.

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
    check_file(path, "a .npy, .npz, .parquet, .arrow or .csv file")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} has the suffix {path.suffix!r}; one of {', '.join(_READERS)} is "
                         "expected")  # fmt: skip
    data = reader(path, Columns(label_column, columns, vector_column, id_column))
    rows, found = data.rows, data.labels if labels is None else read_labels(labels)
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
    return Dataset(rows, found, data.ids)


@checked(**_COLUMNS)
def from_arrow(
    table: Any,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    vector_column: str | None = None,
    id_column: str | None = None,
) -> Dataset:
    """Rows, labels and ids of a table in memory, without a copy where that is possible.

    Parameters
    ----------
    table : object
        A data frame of polars or pandas, a pyarrow table, a DuckDB relation, any other object with
        ``__arrow_c_stream__``, or a Hugging Face ``Dataset``.
    label_column, columns, vector_column, id_column
        As for `read`.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"key": ["a", "b"], "embedding": [[1.0, 2.0], [3.0, 4.0]]})
    >>> data = from_arrow(table, vector_column="embedding", id_column="key")
    >>> data.rows.tolist(), data.ids.tolist()
    ([[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])
    """
    return read_stream(table, Columns(label_column, columns, vector_column, id_column))


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


@checked(path=expect.path)
def read_judgements(path: PathLike, queries: ArrayLike, documents: ArrayLike) -> NDArray[np.int64]:
    r"""Read judgements of relevance as rows: query row, document row, grade.

    Parameters
    ----------
    path : path
        TREC qrels (query id, 0, document id, grade), or three columns with tabs between them (query
        id, document id, grade) with or without a header, as BEIR has them.
    queries, documents : lists of ids
        In the order of their rows, such as the ``ids`` of `read`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "qrels.tsv"
    >>> _ = path.write_text("query-id\tcorpus-id\tscore\nq1\td7\t2\n")
    >>> read_judgements(path, ["q0", "q1"], ["d7", "d8"]).tolist()
    [[1, 0, 2]]
    """
    return _read_judgements(Path(path), queries, documents)


def read_array(path: PathLike, name: str, hint: str) -> NDArray[Any]:
    """Read the array `name` of an ``.npz`` file; the error for a file without it ends in `hint`."""
    arrays = read_archive(path, [name])
    if name not in arrays:
        held = ", ".join(archive_headers(path)) or "nothing"
        raise ValueError(f"{path} holds {held}, but no array {name}; {hint}")
    return arrays[name]


def _array(path: Path, columns: Columns) -> Dataset:
    _refuse_columns(path, columns)
    return Dataset(map_array(path))


def _refuse_columns(path: Path, columns: Columns) -> None:
    """Refuse what would have no effect."""
    names = ("label_column", "columns", "vector_column", "id_column")
    for name, value in zip(names, astuple(columns)):
        if value is not None:
            raise ValueError(f"{name}={shown(value)} is for tables, and {path} has no columns with "
                             "names; leave it out")  # fmt: skip


def _archive(path: Path, columns: Columns) -> Dataset:
    _refuse_columns(path, columns)
    rows = read_array(path, "X", "arrays X and y are expected")
    return Dataset(rows, read_archive(path, ["y"]).get("y"))


_READERS: dict[str, Callable[[Path, Columns], Dataset]] = {
    ".npy": _array,
    ".npz": _archive,
    ".parquet": read_parquet,
    ".arrow": read_ipc,
    ".feather": read_ipc,
    ".ipc": read_ipc,
    ".csv": read_csv,
}
