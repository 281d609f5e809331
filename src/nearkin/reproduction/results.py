"""What an item returns: figures beside the paper's, and the paper's claims.

An item is a module with ``TITLE``, ``run(setup) -> Result`` and optionally ``plots(result)`` or
``page(result)``.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nearkin.validation.extras import missing_extra

Number = float | str | None


@dataclass
class Cell:
    """One figure of the paper beside ours."""

    what: str
    method: str
    paper: Number
    ours: Number  # at the paper's settings
    best: Number = None  # at our own settings, selected on training rows
    reason: str = ""

    def beside(self, value: Number) -> str:
        """One of our figures, with its difference from the paper's where there is one."""
        if isinstance(value, float) and isinstance(self.paper, float):
            return f"{value:.2f} ({value - self.paper:+.2f})"
        return shown(value)


@dataclass
class Claim:
    """A statement of the paper, and whether our measurements confirm it."""

    text: str
    holds: bool | None  # None: undecided
    evidence: str
    why: str = ""  # if it does not hold: what an experiment says

    @property
    def verdict(self) -> str:
        """`holds` in words."""
        return {True: "holds", False: "does not hold", None: "open"}[self.holds]


@dataclass
class Result:
    """The outcome of an item."""

    item: str
    title: str
    cells: list[Cell] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def json(self) -> str:
        """Everything as JSON."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of `work`, and its seconds."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def shown(value: Number) -> str:
    """A figure as text."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.2f}"


def axes_of(width: float = 6.4, height: float = 4.0, columns: int = 1) -> tuple[Any, list[Any]]:
    """A matplotlib figure and its axes, with a faint grid."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("a figure", "matplotlib", "paper") from None
    plot = Figure(figsize=(width * columns, height), layout="constrained")
    axes = list(np.atleast_1d(plot.subplots(1, columns)))
    for ax in axes:
        ax.grid(alpha=0.3)
    return plot, axes
