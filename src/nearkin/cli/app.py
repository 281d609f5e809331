"""The application: commands, and what happens when one fails."""

import os
import sys
from typing import Annotated, Any

import typer

import nearkin
from nearkin.cli import data, info, models, pipeline
from nearkin.cli.interrupts import INTERRUPTED, STOPS, listening, told
from nearkin.cli.plugins import add_plugins

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 it failed and one line says why, 2 the command was not "
    "understood, 130 interrupted, 143 terminated.",
)

# Failures that a person can mend; anything else is a bug of ours, and says so.
EXPECTED = (ValueError, OSError, ImportError, RuntimeError, TypeError, ArithmeticError, MemoryError)
FAILED, MISUSED = 1, 2


def _version(asked: bool) -> None:
    if asked:
        typer.echo(nearkin.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")
    ] = False,
) -> None:
    """Learn what 'similar' means: similarity learning for nearest neighbours.

    Example: nearkin run birds/ --folder runs/birds

    Example: nearkin classify runs/birds unknown/ --top 3
    """


for command in (
    data.features, data.neighbors, models.train, models.evaluate, models.classify, models.search,
    info.info, pipeline.plan, pipeline.run, pipeline.demo,
):  # fmt: skip
    app.command()(told(command))


def main() -> None:
    """Run the command line; a failure is one line on standard error, and an exit code."""
    add_plugins(app)
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with listening():
            code = app(arguments, standalone_mode=False)
            sys.stdout.flush()
    except (*STOPS, typer.Abort):  # before the command began
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        if hasattr(error, "format_message"):  # the command line itself was not understood
            _misused(error)
        if debug:
            raise
        _fail(f"error: {_explained(error)}", FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _misused(error: Any) -> None:
    where = error.ctx.command_path if getattr(error, "ctx", None) else "nearkin"
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(MISUSED)
    _fail(f"error: {_one_line(error.format_message()).rstrip('.')}. See '{where} --help'.", MISUSED)


def _explained(error: Exception) -> str:
    if not isinstance(error, EXPECTED):
        return (
            f"unexpected {type(error).__name__} ({_one_line(str(error))}): a fault of nearkin; run "
            "the command again with --debug and report what it prints"
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}; check the path and who may use it"
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fail(text: str, code: int) -> None:
    typer.echo(text, err=True)
    sys.exit(code)
