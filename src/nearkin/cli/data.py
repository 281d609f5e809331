"""Commands that make data: features from images, neighbour lists from vectors."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nearkin.cli.inputs import places
from nearkin.cli.interrupts import GOES_ON, interruptible
from nearkin.cli.options import Encoder, Jobs, Rows, Skip
from nearkin.cli.output import Json, emit, loud, plain_warnings

if TYPE_CHECKING:
    from nearkin.io.run_folder import RunFolder

LOST = "nothing is written; with --folder the same command goes on"

Onnx = Annotated[Path | None, typer.Option(help="Use this ONNX network, not LLC.")]
Output = Annotated[str | None, typer.Option(help="Output of the network.")]
Mean = Annotated[
    str | None, typer.Option(help="Of the network, one number or three: 123.7,116.3,103.5.")
]
Scale = Annotated[
    str | None, typer.Option(help="Of the network, one number or three: 58.4,57.1,57.4.")
]
Words = Annotated[int, typer.Option(help="Words of the LLC codebook.")]


def features(
    images: Annotated[Path, typer.Argument(help="Folder with a sub-folder a class, or a CSV.")],
    out: Annotated[Path, typer.Option(help="Feature file to write (.npy).")],
    encoder: Encoder = None,
    onnx: Onnx = None,
    output: Output = None,
    mean: Mean = None,
    scale: Scale = None,
    size: Annotated[int | None, typer.Option(help="Side of the network's input.")] = None,
    layout: Annotated[str | None, typer.Option(help="Of the network: NCHW or NHWC.")] = None,
    crop: Annotated[float, typer.Option(help="Share of the image the network sees.")] = 0.875,
    batch_size: Annotated[int, typer.Option(help="Images a run of the network.")] = 16,
    words: Words = 2048,
    word_neighbors: Annotated[int, typer.Option(help="Words a descriptor is written with.")] = 5,
    pyramid: Annotated[str, typer.Option(help="Sides of the pooling grids.")] = "1,2,4",
    patch_sizes: Annotated[str, typer.Option(help="Sides of the SIFT patches.")] = "16,24,32",
    step: Annotated[int, typer.Option(help="Pixels between patches.")] = 8,
    beta: Annotated[float, typer.Option(help="Regularisation of the codes.")] = 1e-4,
    max_side: Annotated[int, typer.Option(help="Longer images are shrunk to it.")] = 300,
    dtype: Annotated[str, typer.Option(help="float32 or float16.")] = "float32",
    skip_unreadable: Skip = False,
    folder: Annotated[
        Path | None, typer.Option(help="Keeps unfinished work; removed when all is written.")
    ] = None,
    jobs: Jobs = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Turn a folder of images into vectors; labels, paths and encoder are written beside them.

    With --folder, an extraction that was stopped goes on when the same command is given again.

    Example: nearkin features birds/ --out birds.npy --folder work/ --jobs 2

    Example: nearkin features new/ --encoder birds.encoder.safetensors --out new.npy

    Example: nearkin features birds/ --onnx net.onnx --output features --out birds.npy
    """
    import nearkin
    from nearkin.app.encoding import encode
    from nearkin.images import ImageFolder
    from nearkin.io.run_folder import as_run_folder

    places(out)
    if encoder is not None:
        used = nearkin.load(encoder)
        if not hasattr(used, "encode"):
            raise ValueError(f"{encoder} holds a {type(used).__name__}, not an encoder of images")
    elif onnx is not None:
        used = network(
            onnx, output, mean, scale, size=size, layout=layout, crop=crop, batch_size=batch_size
        )
    else:
        from nearkin.images import LLC

        grids, patches = numbers(pyramid, "pyramid", int), numbers(patch_sizes, "patch-sizes", int)
        used = LLC(words, word_neighbors, grids, patches, step, beta, max_side, seed)
    work = as_run_folder(folder)
    after = (
        GOES_ON if work.durable else "nothing is written; with --folder the same command goes on"
    )
    fitted, labels, paths = (
        out.with_suffix(f".{end}") for end in ("encoder.safetensors", "labels.txt", "paths.txt")
    )
    with plain_warnings(), interruptible(after), work.claim("nearkin features"):
        _check_new(work, out, labels, paths, *([] if encoder else [fitted]))
        listed = ImageFolder.from_csv(images) if images.suffix == ".csv" else ImageFolder(images)
        if encoder is None:
            used = _fitted(used, listed, work)
        where = {"folder": work.sub("rows")} if work.durable else {"out": out}
        rows, kept = encode(used, listed, skip_unreadable, **where, dtype=dtype, n_jobs=jobs)
        if not kept.any():
            out.unlink(missing_ok=True)  # rows of zeros, written just now
            raise ValueError(f"none of the {len(kept)} images could be used; no features are left")
        if work.durable or not kept.all():
            rows, listed = _write_rows(out, rows, kept), listed[kept]
        if encoder is None:
            nearkin.save(used, fitted)
    _write_lines(labels, listed.labels)
    _write_lines(paths, listed.paths)
    work.discard()
    emit({"features": str(out), "labels": str(labels), "paths": str(paths),
          "encoder": str(encoder or fitted), "rows": rows.shape[0], "columns": rows.shape[1],
          "classes": len(listed.classes), "unreadable": len(used.failed_)}, as_json)  # fmt: skip


