"""Ctrl-C and SIGTERM: what they end, and the message on standard error."""

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

INTERRUPTED, TERMINATED = 130, 143
RESUMES = "finished work is kept; run the same command again to resume"


class Interrupted(BaseException):
    """Ctrl-C that ends the command; a learner would catch KeyboardInterrupt and return."""


INTERRUPTS = (KeyboardInterrupt, Interrupted)


def _interrupt(*_: object) -> None:
    raise Interrupted


@contextmanager
def interrupt_handlers() -> Iterator[None]:
    """End the command on SIGINT and SIGTERM inside the block."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # SIGTERM unwinds the stack, so that temporary files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    # A shell may start background jobs with SIGINT ignored; leave it so.
    if before[signal.SIGINT] is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupt_learning_only() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT: a learner stops and keeps what it has learned."""
    if signal.getsignal(signal.SIGINT) is not _interrupt:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _interrupt)


@contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """Add advice on how to continue to an interrupt inside the block."""
    try:
        yield
    except INTERRUPTS:
        raise Interrupted(advice) from None


def report_interrupt(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that an interrupt prints one line and sets the exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except INTERRUPTS as interrupt:
            typer.echo("; ".join(["interrupted", *map(str, interrupt.args)]), err=True)
            raise typer.Exit(INTERRUPTED) from None

    return wrapped
