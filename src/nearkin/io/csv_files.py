"""CSV files: one column per dimension, with or without a header."""

import csv
import warnings
from pathlib import Path

import numpy as np

from nearkin.io.tables import COUNTED, Columns, Dataset, counts_up, may_be_id

_NUMBERED = 4  # columns from which on a first line of 0, 1, 2, … is a header


def read_csv(path: Path, columns: Columns) -> Dataset:
    """Rows, labels and ids of a CSV file in UTF-8, with or without a header."""
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
    places = columns.places(str(path), names)
    for place in places.features:
        columns.check_id(str(path), names[place], _integers(lines, place, names[place]))
    try:
        rows = np.array([[line[p] for p in places.features] for line in lines], dtype=np.float32)
    except ValueError:
        raise ValueError(_about_bad_cell(path, lines, names, places.features, first)) from None
    labels, ids = (
        None if place is None else np.array([line[place] for line in lines])
        for place in (places.label, places.id)
    )
    return Dataset(rows, labels, ids)


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
    counting = all(float(n).is_integer() for n in numbers) and counts_up([int(n) for n in numbers])
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
        if not may_be_id(name, [int(line[place]) for line in lines[:COUNTED]]):
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
        "label column, and if it holds ids, as the id column"
    )
