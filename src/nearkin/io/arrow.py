"""Tables of Arrow: Parquet and IPC (Feather) files, and objects that stream record batches."""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkin.io.arrays import RATIO, SMALL
from nearkin.io.batches import BatchTable, collect
from nearkin.io.tables import Columns, Dataset
from nearkin.validation.extras import missing_extra

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_VALUES = 1 << 18
_BATCH_ROWS = 65_536
_BUFFER = 1 << 16  # bytes that are read at a time of each column of a parquet file
_MAGIC = b"ARROW1"  # of an IPC file; what was written as a stream has none


def read_parquet(path: Path, columns: Columns) -> Dataset:
    """Rows, labels and ids of a Parquet file."""
    return _read_file(path, columns, "parquet", _open_parquet)


def read_ipc(path: Path, columns: Columns) -> Dataset:
    """Rows, labels and ids of an Arrow IPC file, which is mapped; Feather files are such."""
    return _read_file(path, columns, "Arrow", _open_ipc)


def read_stream(table: Any, columns: Columns) -> Dataset:
    """Rows, labels and ids of an object with ``__arrow_c_stream__``, or of a Hugging Face one."""
    pa = _pyarrow("reading tables in memory")
    if hasattr(table, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(table)
        schema, batches = reader.schema, iter(reader)
    elif hasattr(table, "with_format") and hasattr(table, "iter"):
        batches = _hugging_face(table)
        first = next(batches, None)
        if first is None:
            raise ValueError("table holds no rows; at least one is needed")
        schema, batches = first.schema, chain([first], batches)
    else:
        raise TypeError(
            f"table is a {type(table).__name__}, which does not stream Arrow batches; give a data "
            "frame of polars or pandas, a pyarrow table, a DuckDB relation, or one split of a "
            "Hugging Face dataset"
        )
    return collect(BatchTable("table", schema, lambda p: (b.select(p) for b in batches)), columns)


def _hugging_face(dataset: Any) -> Iterator["pa.RecordBatch"]:
    """Batches in the order of ``select`` and ``shuffle``, which ``dataset.data`` does not know."""
    for part in dataset.with_format("arrow").iter(_BATCH_ROWS):
        yield from part.to_batches()


def _pyarrow(what: str) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise missing_extra(what, "pyarrow", "parquet") from None
    return pyarrow


def _open_parquet(pa: Any, path: Path) -> BatchTable:
    file = pa.parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
    about, names = file.metadata, file.schema_arrow.names
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    values = sum(g.column(i).num_values for g in groups for i in range(g.num_columns))
    if 4 * values > max(SMALL, RATIO * os.path.getsize(path)):  # repeated values take no space
        raise ValueError(f"it claims {values:,} values: no data is compressed so well")
    size = min(max(1, _BATCH_VALUES * about.num_rows // max(values, 1)), _BATCH_ROWS)
    by_name = len(set(names)) == len(names) and not any("." in name for name in names)

    def batches(places: list[int]) -> Iterator["pa.RecordBatch"]:
        wanted: Any = [names[i] for i in places] if by_name else places
        for batch in file.iter_batches(size, columns=wanted if by_name else None):
            yield batch.select(wanted)

    return BatchTable(str(path), file.schema_arrow, batches)


def _open_ipc(pa: Any, path: Path) -> BatchTable:
    file = pa.memory_map(str(path))
    is_stream = file.read(len(_MAGIC)) != _MAGIC

    def reader(places: list[int] | None = None) -> Any:
        file.seek(0)
        opened = pa.ipc.open_stream if is_stream else pa.ipc.open_file
        return opened(file, options=pa.ipc.IpcReadOptions(included_fields=places))

    def batches(places: list[int]) -> Iterable["pa.RecordBatch"]:
        found = reader(places)
        return found if is_stream else map(found.get_batch, range(found.num_record_batches))

    return BatchTable(str(path), reader().schema, batches)


def _read_file(
    path: Path, columns: Columns, kind: str, open_: Callable[[Any, Path], BatchTable]
) -> Dataset:
    library = _pyarrow(f"reading {kind} files")

    def whole(make: Callable[[], Any]) -> Any:
        try:
            return make()
        except MemoryError as error:
            raise MemoryError(f"{path} wants more memory than there is ({error}); if it is not "
                              "large, it is damaged") from None  # fmt: skip
        except (library.ArrowException, OSError, ValueError) as error:
            raise ValueError(f"{path} is not a whole {kind} file ({error})") from None

    def batches(places: list[int]) -> Iterator["pa.RecordBatch"]:
        found = whole(lambda: iter(table.batches(places)))
        while (batch := whole(lambda: next(found, None))) is not None:
            whole(lambda: batch.validate(full=True))
            yield batch

    table = whole(lambda: open_(library, path))
    whole(lambda: table.schema.names)  # must be UTF-8
    return collect(BatchTable(table.source, table.schema, batches), columns)
