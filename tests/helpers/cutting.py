"""Let fits fail at known places."""

import pytest

from nearkin.learning import trainer


class Cut(Exception):
    pass


def cut_at(monkeypatch, nth, how=Cut):
    """Let the `nth` block from now fail, once."""
    take, calls = trainer.Trainer.take, iter(range(nth))

    def failing(self, *arguments):
        if next(calls, None) == nth - 1:
            raise how
        return take(self, *arguments)

    monkeypatch.setattr(trainer.Trainer, "take", failing)


def cut_often(monkeypatch, places, fit):
    """Let one fit after the other fail, each at its place."""
    for nth in places:
        with monkeypatch.context() as patch:
            cut_at(patch, nth)
            with pytest.raises(Cut):
                fit()
