"""Ctrl-C, SIGTERM and SIGHUP: what they end, and the message on standard error."""

import functools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import typer

INTERRUPTED = 130
_EXIT_BASE = 128  # of a process that a signal has ended, as shells report it
RESUMES = "finished work is kept; run the same command again to resume"


class Interrupted(BaseException):
    """Ctrl-C that ends the command; a learner would catch KeyboardInterrupt and return."""


INTERRUPTS = (KeyboardInterrupt, Interrupted)


def _interrupt(*_: object) -> None:
    raise Interrupted


def _terminate(number: int, _: object) -> None:
    sys.exit(_EXIT_BASE + number)


@contextmanager
def _handlers(handlers: dict[int, Any]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt_handlers() -> AbstractContextManager[None]:
    """End the command on SIGINT, SIGTERM and SIGHUP inside the block."""
    # These unwind the stack, so that temporary files are removed and workers end.
    handlers: dict[int, Any] = {signal.SIGTERM: _terminate}
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) == signal.SIG_DFL:  # nohup ignores it
        handlers[hangup] = _terminate
    # A shell may start background jobs with SIGINT ignored; leave it so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        handlers[signal.SIGINT] = _interrupt
    return _handlers(handlers)


def interrupt_learning_only() -> AbstractContextManager[None]:
    """Raise KeyboardInterrupt on SIGINT: a learner stops and keeps what it has learned."""
    is_set = signal.getsignal(signal.SIGINT) is _interrupt
    return _handlers({signal.SIGINT: signal.default_int_handler} if is_set else {})


@contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """Add advice on how to continue to an interrupt inside the block."""
    try:
        yield
    except INTERRUPTS as interrupt:
        raise Interrupted(*_known(interrupt), advice) from None


def _known(interrupt: BaseException) -> list[str]:
    """What an interrupt says of the work that it ended."""
    return [*map(str, interrupt.args), *getattr(interrupt, "__notes__", ())]


def report_interrupt(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that an interrupt prints one line and sets the exit code."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except INTERRUPTS as interrupt:
            typer.echo("; ".join(["interrupted", *_known(interrupt)]), err=True)
            raise typer.Exit(INTERRUPTED) from None

    return wrapped
