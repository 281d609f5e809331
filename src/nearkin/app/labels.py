"""Labelled vectors from files, and labels in the type of a model's classes."""

from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearkin import datasets
from nearkin.io.tables import Columns, Dataset


def read_labelled(rows: Path, labels: Path | None, columns: Columns) -> Dataset:
    """Vectors, and their labels from the same file, a column of it or a file of labels."""
    if rows.is_dir():
        raise ValueError(
            f"{rows} is a folder; 'nearkin run' takes images, and 'nearkin features' makes vectors "
            "of them"
        )
    data = read_rows(rows, labels, columns)
    if data.labels is None:
        raise ValueError(f"{rows} has no labels; give --labels FILE or --label-column NAME")
    return data


def read_rows(rows: Path, labels: Path | None, columns: Columns) -> Dataset:
    """Vectors, and their labels if there are any."""
    data = datasets.read(rows, labels or default_labels(rows), *astuple(columns))
    datasets.check_finite(data.rows, rows)
    return data


def default_labels(rows: Path) -> Path | None:
    """The file of labels that 'nearkin features' wrote next to its vectors."""
    path = rows.with_suffix(".labels.txt")
    return path if rows.suffix == ".npy" and path.exists() else None


def match_labels(y: ArrayLike, classes: NDArray[Any]) -> NDArray[Any]:
    """Labels in the type of the model's classes; numbers that a file holds as text are parsed.

    Examples
    --------
    >>> match_labels(["3", "1"], np.array([1, 2, 3])).tolist()
    [3, 1]
    """
    truth = np.asarray(y)
    if truth.dtype.kind in "US" and classes.dtype.kind in "iuf":
        with suppress(ValueError):  # then no label is a class: an error below
            truth = truth.astype(classes.dtype)
    elif truth.dtype.kind in "iu" and classes.dtype.kind == "U":
        truth = truth.astype(str)
    if not np.isin(truth, classes).any():
        raise ValueError(
            f"none of the labels ({', '.join(map(str, np.unique(truth)[:5]))} …) is a class of the "
            f"model ({', '.join(map(str, classes[:5]))} …); give rows of these classes"
        )
    return truth
