"""The command line: parse, call, print. Everything heavy is imported inside the commands."""

from nearkin.cli.app import main

__all__ = ["main"]
