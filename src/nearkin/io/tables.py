"""Tables, CSV or parquet: which columns are features, which holds the labels, which are ids."""

import csv
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.validation import memory

Labelled = tuple[NDArray[Any], NDArray[Any] | None]

LABELS = ("label", "y")  # columns that hold the labels if no other is named
_ID = re.compile(r"(?i:(.*[\W_])?(id|idx|index|rowid)|unnamed: 0|)|.*[a-z](Id|ID)")
_COUNTED = 5  # rows from which on values that count up in ones are no coincidence
_NUMBERED = 4  # columns from which on a first line of 0, 1, 2, … is a header


@dataclass(frozen=True)
class Columns:
    """The columns that were chosen: of labels, and of features by names or patterns.

    A pattern is one of `fnmatch`, such as ``x*``; with a ``-`` in front it leaves columns out.
    """

    label: str | None = None
    features: Sequence[str] | None = None

    def places(self, path: Path, names: Sequence[str]) -> tuple[int | None, list[int]]:
        """The place of the labels, if there are any, and those of the features."""
        label = self._label(path, names)
        chosen = [i for i in range(len(names)) if i != label]
        if self.features is not None:
            chosen = [i for i in chosen if self._is_chosen(names[i], names)]
            for pattern in self.features:
                if not any(_matches(pattern.removeprefix("-"), name) for name in names):
                    raise ValueError(f"columns={pattern!r} is no column of {path}, which has "
                                     f"{_some(names)}")  # fmt: skip
        if not chosen:
            raise ValueError(
                f"{path} has no column besides the labels; one column per dimension is needed"
            )
        return label, chosen

    def _label(self, path: Path, names: Sequence[str]) -> int | None:
        if self.label is not None and self.label not in names:
            raise ValueError(f"{path} has no column {self.label!r}; it has {_some(names)}")
        free = (name for name in LABELS if name in names and name not in (self.features or ()))
        label = self.label if self.label is not None else next(free, None)
        if label is None:
            return None
        if names.count(label) > 1:
            raise ValueError(f"{path} has {names.count(label)} columns named {label!r}, so it is "
                             "not known which holds the labels; rename the others")  # fmt: skip
        return names.index(label)

    def _is_chosen(self, name: str, names: Sequence[str]) -> bool:
        patterns = self.features or ()
        out = [p[1:] for p in patterns if p.startswith("-") and p not in names]
        wanted = [p for p in patterns if not p.startswith("-") or p in names] or ["*"]
        return any(_matches(p, name) for p in wanted) and not any(_matches(p, name) for p in out)

    def check_id(self, path: Path, name: str, values: Any) -> None:
        """Refuse integers that tell rows apart as a feature, unless columns were chosen."""
        if self.features is None and is_id(name, values):
            raise ValueError(
                f"column {name!r} of {path} looks like an id: every row has another integer in it; "
                f"leave it out with the columns '-{name}', or keep it as a feature with '*'"
            )


def _matches(pattern: str, name: str) -> bool:
    return pattern == name or fnmatchcase(name, pattern)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:20])


def is_id(name: str, values: Any) -> bool:
    """Whether integers are all different, and named like an id or count up in ones.

    Examples
    --------
    >>> is_id("user_id", [7, 3, 9]), is_id("pixel", [7, 3, 9]), is_id("pixel", range(4, 10))
    (True, False, True)
    """
    if _ID.fullmatch(name):
        return len(values) > 1 and len(set(values)) == len(values)
    start = values[:_COUNTED]  # most columns end here
    return len(start) == _COUNTED and _counts_up(start) and _counts_up(values)


def _counts_up(values: Iterable[int]) -> bool:
    return all(int(b) - int(a) == 1 for a, b in pairwise(values))


def read_csv(path: Path, columns: Columns) -> Labelled:
    """Rows and labels of a CSV file in UTF-8, with or without a header."""
    lines = _lines(path)
    names = [name.strip() for name in lines[0]] if lines else []
    if lines and not _is_header(path, lines):
        names = [str(i) for i in range(len(names))]
        warnings.warn(f"{path} has no header: its columns are called 0 to {len(names) - 1}",
                      stacklevel=2)  # fmt: skip
        first = 1
    else:
        lines, first = lines[1:], 2
    if not lines:
        raise ValueError(f"{path} holds no rows; a header and at least one row is needed")
    label, places = columns.places(path, names)
    for place in places:
        columns.check_id(path, names[place], _integers(lines, place, names[place]))
    try:
        rows = np.array([[line[p] for p in places] for line in lines], dtype=np.float32)
    except ValueError:
        raise ValueError(_about_bad_cell(path, lines, names, places, first)) from None
    return rows, None if label is None else np.array([line[label] for line in lines])


