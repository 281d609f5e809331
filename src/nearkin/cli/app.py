"""The Typer application: its commands, its error messages and its exit codes."""

import io
import os
import sys
from typing import Annotated, Any

import typer

import nearkin
from nearkin.cli import adapters, data, info, models, pipeline, queries, serving
from nearkin.cli.interrupts import INTERRUPTED, INTERRUPTS, interrupt_handlers, report_interrupt
from nearkin.cli.plugins import add_plugins

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 failure with a one-line message, 2 invalid command line, "
    "129 hung up, 130 interrupted, 143 terminated.",
)

# Errors that the user can correct; any other exception is reported as a bug.
EXPECTED = (ValueError, OSError, ImportError, RuntimeError, TypeError, ArithmeticError, MemoryError)
FAILURE, USAGE_ERROR = 1, 2


def _version(requested: bool) -> None:
    if requested:
        typer.echo(nearkin.__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks; valid in any position.")
    ] = False,
) -> None:
    """Learn what 'similar' means: similarity learning for nearest neighbours.

    Example: nearkin run birds/ --folder runs/birds

    Example: nearkin classify runs/birds unknown/ --top 3
    """


for command in (
    data.features, data.neighbors, models.train, models.evaluate, queries.classify, queries.search,
    info.info, pipeline.plan, pipeline.run, pipeline.demo, adapters.pairs, adapters.export,
    adapters.try_, serving.serve,
):  # fmt: skip
    app.command(command.__name__.rstrip("_"))(report_interrupt(command))


def main() -> None:
    """Run the command line; an error becomes one line on standard error and an exit code."""
    add_plugins(app)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name need not be UTF-8; JSON stays JSON
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with interrupt_handlers():
            code = app(arguments, standalone_mode=False)
            sys.stdout.flush()
    except (*INTERRUPTS, typer.Abort):  # before the command started
        _exit("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of standard output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)
    except Exception as error:
        if hasattr(error, "format_message"):  # raised by the parser of the command line
            _exit_for_usage(error)
        if debug:
            raise
        _exit(f"error: {_message(error)}", FAILURE)
    sys.exit(code if isinstance(code, int) else 0)


def _exit_for_usage(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(USAGE_ERROR)
    path = error.ctx.command_path if getattr(error, "ctx", None) else "nearkin"
    message = _one_line(error.format_message()).rstrip(".")
    _exit(f"error: {message}. See '{path} --help'.", USAGE_ERROR)


def _message(error: Exception) -> str:
    if not isinstance(error, EXPECTED):
        return (
            f"unexpected {type(error).__name__} ({_one_line(str(error))}): a bug in nearkin; run "
            "the command again with --debug and report the output"
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}; check the path and its permissions"
    return _one_line(str(error)) or type(error).__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _exit(message: str, code: int) -> None:
    typer.echo(message, err=True)
    sys.exit(code)
