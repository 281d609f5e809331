"""What the items share: where things are kept, and what an item gives back.

An item is a module with ``TITLE``, ``run(setup) -> Result`` and, if there is something to look
at, ``plots(result)`` or ``page(result)``. It keeps what was expensive (`Setup.kept`,
`Setup.array`), so that a run that was stopped goes on, and items share features, rows and
matrices.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearkin
from nearkin.io.atomic import atomic_write

Number = float | str | None


class Missing(Exception):
    """Data that an item needs is not there; the message says where to put it."""


@dataclass(frozen=True)
class Setup:
    """Where the data is, where results go, and how thorough to be."""

    data: Path
    out: Path
    quick: bool = False
    splits: int = 1
    again: bool = False
    jobs: int = 2
    say: Callable[[str], None] = print

    @property
    def cache(self) -> Path:
        """Features, rows and matrices of this size of run."""
        path = self.out / "cache" / ("quick" if self.quick else "full")
        path.mkdir(parents=True, exist_ok=True)
        return path

    def kept(self, name: str, settings: Any, make: Callable[[], Any]) -> Any:
        """The JSON value `name`, made now unless it is there and made with these settings."""
        file = self.cache / f"{name}.json"
        note = json.loads(json.dumps([nearkin.__version__, settings]))
        if file.exists() and not self.again:
            found = json.loads(file.read_text())
            if found["made_with"] == note:
                return found["value"]
        value = make()
        with atomic_write(file) as part:
            part.write_text(json.dumps({"made_with": note, "value": value}))
        return json.loads(json.dumps(value))

    def array(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array `name`, as a memory map, made now unless it is there."""
        file = self.cache / f"{name}.npy"
        if not file.exists():
            made = make()
            with atomic_write(file) as part:
                np.save(part, made)
        return np.load(file, mmap_mode="r")


@dataclass
class Cell:
    """One figure of the paper beside ours."""

    what: str
    method: str
    paper: Number
    ours: Number  # at the paper's settings
    best: Number = None  # at settings of our own, chosen on training rows
    reason: str = ""

    def beside(self, value: Number) -> str:
        """One of our figures and, if the paper has a number too, how far it is from it."""
        if isinstance(value, float) and isinstance(self.paper, float):
            return f"{value:.2f} ({value - self.paper:+.2f})"
        return shown(value)


@dataclass
class Claim:
    """Something the paper says, and whether it is so here."""

    text: str
    holds: bool | None  # None: cannot be told
    evidence: str

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "holds", False: "does not hold", None: "open"}[self.holds]


@dataclass
class Result:
    """What an item found."""

    item: str
    title: str
    cells: list[Cell] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)
    not_run: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def write(self, path: Path) -> None:
        """Everything as JSON."""
        with atomic_write(path) as part:
            part.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What `work` gives, and its seconds."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def shown(value: Number) -> str:
    """A figure as a reader wants it."""
    if value is None:
        return "–"
    return value if isinstance(value, str) else f"{value:.2f}"


def axes_of(width: float = 6.4, height: float = 4.0, columns: int = 1) -> tuple[Any, list[Any]]:
    """A matplotlib figure and its axes, with a faint grid."""
    from matplotlib.figure import Figure

    plot = Figure(figsize=(width * columns, height), layout="constrained")
    axes = list(np.atleast_1d(plot.subplots(1, columns)))
    for ax in axes:
        ax.grid(alpha=0.3)
    return plot, axes
