"""Rows, labels, images and models from what a person names on the command line."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nearkin.app.pipeline import Finished

BLOCK = 256  # images encoded before their rows are used


def places(*paths: Path | None) -> None:
    """Refuse at once what could not be written at the end."""
    from nearkin.io.atomic import check_target

    for path in paths:
        if path is not None:
            check_target(path)


def labelled(rows: Path, labels: Path | None, column: str | None) -> tuple[Any, Any]:
    """Vectors and their labels: from the file, a column, a file of their own or one beside."""
    from nearkin import datasets

    if rows.is_dir():
        raise ValueError(
            f"{rows} is a folder; 'nearkin run' takes images, and 'nearkin features' makes vectors "
            "of them"
        )
    data = datasets.read(rows, labels or beside(rows), column)
    if data.labels is None:
        raise ValueError(f"{rows} has no labels; give --labels FILE or --label-column NAME")
    datasets.check_finite(data.rows, rows)
    return data.rows, data.labels


def beside(rows: Path) -> Path | None:
    """The labels that 'nearkin features' wrote beside its vectors."""
    path = rows.with_suffix(".labels.txt")
    return path if rows.suffix == ".npy" and path.exists() else None


def opened(model: Path, encoder: Path | None = None) -> "Finished":
    """The classifier in a file or a run folder, and the encoder for images."""
    import nearkin
    from nearkin.app import pipeline

    found = pipeline.opened(model) if model.is_dir() else pipeline.Finished(nearkin.load(model))
    if not hasattr(found.model, "predict_top"):
        raise ValueError(f"{model} holds a {type(found.model).__name__}, not a classifier; train "
                         "one with 'nearkin train'")  # fmt: skip
    if encoder is None:
        return found
    loaded = nearkin.load(encoder)
    if not hasattr(loaded, "encode"):
        raise ValueError(f"{encoder} holds a {type(loaded).__name__}, not an encoder of images; "
                         "'nearkin features' writes one")  # fmt: skip
    return pipeline.Finished(found.model, loaded, found.names)


@dataclass(frozen=True)
class Asked:
    """Rows to ask a model about, in blocks, with the images they come from."""

    blocks: Iterator[Any]
    names: list[str] | None
    lost: set[str]  # images without a row of their own, known once the blocks have been used


def asked(path: Path, found: "Finished", jobs: int = 1, skip: bool = False) -> Asked:
    """The rows of a file of vectors, of an image or of a folder of images."""
    from nearkin import datasets
    from nearkin.images.folder import SUFFIXES, unlabelled

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give vectors, an image or a folder")
    if not path.is_dir() and not path.name.lower().endswith(SUFFIXES):
        rows = datasets.read(path).rows
        datasets.check_finite(rows, path)
        return Asked(iter([rows]), None, set())
    names, lost = unlabelled(path), set[str]()
    return Asked(_encoded(names, needed(found, path), jobs, skip, lost), names, lost)


def needed(found: "Finished", path: Path) -> Any:
    """The encoder, without which images are no use."""
    if found.encoder is None:
        raise ValueError(
            f"{path} holds images, and the model alone cannot read them; give --encoder FILE, or "
            "the folder of the 'nearkin run' that made it"
        )
    return found.encoder


def _encoded(
    names: list[str], encoder: Any, jobs: int, skip: bool, lost: set[str]
) -> Iterator[Any]:
    from nearkin.app.encoding import encode

    for start in range(0, len(names), BLOCK):
        part = names[start : start + BLOCK]
        rows, kept = encode(encoder, part, skip, n_jobs=jobs)
        lost.update(name for name, use in zip(part, kept) if not use)
        yield rows
