"""Models and queries from the paths given on the command line."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearkin.cli.encoders import load_encoder

if TYPE_CHECKING:
    from nearkin.app.finished_run import TrainedModel
    from nearkin.io.tables import Columns

BLOCK = 256  # images encoded at a time


def parse_columns(
    features: str | None, vector: str | None, ids: str | None, label: str | None = None
) -> "Columns":
    """The columns of a table; `features` are comma-separated names and patterns."""
    from nearkin.io.tables import Columns

    return Columns(label, None if features is None else features.split(","), vector, ids)


def check_output_paths(*paths: Path | None) -> None:
    """Check before any work that the files can be written at its end."""
    from nearkin.io.atomic import check_target

    for path in filter(None, paths):
        check_target(path)


def check_new_paths(**paths: Path | None) -> None:
    """Refuse to replace files that accompany a model: they may be somebody's own."""
    check_output_paths(*paths.values())
    for name, path in paths.items():
        if path is not None and path.exists():
            raise FileExistsError(f"--{name} {path} exists; give another name, or remove it")


def load_classifier(path: Path, encoder: Path | None, names: Path | None = None) -> "TrainedModel":
    """The classifier of a file or a run folder; `encoder` and `names` replace those of the run."""
    from nearkin.app.finished_run import load_trained

    trained = load_trained(path)
    if not hasattr(trained.model, "predict_top"):
        raise ValueError(f"{path} holds a {type(trained.model).__name__}, not a classifier; train "
                         "one with 'nearkin train'")  # fmt: skip
    return with_images(trained, encoder, names)


def with_images(
    trained: "TrainedModel", encoder: Path | None, names: Path | None
) -> "TrainedModel":
    """A model with the encoder and the images of its rows, if other ones than its own are given."""
    from nearkin.io.files import read_lines

    if encoder is not None:
        trained = replace(trained, encoder=load_encoder(encoder))
    if names is not None:
        lines = read_lines(names, "a text file with one path per line")
        n = len(trained.model.labels_)
        if len(lines) != n:
            raise ValueError(f"--names {names} holds {len(lines)} lines for the {n} rows of the "
                             "model; give one line per row")  # fmt: skip
        trained = replace(trained, names=lines)
    return trained


def training_rows(trained: "TrainedModel", path: Path | None, columns: "Columns") -> Any:
    """The training rows as they were given, if they are known."""
    from nearkin.app.labels import read_rows

    return trained.training_rows(None if path is None else read_rows(path, None, columns))


@dataclass(frozen=True)
class QueryRows:
    """Queries in blocks of rows, with the images that they come from or the ids of their table."""

    blocks: Iterator[Any]
    names: list[str] | None = None
    ids: list[int | str] | None = None
    unreadable: set[str] = field(default_factory=set)  # images, complete once `blocks` is exhausted


def read_queries(
    path: Path, columns: "Columns", trained: "TrainedModel", jobs: int, skip: bool
) -> QueryRows:
    """The rows of a file of vectors, an image or a folder of images."""
    from nearkin import datasets
    from nearkin.images.folder import SUFFIXES, unlabelled

    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give vectors, an image or a folder")
    if not path.is_dir() and not path.name.lower().endswith(SUFFIXES):
        data = datasets.read(path, None, *astuple(columns))
        datasets.check_finite(data.rows, path)
        return QueryRows(iter([data.rows]), ids=None if data.ids is None else data.ids.tolist())
    names, unreadable, encoder = unlabelled(path), set[str](), require_encoder(trained, path)
    blocks = _encode_blocks(names, encoder, jobs, skip, unreadable)
    return QueryRows(blocks, names, unreadable=unreadable)


def require_encoder(trained: "TrainedModel", path: Path) -> Any:
    """The encoder, which is needed for images."""
    if trained.encoder is None:
        raise ValueError(
            f"{path} holds images, and the model has no encoder for them; give --encoder FILE, or "
            "the folder of the 'nearkin run' that made the model"
        )
    return trained.encoder


def _encode_blocks(
    names: list[str], encoder: Any, jobs: int, skip: bool, unreadable: set[str]
) -> Iterator[Any]:
    from nearkin.app.encoding import encode

    for start in range(0, len(names), BLOCK):
        block = names[start : start + BLOCK]
        rows, readable = encode(encoder, block, skip, n_jobs=jobs)
        unreadable.update(name for name, use in zip(block, readable) if not use)
        yield rows