def _check_new(work: "RunFolder", *paths: Path) -> None:
    """Refuse to replace files, unless they are those of the work that is resumed."""
    inputs = {"out": [str(path.resolve()) for path in paths]}
    if work.read("begun", inputs) is not None:
        return
    there = [str(path) for path in paths if path.exists()]
    if there:
        raise FileExistsError(
            f"{', '.join(there)} would be replaced; delete or choose another --out"
        )
    work.write("begun", inputs, {})


def _fitted(encoder: Any, images: Any, work: "RunFolder") -> Any:
    """The encoder, fitted now or, when an extraction is resumed, as it was fitted then."""
    import nearkin
    from nearkin.io.fingerprint import FileDigest

    if not work.durable:
        return encoder.fit(images)
    inputs = {"encoder": type(encoder).__name__, "images": FileDigest(*images.paths)}
    inputs |= encoder.get_params()
    file = work.file("encoder.safetensors", inputs, lambda p: nearkin.save(encoder.fit(images), p))
    return nearkin.load(file)


def _write_rows(out: Path, rows: Any, kept: Any) -> Any:
    """Write the rows that are kept to a file."""
    import numpy as np

    from nearkin.io.atomic import atomic_write
    from nearkin.io.rows import link_or_copy, write_all

    with atomic_write(out) as temporary:
        if kept.all():
            link_or_copy(Path(rows.filename), temporary)
        else:
            blocks = np.array_split(np.flatnonzero(kept), 1 + len(kept) // 1_024)
            shape = int(kept.sum()), rows.shape[1]
            write_all(temporary, shape, rows.dtype, (rows[block] for block in blocks))
    return np.load(out, mmap_mode="r")


def network(
    path: Path, output: str | None, mean: str | None, scale: str | None, **more: Any
) -> Any:
    """An ONNX encoder with what was said about it."""
    from nearkin.images import OnnxEncoder

    given = {"mean": mean, "scale": scale}
    values = {name: numbers(text, name, float) for name, text in given.items() if text is not None}
    more |= {name: value[0] if len(value) == 1 else value for name, value in values.items()}
    return OnnxEncoder(str(path.absolute()), output=output, **more).fit()


def numbers(text: str, name: str, kind: Any) -> tuple[Any, ...]:
    """Numbers between commas."""
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{name} {text!r}: numbers between commas are expected") from None


def _write_lines(path: Path, lines: Iterable[object]) -> None:
    from nearkin.io.atomic import atomic_write

    with atomic_write(path) as aside:
        aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def neighbors(
    rows: Rows,
    out: Annotated[Path | None, typer.Option(help="Neighbour file to write (.npz).")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder to write to instead, for large data.")
    ] = None,
    k: Annotated[int, typer.Option(help="Neighbours a row.")] = 50,
    index: Annotated[
        str, typer.Option(help="'auto', 'exact', 'cells' or a faiss index string.")
    ] = "auto",
    recall: Annotated[bool, typer.Option(help="Measure recall against exact lists.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes that share the work on a folder.")] = 1,
    as_json: Json = False,
) -> None:
    """Find the k nearest rows of each row.

    Into a folder, the work is done in shards: a second call goes on where the first was stopped.

    Example: nearkin neighbors birds.npy --k 100 --index IVF1024,Flat --recall --out near.npz

    Example: nearkin neighbors million.npy --k 500 --jobs 2 --folder near/
    """
    import numpy as np

    from nearkin import datasets
    from nearkin import neighbors as search
    from nearkin.io.atomic import atomic_write

    if (out is None) == (folder is None):
        raise ValueError("give --out near.npz to write a file, or --folder near/ for large data")
    if out is not None:
        if out.suffix != ".npz":
            raise ValueError(f"--out {out} must end in .npz; a folder is given by --folder")
        places(out)
        X = datasets.read(rows).rows
        with interruptible(LOST):
            distances, indices = search.nearest(X, k, index=index, verbose=loud())
        with atomic_write(out) as aside, open(aside, "wb") as file:
            np.savez(file, indices=indices, distances=distances)
    else:
        X = datasets.read(rows).rows
        with interruptible(GOES_ON):
            _, indices = search.nearest(
                X, k, index=index, folder=folder, n_jobs=jobs, verbose=loud()
            )
    result = {"neighbors": str(out or folder), "rows": len(indices), "k": k}
    emit(result | ({"recall": search.recall(X, indices)} if recall else {}), as_json)
