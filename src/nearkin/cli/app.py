"""The application: commands, and what happens when one fails."""

import os
import sys
from typing import Annotated

import typer

import nearkin
from nearkin.cli import data, models, pipeline
from nearkin.cli.reproduce import reproduce

app = typer.Typer(
    help="Learn what 'similar' means: similarity learning for nearest neighbours.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Failures that a person can mend; anything else is a bug and keeps its traceback.
EXPECTED = (ValueError, OSError, ImportError, RuntimeError, TypeError, FloatingPointError)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(nearkin.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Learn what 'similar' means: similarity learning for nearest neighbours."""
    if debug:
        os.environ["NEARKIN_DEBUG"] = "1"


for command in (
    data.features, data.neighbors, models.train, models.evaluate, models.classify, models.search,
    models.info, pipeline.plan, pipeline.run, pipeline.demo, reproduce,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """Run the command line; an expected failure is one line and exit code 1."""
    try:
        app()
    except KeyboardInterrupt:
        typer.echo("interrupted; the same command goes on with what is finished", err=True)
        sys.exit(130)
    except EXPECTED as error:
        if os.environ.get("NEARKIN_DEBUG"):
            raise
        typer.echo(f"error: {' '.join(str(error).split()) or type(error).__name__}", err=True)
        sys.exit(1)
