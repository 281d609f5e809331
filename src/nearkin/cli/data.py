"""Commands that make data: features from images, neighbour lists from vectors."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli.output import Json, emit, loud, plain_warnings

Rows = Annotated[Path, typer.Argument(help="Vectors: .npy, .npz, .parquet or .csv.")]


def features(
    images: Annotated[Path, typer.Argument(help="Folder with a sub-folder a class, or a CSV.")],
    out: Annotated[Path, typer.Option(help="Feature file to write (.npy).")],
    onnx: Annotated[Path | None, typer.Option(help="Use this ONNX network, not LLC.")] = None,
    output: Annotated[str | None, typer.Option(help="Output of the network.")] = None,
    mean: Annotated[float | None, typer.Option(help="Subtracted from the pixels.")] = None,
    scale: Annotated[float | None, typer.Option(help="Pixels are divided by it.")] = None,
    words: Annotated[int, typer.Option(help="Words of the LLC codebook.")] = 2048,
    skip_unreadable: Annotated[bool, typer.Option(help="Leave out what cannot be read.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Turn a folder of images into vectors; the labels are written beside them.

    Example: nearkin features birds/ --out birds.npy --jobs 2
    """
    from nearkin.images import ImageFolder

    with plain_warnings():
        folder = ImageFolder.from_csv(images) if images.suffix == ".csv" else ImageFolder(images)
        on_error = "skip" if skip_unreadable else "raise"
        if onnx is None:
            from nearkin.images import LLC

            llc = LLC(n_words=words, random_state=seed).fit(folder)
            rows = llc.transform(folder, out=out, n_jobs=jobs, on_error=on_error)
        else:
            from nearkin.images import OnnxEncoder

            given: dict[str, Any] = {"output": output, "mean": mean, "scale": scale}
            encoder = OnnxEncoder(onnx, **{k: v for k, v in given.items() if v is not None})
            rows = encoder.transform(folder, out=out, on_error=on_error)
    labels = write_labels(out, folder.labels)
    emit({"features": str(out), "labels": str(labels), "rows": rows.shape[0],
          "columns": rows.shape[1], "classes": len(folder.classes)}, as_json)  # fmt: skip


def write_labels(features_path: Path, labels: object) -> Path:
    """Write labels beside a feature file, a label a line."""
    from nearkin._files import replacing

    path = features_path.with_suffix(".labels.txt")
    with replacing(path) as aside:
        aside.write_text("".join(f"{label}\n" for label in labels), encoding="utf-8")  # type: ignore[attr-defined]
    return path


def neighbors(
    rows: Rows,
    out: Annotated[Path, typer.Option(help="Neighbour file to write (.npz).")],
    k: Annotated[int, typer.Option(help="Neighbours a row.")] = 50,
    index: Annotated[str, typer.Option(help="'auto', 'exact' or a faiss index string.")] = "auto",
    recall: Annotated[bool, typer.Option(help="Measure recall against exact lists.")] = False,
    as_json: Json = False,
) -> None:
    """Find the k nearest rows of each row.

    Example: nearkin neighbors birds.npy --k 100 --index IVF1024,Flat --recall --out near.npz
    """
    import numpy as np

    from nearkin import datasets
    from nearkin import neighbors as search
    from nearkin._files import replacing

    X = datasets.read(rows).rows
    indices, distances = search.nearest(X, k, index=index, verbose=loud())
    with replacing(out) as aside, open(aside, "wb") as file:
        np.savez(file, indices=indices, distances=distances)
    result = {"neighbors": str(out), "rows": len(indices), "k": k}
    emit(result | ({"recall": search.recall(X, indices)} if recall else {}), as_json)
