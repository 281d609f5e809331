"""Record batches of Arrow to rows, labels and ids; errors name the column and the row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.io.rows import GrowingRows
from nearkin.io.tables import COUNTED, Columns, Dataset, Places, may_be_id
from nearkin.validation import memory
from nearkin.validation.arrays import first_not_finite

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_ROWS = 16_384


@dataclass(frozen=True)
class BatchTable:
    """A table whose batches are read once."""

    source: str  # what messages call it
    schema: "pa.Schema"
    batches: Callable[[list[int]], Iterable["pa.RecordBatch"]]  # with the columns at these places

    def about(self, place: int) -> str:
        """What messages call a column."""
        return f"column {self.schema.names[place]!r} of {self.source}"


def collect(table: BatchTable, columns: Columns) -> Dataset:
    """The rows, and labels and ids if there are any."""
    names, types = table.schema.names, [_plain_type(kind) for kind in table.schema.types]
    places = columns.places(table.source, names, _vector_places(types))
    _check_types(table, places, types)
    rows, suspects = GrowingRows(), _IdSuspects(table, places, types, columns)
    cells: dict[int, list[NDArray[Any]]] = {place: [] for place in places.named}
    n = width = 0
    for batch in table.batches(places.used):
        arrays = {
            place: _stored(array, table.about(place), n)
            for place, array in zip(places.used, batch.columns)
        }
        for place, parts in cells.items():
            # Copied: to keep a part of a batch would be to keep all of it.
            parts.append(np.array(_cells(arrays[place])))
        features = [arrays[place] for place in places.features]
        if places.vectors and len(batch):
            width = width or len(features[0][0])
            rows.append(_vectors(features[0], width, table.about(places.features[0]), n))
        elif len(batch):
            suspects.add(arrays)
            for block in _blocks(features):
                rows.append(block)
        n += len(batch)
    if n == 0:
        raise ValueError(f"{table.source} holds no rows; at least one is needed")
    suspects.check()
    labels, ids = (
        None if place is None else _joined(cells[place], table.about(place))
        for place in (places.label, places.id)
    )
    whole = rows.finish()
    _check_finite(whole, table, places)
    return Dataset(whole, labels, ids)


def _plain_type(kind: "pa.DataType") -> "pa.DataType":
    """The type of what is stored, where a category or an extension stands for it."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    return kind.value_type if types.is_dictionary(kind) else kind


def _vector_places(types: Sequence["pa.DataType"]) -> list[int]:
    """Where lists of floats are; if there are none, lists of integers."""
    from pyarrow.types import is_floating, is_integer

    lists = {i: kind.value_type for i, kind in enumerate(types) if _is_list(kind)}
    floats = [i for i, kind in lists.items() if is_floating(kind)]
    return floats or [i for i, kind in lists.items() if is_integer(kind)]


