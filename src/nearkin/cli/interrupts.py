"""Ctrl-C: who hears it, and what a person is told then."""

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

INTERRUPTED, TERMINATED = 130, 143
GOES_ON = "what was finished is kept; the same command goes on"


class Interrupted(BaseException):
    """Ctrl-C that ends the command; KeyboardInterrupt ends the learning, and work goes on."""


STOPS = (KeyboardInterrupt, Interrupted)


def _stop(*_: object) -> None:
    raise Interrupted


@contextmanager
def listening() -> Iterator[None]:
    """Have Ctrl-C and a polite kill end the command, whatever it is at."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A kill unwinds the stack, so that files written aside are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    # What is started in the background may have been told not to listen.
    if before[signal.SIGINT] is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def learners_listen() -> Iterator[None]:
    """Have Ctrl-C end the learning alone, for those who keep what was learned so far."""
    if signal.getsignal(signal.SIGINT) is not _stop:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _stop)


@contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """Say what becomes of the work if it is interrupted."""
    try:
        yield
    except STOPS:
        raise Interrupted(advice) from None


def told(command: Callable[..., None]) -> Callable[..., None]:
    """The command; interrupted, it says so in one line."""

    @functools.wraps(command)
    def telling(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except STOPS as stop:
            typer.echo("; ".join(["interrupted", *map(str, stop.args)]), err=True)
            raise typer.Exit(INTERRUPTED) from None

    return telling
