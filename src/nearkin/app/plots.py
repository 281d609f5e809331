"""Plots of an assessment: precision against recall, precision of short lists, calibration."""

from pathlib import Path
from typing import Any

from nearkin.io.atomic import atomic_write
from nearkin.validation.extras import missing_extra

RAW, LEARNED, FAINT = "#8a94a3", "#1f7a4d", "#d5dae1"
TITLES = {"raw": "raw cosine", "learned": "learned"}
_COLOURS = {"raw": RAW, "learned": LEARNED}


def retrieval(result: dict[str, Any]) -> Any:
    """Precision against recall, and precision by number of neighbours, raw and learned."""
    plot, (left, right) = _axes()
    for name, curve in result["curves"].items():
        style = {"color": _COLOURS[name], "lw": 2.2, "label": TITLES[name]}
        left.plot(curve["recall"], curve["precision"], **style)
        right.plot(range(1, len(curve["precision"]) + 1), curve["precision"], **style)
    left.set(xlabel="recall", ylabel="precision", xlim=(0, None))
    right.set(xlabel="neighbours looked at", ylabel="share of the right class", xlim=(1, None))
    for axes in (left, right):
        axes.legend(frameon=False)
    return plot


def calibration(result: dict[str, Any]) -> Any:
    """How often guesses of a given confidence are right, and how many there are of each."""
    plot, (left, right) = _axes()
    bins = result["calibration"]["bins"]
    confidence = [b["confidence"] for b in bins]
    left.plot([0, 1], [0, 1], color=RAW, lw=1, ls=":")
    left.plot(confidence, [b["accuracy"] for b in bins], "o-", color=LEARNED, lw=2)
    left.set(xlabel="share of the votes", ylabel="how often right", xlim=(0, 1), ylim=(0, 1.03))
    right.bar(confidence, [b["count"] for b in bins], width=0.06, color=LEARNED, alpha=0.75)
    right.set(xlabel="share of the votes", ylabel="rows", xlim=(0, 1.05))
    return plot


def save(folder: Path, result: dict[str, Any]) -> None:
    """Write each plot to its own PNG file."""
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (retrieval, calibration):
        with atomic_write(folder / f"{draw.__name__}.png") as temporary:
            draw(result).savefig(temporary, dpi=140, bbox_inches="tight")


def _axes() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("a report", "matplotlib", "plots") from None
    plot = Figure(figsize=(10, 3.6))
    axes = plot.subplots(1, 2)
    for part in axes:
        part.grid(color=FAINT, lw=0.6)
        part.spines[["top", "right"]].set_visible(False)
    plot.subplots_adjust(wspace=0.25)
    return plot, axes