def _is_list(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return any(
        is_kind(kind) for is_kind in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


def _is_text(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return any(
        is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_string_view)
    )


def _check_types(table: BatchTable, places: Places, kinds: Sequence["pa.DataType"]) -> None:
    from pyarrow import types

    for place in places.named:
        kind = kinds[place]
        if not (_is_text(kind) or types.is_integer(kind) or types.is_boolean(kind)
                or (types.is_floating(kind) and place == places.label)):  # fmt: skip
            raise ValueError(f"{table.about(place)} holds {kind}; labels and ids are whole numbers "
                             "or text")  # fmt: skip
    if places.vectors:
        return
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    for place in places.features:
        if not any(is_kind(kinds[place]) for is_kind in numeric):
            raise ValueError(
                f"{table.about(place)} holds {kinds[place]}, which is not numeric; if it holds the "
                "labels, name it as the label column, if it holds ids, as the id column, or leave "
                f"it out with the columns '-{table.schema.names[place]}'"
            )


def _stored(array: Any, about: str, first: int) -> Any:
    """What an extension stands for, without nulls; `first` is the row that it starts with."""
    array = getattr(array, "storage", array)
    _refuse_nulls(array, 1, about, first)
    if hasattr(array, "dictionary") and array.dictionary.null_count:
        _refuse_nulls(array.dictionary.take(array.indices), 1, about, first)
    return array


def _refuse_nulls(array: Any, per_row: int, about: str, first: int) -> None:
    if array.null_count:
        place = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise ValueError(
            f"{about} holds null in row {first + place // per_row}; drop such rows or fill them in"
        )


def _vectors(lists: Any, width: int, about: str, first: int) -> NDArray[Any]:
    """Lists as an array with a row for each; not copied unless the numbers are bits."""
    lengths = lists.value_lengths().to_numpy()
    other = lengths != width
    if other.any() or width == 0:
        place = int(np.argmax(other))
        raise ValueError(
            f"{about} holds a list of {lengths[place]} numbers in row {first + place}, where the "
            f"first row has {width}; vectors of one length are expected, not empty"
        )
    flat = lists.flatten()
    _refuse_nulls(flat, width, about, first)
    found: NDArray[Any] = flat.to_numpy(zero_copy_only=False).reshape(-1, width)
    return found


def _blocks(columns: Sequence[Any]) -> Iterator[NDArray[np.float32]]:
    """Columns side by side, some rows at a time."""
    parts = [_cells(column) for column in columns]
    for lo in range(0, len(parts[0]), _BLOCK_ROWS):
        block = np.empty((len(parts[0][lo : lo + _BLOCK_ROWS]), len(parts)), np.float32)
        with np.errstate(over="ignore"):
            for place, part in enumerate(parts):
                block[:, place] = part[lo : lo + _BLOCK_ROWS]
        yield block


def _cells(array: Any) -> NDArray[Any]:
    """Numbers or text."""
    from pyarrow import float64, types

    if types.is_dictionary(array.type):
        found: NDArray[Any] = _cells(array.dictionary)[array.indices.to_numpy()]
    elif _is_text(array.type):
        found = np.array(array.to_pylist(), np.str_)
    else:
        numbers = array.cast(float64()) if types.is_decimal(array.type) else array
        found = numbers.to_numpy(zero_copy_only=False)
    return found


def _joined(parts: Sequence[NDArray[Any]], about: str) -> NDArray[Any]:
    """All cells of a column; text takes as much memory as its longest entry, times the rows."""
    size = max(part.itemsize for part in parts) * sum(len(part) for part in parts)
    memory.check(about, {"reading": size}, "give shorter texts, or numbers")
    return np.concatenate(parts)


class _IdSuspects:
    """Columns of integers that may be ids, and no features, from what their first rows hold."""

    def __init__(
        self, table: BatchTable, places: Places, types: Sequence[Any], columns: Columns
    ) -> None:
        from pyarrow.types import is_integer

        self._table, self._columns = table, columns
        self._parts: dict[int, list[Any]] = {
            p: [] for p in places.features if is_integer(types[p]) and columns.features is None
        }

    def add(self, arrays: dict[int, Any]) -> None:
        """Keep what may be ids."""
        for place in list(self._parts):
            part = np.array(_cells(arrays[place]))
            name = self._table.schema.names[place]
            if self._parts[place] or may_be_id(name, part[:COUNTED].tolist()):
                self._parts[place].append(part)
            else:
                del self._parts[place]

    def check(self) -> None:
        """Refuse ids as features."""
        for place, parts in self._parts.items():
            name = self._table.schema.names[place]
            self._columns.check_id(self._table.source, name, np.concatenate(parts))


def _check_finite(rows: NDArray[np.float32], table: BatchTable, places: Places) -> None:
    lo = first_not_finite(rows)
    if lo is None:
        return
    row, column = np.argwhere(~np.isfinite(rows[lo : lo + _BLOCK_ROWS]))[0].tolist()
    place = places.features[0 if places.vectors else column]
    raise ValueError(
        f"{table.about(place)} holds {rows[lo + row, column]} in row {lo + row}; drop such rows or "
        "fill them in"
    )