def _lines(path: Path) -> list[list[str]]:
    """The cells of all lines, which are as many in each."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as reason:
        raise ValueError(f"{path} is not a CSV file in UTF-8 ({reason})") from None
    while lines and not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if len(line) != len(lines[0]):
            found = f"{len(line)} cells" if line else "nothing"
            raise ValueError(f"line {number} of {path} holds {found} where the first line has "
                             f"{len(lines[0])} cells; complete or remove it")  # fmt: skip
    return lines


def _is_header(path: Path, lines: list[list[str]]) -> bool:
    """Whether the first line names the columns.

    Numbers in it are a row's, unless they count up in ones, as names made by a program do.
    """
    first = lines[0]
    numbers = [number for cell in first if (number := _number(cell)) is not None]
    if not numbers:
        return True
    counting = all(float(n).is_integer() for n in numbers) and _counts_up([int(n) for n in numbers])
    if len(numbers) < len(first):  # a text that comes again below is a value, not a name
        texts = [place for place, cell in enumerate(first) if _number(cell) is None]
        again = all(any(line[p] == first[p] for line in lines[1:]) for p in texts)
        return counting and not again
    if counting and not (len(first) >= _NUMBERED and numbers[0] in (0, 1)):
        raise ValueError(
            f"the first line of {path}, {','.join(first)!r:.60}, may be a header or a row; put a "
            "line with names for the columns, not numbers, in front of it"
        )
    return counting


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _integers(lines: list[list[str]], place: int, name: str) -> list[int]:
    """A column as integers, or nothing if it holds others or cannot be an id."""
    try:
        start = [int(line[place]) for line in lines[:_COUNTED]]
        if not _ID.fullmatch(name) and not _counts_up(start):
            return []
        return [int(line[place]) for line in lines]
    except ValueError:
        return []


def _about_bad_cell(
    path: Path, lines: list[list[str]], names: list[str], places: list[int], first: int
) -> str:
    line, place = next(
        (n, p) for n, line in enumerate(lines) for p in places if _number(line[p]) is None
    )
    return (
        f"line {first + line} of {path} holds {lines[line][place]!r:.40} in column "
        f"{names[place]!r}, which is not a number; if that column holds the labels, name it as the "
        "label column"
    )


def read_parquet(path: Path, columns: Columns) -> Labelled:
    """Rows and labels of a parquet file: one column per dimension, or one column of vectors."""
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
        from pyarrow.types import is_fixed_size_list, is_integer, is_large_list, is_list
    except ImportError:
        raise ImportError("parquet files need pyarrow: pip install 'nearkin[parquet]'") from None
    try:
        file = ParquetFile(path)
        about = file.metadata
        # Repeated values take no space in the file, but do so in memory.
        size = 12 * about.num_rows * about.num_columns
        memory.check(str(path), {"reading": size}, "give the rows as an .npy file, which is mapped")
        table = file.read()
    except (ArrowInvalid, OSError) as error:
        raise ValueError(f"{path} is not a whole parquet file ({error})") from None
    names = table.column_names
    label, places = columns.places(path, names)
    types = [table.schema.field(place).type for place in places]
    lists = (is_fixed_size_list, is_large_list, is_list)
    if len(places) == 1 and any(is_kind(types[0]) for is_kind in lists):
        rows = _numbers(path, table.column(places[0]).to_pylist())
    else:
        parts = [table.column(place).to_numpy() for place in places]
        for place, kind, part in zip(places, types, parts):
            if is_integer(kind) and part.dtype.kind in "iu":  # with gaps they are floats
                columns.check_id(path, names[place], part)
        rows = _numbers(path, parts).T
    rows = np.ascontiguousarray(rows)
    return rows, None if label is None else np.array(table.column(label).to_pylist())


def _numbers(path: Path, values: Any) -> NDArray[np.float32]:
    try:
        return np.array(values, np.float32)
    except (ValueError, TypeError) as reason:
        raise ValueError(
            f"{path} has a column that is not numeric ({reason}); if it holds the "
            "labels, name it as the label column"
        ) from None
