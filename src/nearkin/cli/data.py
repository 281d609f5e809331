"""Commands that make data: features from images, neighbour lists from vectors."""

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli import encoders, options
from nearkin.cli.inputs import check_output_paths, parse_columns
from nearkin.cli.interrupts import RESUMES, interruptible
from nearkin.cli.output import Json, emit, plain_warnings, verbosity, write_text

if TYPE_CHECKING:
    from nearkin.io.run_folder import RunFolder

NOT_WRITTEN = "nothing was written; with --folder, the same command would resume"


def features(
    images: Annotated[Path, typer.Argument(help="Folder with one sub-folder per class, or a CSV.")],
    out: Annotated[Path, typer.Option(help="Feature file to write (.npy).")],
    encoder: options.Encoder = None,
    onnx: encoders.Onnx = None,
    output: encoders.Output = None,
    mean: encoders.Mean = None,
    scale: encoders.Scale = None,
    size: Annotated[int | None, typer.Option(help="Side of the network's input.")] = None,
    layout: Annotated[str | None, typer.Option(help="Of the network: NCHW or NHWC.")] = None,
    crop: Annotated[float, typer.Option(help="Central share of the image to encode.")] = 0.875,
    batch_size: Annotated[int, typer.Option(help="Images per call of the network.")] = 16,
    words: encoders.Words = 2048,
    word_neighbors: Annotated[int, typer.Option(help="Words that code a descriptor.")] = 5,
    pyramid: Annotated[str, typer.Option(help="Sides of the pooling grids.")] = "1,2,4",
    patch_sizes: Annotated[str, typer.Option(help="Sides of the SIFT patches.")] = "16,24,32,48",
    step: Annotated[int, typer.Option(help="Pixels between patches.")] = 6,
    beta: Annotated[float, typer.Option(help="Regularisation of the codes.")] = 1e-4,
    max_side: Annotated[int, typer.Option(help="Larger images are scaled to this side.")] = 300,
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    skip_unreadable: options.Skip = False,
    folder: Annotated[
        Path | None, typer.Option(help="Keeps unfinished work; removed at the end.")
    ] = None,
    jobs: options.Jobs = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Encode images as vectors; labels, paths and the encoder are written next to them.

    With --folder, the same command resumes an extraction that was stopped.

    Example: nearkin features birds/ --out birds.npy --folder work/ --jobs 2

    Example: nearkin features new/ --encoder birds.encoder.safetensors --out new.npy

    Example: nearkin features birds/ --onnx net.onnx --output features --out birds.npy
    """
    import nearkin
    from nearkin.app.encoding import check_names, encode
    from nearkin.images import LLC, ImageFolder
    from nearkin.io.run_folder import as_run_folder

    check_output_paths(out)
    if encoder is not None:
        used = encoders.load_encoder(encoder)
    elif onnx is not None:
        used = encoders.onnx_encoder(
            onnx, output, mean, scale, size=size, layout=layout, crop=crop, batch_size=batch_size
        )
    else:
        grids = encoders.parse_numbers(pyramid, "pyramid", int)
        patches = encoders.parse_numbers(patch_sizes, "patch-sizes", int)
        used = LLC(words, word_neighbors, grids, patches, step, beta, max_side, seed)
    work = as_run_folder(folder)
    advice = RESUMES if work.durable else NOT_WRITTEN
    fitted, labels, paths = (
        out.with_suffix(f".{end}") for end in ("encoder.safetensors", "labels.txt", "paths.txt")
    )
    with plain_warnings(), interruptible(advice), work.claim("nearkin features"):
        _check_new(work, out, labels, paths, *([] if encoder else [fitted]))
        listed = ImageFolder.from_csv(images) if images.suffix == ".csv" else ImageFolder(images)
        check_names(listed)
        if encoder is None:
            used = _fit(used, listed, work)
        target = {"folder": work.sub("rows")} if work.durable else {"out": out}
        rows, readable = encode(used, listed, skip_unreadable, **target, dtype=dtype, n_jobs=jobs)
        if not readable.any():
            out.unlink(missing_ok=True)  # rows of zeros
            raise ValueError(
                f"none of the {len(readable)} images could be used, so there are no features; "
                "check the files"
            )
        if work.durable or not readable.all():
            rows, listed = _write_rows(out, rows, readable), listed[readable]
        if encoder is None:
            nearkin.save(used, fitted)
    for path, lines in ((labels, listed.labels), (paths, listed.paths)):
        write_text(path, "".join(f"{line}\n" for line in lines))
    work.discard()
    emit({"features": str(out), "labels": str(labels), "paths": str(paths),
          "encoder": str(encoder or fitted), "rows": rows.shape[0], "columns": rows.shape[1],
          "classes": len(listed.classes), "unreadable": len(used.failed_)}, as_json)  # fmt: skip


def _check_new(work: "RunFolder", *paths: Path) -> None:
    """Refuse to replace files, except those of the extraction that is resumed."""
    outputs = work.sub("outputs")
    existing = [str(path) for path in paths if path.exists()]
    if existing and not outputs.begun:
        raise FileExistsError(
            f"{', '.join(existing)} would be replaced; delete or choose another --out"
        )
    outputs.begin({"out": [str(path.resolve()) for path in paths]})


def _fit(encoder: Any, images: Any, work: "RunFolder") -> Any:
    """The encoder, fitted now or read from the extraction that is resumed."""
    import nearkin
    from nearkin.io.fingerprint import FileDigest

    if not work.durable:
        return encoder.fit(images)
    inputs = {"encoder": type(encoder).__name__, "images": FileDigest(*images.paths)}
    inputs |= encoder.get_params()
    file = work.file("encoder.safetensors", inputs, lambda p: nearkin.save(encoder.fit(images), p))
    return nearkin.load(file)


def _write_rows(out: Path, rows: Any, selected: Any) -> Any:
    """Write the selected rows to a file."""
    import numpy as np

    from nearkin.io.atomic import atomic_write
    from nearkin.io.rows import link_or_copy, write_all

    with atomic_write(out) as temporary:
        if selected.all():
            link_or_copy(Path(rows.filename), temporary)
        else:
            blocks = np.array_split(np.flatnonzero(selected), 1 + len(selected) // 1_024)
            shape = int(selected.sum()), rows.shape[1]
            write_all(temporary, shape, rows.dtype, (rows[block] for block in blocks))
    return np.load(out, mmap_mode="r")


def neighbors(
    rows: options.Rows,
    columns: options.Columns = None,
    vector_column: options.VectorColumn = None,
    id_column: options.IdColumn = None,
    out: Annotated[Path | None, typer.Option(help="Neighbour file to write (.npz).")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder to write to instead, for large data.")
    ] = None,
    k: Annotated[int, typer.Option(help="Neighbours per row.")] = 50,
    index: Annotated[
        str, typer.Option(help="'auto', 'exact', 'cells' or a faiss index string.")
    ] = "auto",
    recall: Annotated[bool, typer.Option(help="Measure recall against exact lists.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; only with --folder.")] = 1,
    as_json: Json = False,
) -> None:
    """Find the k nearest rows of each row.

    With --folder, the search is done in shards, and the same command resumes a stopped search.
    The file holds indices and distances, and the ids of a table that has them.

    Example: nearkin neighbors birds.npy --k 100 --index IVF1024,Flat --recall --out near.npz

    Example: nearkin neighbors million.npy --k 500 --jobs 2 --folder near/
    """
    import numpy as np

    from nearkin import datasets
    from nearkin import neighbors as search
    from nearkin.io.atomic import atomic_write

    if (out is None) == (folder is None):
        raise ValueError("give --out near.npz to write a file, or --folder near/ for large data")
    if out is not None and out.suffix != ".npz":
        raise ValueError(f"--out {out} must end in .npz; a folder is given by --folder")
    check_output_paths(out)
    with plain_warnings():
        data = datasets.read(rows, None, *astuple(parse_columns(columns, vector_column, id_column)))
    X = data.rows
    with interruptible(RESUMES if folder else NOT_WRITTEN):
        distances, indices = search.nearest(
            X, k, index=index, folder=folder, n_jobs=jobs if folder else None, verbose=verbosity()
        )
    if out is not None:
        with atomic_write(out) as temporary, open(temporary, "wb") as file:
            arrays: dict[str, Any] = {"indices": indices, "distances": distances}
            np.savez(file, **arrays | ({} if data.ids is None else {"ids": data.ids}))
    result = {"neighbors": str(out or folder), "rows": len(indices), "k": k}
    emit(result | ({"recall": search.recall(X, indices)} if recall else {}), as_json)
