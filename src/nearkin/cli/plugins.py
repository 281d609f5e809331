"""Commands of other packages, registered as entry points of the group ``nearkin.commands``."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

import typer

from nearkin.cli.interrupts import report_interrupt

GROUP = "nearkin.commands"
_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def add_plugins(app: typer.Typer) -> None:
    """Add the registered commands to the application."""
    for entry in entry_points(group=GROUP):
        try:
            app.command(entry.name)(report_interrupt(entry.load()))
        except Exception as error:  # reported when this command is called, not at every start
            app.command(entry.name, context_settings=_ANY_ARGUMENTS)(_unavailable(entry, error))


def _unavailable(entry: EntryPoint, error: Exception) -> Callable[[], None]:
    def fail() -> None:
        """Not available: its module cannot be imported."""
        raise ImportError(
            f"the command {entry.name!r} ({entry.value}) cannot be imported: {error!r}; "
            "reinstall the package that provides it"
        ) from error

    return fail
