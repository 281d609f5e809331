"""What commands print: text for people, JSON for machines, bars for people who watch."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nearkin.app.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def emit(result: Mapping[str, Any], as_json: bool) -> None:
    """Print a result: one JSON object, or a line for each entry."""
    if as_json:
        typer.echo(json.dumps(result, ensure_ascii=False, default=str))
        return
    width = max((len(name) for name in result), default=0)
    for name, value in result.items():
        typer.echo(f"{name.replace('_', ' '):<{width}}  {_readable(value)}")


def _readable(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_readable(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_readable(item) for item in value) or "–"
    return str(value)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as one line each, without the source they come from."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        typer.echo(f"note: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "interrupted")  # of Python's options; see `interrupts`
        warnings.showwarning = show
        yield


def loud() -> int:
    """Verbosity: progress for a person at a terminal, silence for everybody else."""
    return int(sys.stderr.isatty())


def say(text: str) -> None:
    """Tell a person at a terminal what is going on."""
    if loud():
        typer.echo(text, err=True)


@contextmanager
def epoch_bar(settings: "Settings") -> Iterator[Callable[[int, Any], object] | None]:
    """A callback that moves a bar on standard error; None when nobody is looking.

    Members of an ensemble are learned elsewhere and cannot move it.
    """
    if not loud() or settings.ensemble is not None:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("learning", total=settings.epochs)
        yield lambda epoch, _: progress.update(task, completed=epoch)
