"""Options that several commands share; those of a training come from `Settings`."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

Rows = Annotated[Path, typer.Argument(help="Vectors: .npy, .npz, .parquet or .csv.")]
Queries = Annotated[
    Path, typer.Argument(help="Vectors (.npy, .npz, .parquet, .csv), an image or a folder of them.")
]
Model = Annotated[
    Path, typer.Argument(help="A model that 'nearkin train' wrote, or a folder of 'nearkin run'.")
]
Labels = Annotated[Path | None, typer.Option(help="Labels: .npy, or a label a line.")]
Column = Annotated[str | None, typer.Option(help="Column of the file that holds the labels.")]
Encoder = Annotated[
    Path | None, typer.Option(help="Encoder for images, as 'nearkin features' writes it.")
]
Skip = Annotated[bool, typer.Option(help="Leave out images that cannot be read.")]
Jobs = Annotated[int, typer.Option(help="Processes; -1 is one for each core.")]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of `Settings`, and itself `settings` and `given`."""
    # The command line must start at once; `Settings` alone costs nothing.
    from nearkin.app.settings import Settings

    own = inspect.signature(command)
    shared = [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=entry.default,
            annotation=Annotated[
                entry.type,
                typer.Option(help=entry.metadata["help"], rich_help_panel=entry.metadata["panel"]),
            ],
        )
        for entry in fields(Settings)
    ]
    kept = [
        p.replace(kind=p.KEYWORD_ONLY)
        for p in own.parameters.values()
        if p.name not in ("settings", "given")
    ]
    call = inspect.Parameter("call", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    @functools.wraps(command)
    def told(call: typer.Context, **values: Any) -> None:
        chosen = {entry.name: values.pop(entry.name) for entry in shared}
        named = [name for name in chosen if _was_given(call, name)]
        command(settings=Settings(**chosen), given=named, **values)

    parameters = [call, *kept, *shared]
    told.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {p.name: p.annotation for p in parameters}
    return told


def _was_given(call: typer.Context, name: str) -> bool:
    source = call.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
