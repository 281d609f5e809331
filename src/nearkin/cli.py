"""The command line: parse, call, print. Everything heavy is imported inside the commands."""

from pathlib import Path
from typing import Annotated

import typer

import nearkin

app = typer.Typer(
    help="Learn what 'similar' means: similarity learning for nearest neighbours.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(nearkin.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learn what 'similar' means: similarity learning for nearest neighbours."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("demo"),
) -> None:
    """Compare plain kNN, a linear SVM and SL-NE on handwritten digits, and write a report."""
    from nearkin.experiments import digits

    digits.run(out, typer.echo)


def main() -> None:
    """Run the command line."""
    app()
