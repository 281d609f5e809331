"""The command that describes a file or folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli.output import Json, emit, model_summary, plain_warnings
from nearkin.io.files import check_file

ROWS = (".npy", ".parquet", ".arrow", ".feather", ".ipc", ".csv")


def info(
    file: Annotated[
        Path, typer.Argument(help="A model, encoder, feature or neighbour file, or a run folder.")
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the checksum of a model of any size.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Describe a model, a feature file, a neighbour file or folder, or a run folder.

    Example: nearkin info model.safetensors
    """
    if file.is_dir():
        emit(_folder(file), as_json)
        return
    check_file(file, "a model, .npy or .npz file")
    if file.suffix == ".npz":
        result = _archive(file)
    elif file.suffix in ROWS:
        result = _rows(file)
    else:
        import nearkin

        result = model_summary(nearkin.load(file, verify=verify or None))
    emit(result, as_json)


def _rows(file: Path) -> dict[str, Any]:
    import numpy as np

    from nearkin import datasets
    from nearkin.app.labels import default_labels

    with plain_warnings():
        every = None if file.suffix == ".npy" else ["*"]  # a column that looks like an id, too
        data = datasets.read(file, default_labels(file), columns=every)
    result = {"rows": len(data.rows), "columns": data.rows.shape[1], "type": str(data.rows.dtype)}
    if data.labels is None:
        return result
    counts = np.unique(data.labels, return_counts=True)[1]
    return result | {"classes": len(counts), "rows_per_class": f"{min(counts)} to {max(counts)}"}


def _archive(file: Path) -> dict[str, Any]:
    from nearkin.io.arrays import archive_headers, read_archive

    arrays = archive_headers(file)
    if "indices" in arrays and len(arrays["indices"].shape) == 2:
        return _neighbor_lists(read_archive(file, ["indices"])["indices"])
    return {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()}


def _neighbor_lists(indices: Any) -> dict[str, Any]:
    n, k = indices.shape
    empty = sum(int((indices[lo : lo + 4_096] < 0).sum()) for lo in range(0, n, 4_096))
    return {"kind": "neighbour lists", "rows": n, "k": k, "empty_entries": empty}


def _folder(folder: Path) -> dict[str, Any]:
    from nearkin.io.marker import NAME, Marker

    if (folder / "lists.safetensors").exists():
        from nearkin.neighbors.shards import finished_lists

        return _neighbor_lists(finished_lists(folder))
    if not (folder / NAME).is_file():
        raise ValueError(f"{folder} is a folder, but not one of 'nearkin run'; give a file")
    marker = Marker.decode((folder / NAME).read_bytes(), folder)
    source = {k: v.strip("'") for k, v in marker.inputs.get("", {}).items() if k == "source"}
    files = {name: f"{(folder / name).stat().st_size:,} bytes"
             for name in marker.files if (folder / name).is_file()}  # fmt: skip
    return {"kind": "run folder", "purpose": marker.purposes.get("", "")} | source | files
