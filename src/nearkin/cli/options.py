"""Options that several commands share; those of a training are fields of `TrainingSettings`."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.app.settings import TrainingSettings

Rows = Annotated[Path, typer.Argument(help="Vectors: .npy, .npz, .parquet, .arrow or .csv.")]
Queries = Annotated[
    Path,
    typer.Argument(help="Vectors (.npy, .npz, .parquet, .arrow, .csv), images or their folder."),
]
Model = Annotated[
    Path, typer.Argument(help="Model file of 'nearkin train', or run folder of 'nearkin run'.")
]
Labels = Annotated[Path | None, typer.Option(help="Labels: .npy, or text with one per line.")]
Column = Annotated[str | None, typer.Option(help="Column of the file that holds the labels.")]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns of a table that are features: comma-separated names or patterns; -NAME "
        "leaves one out. By default all but labels and ids.",
        metavar="NAMES",
    ),
]
VectorColumn = Annotated[
    str | None, typer.Option(help="Column of lists; by default the only one, if there is one.")
]
IdColumn = Annotated[
    str | None, typer.Option(help="Column of ids; by default id, _id or doc_id beside vectors.")
]
Encoder = Annotated[
    Path | None, typer.Option(help="Encoder of images, as written by 'nearkin features'.")
]
Names = Annotated[
    Path | None, typer.Option(help="Image path of each of the model's rows, one per line.")
]
Skip = Annotated[bool, typer.Option(help="Skip images that cannot be read.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1: one per core.")]
Train = Annotated[
    Path | None,
    typer.Option(
        help="The vectors that the model was trained on, to compare with their raw cosine; the "
        "run folder of images has them.",
    ),
]
Baselines = Annotated[
    str,
    typer.Option(
        help="Comma-separated: cosine, means, ridge, lda, svm, logistic; or quick, all, none."
    ),
]


def with_training_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameters `settings` and `given` of a command by one option per setting.

    The command gets the `TrainingSettings`, and the names of those given on the command line.
    """
    signature = inspect.signature(command)
    training = [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=entry.default,
            annotation=Annotated[
                entry.type,
                typer.Option(help=entry.metadata["help"], rich_help_panel=entry.metadata["panel"]),
            ],
        )
        for entry in fields(TrainingSettings)
    ]
    own = [
        p.replace(kind=p.KEYWORD_ONLY)
        for p in signature.parameters.values()
        if p.name not in ("settings", "given")
    ]
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(command)
    def wrapped(context: typer.Context, **values: Any) -> None:
        chosen = {entry.name: values.pop(entry.name) for entry in training}
        sources = {name: context.get_parameter_source(name) for name in chosen}
        given = [
            name for name, source in sources.items() if source and source.name == "COMMANDLINE"
        ]
        command(settings=TrainingSettings(**chosen), given=given, **values)

    parameters = [context, *own, *training]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped
