"""Plots of an assessment: precision against recall, precision of short lists, calibration."""

from pathlib import Path
from typing import Any

from nearkin.app.report import GRID, LEARNED, RAW
from nearkin.io.atomic import atomic_write
from nearkin.validation.extras import missing_extra

FEW_ROWS = 10  # whose share of right guesses is chance
TITLES = {"raw": "raw cosine", "learned": "learned"}
_COLOURS = {"raw": RAW, "learned": LEARNED}


def _recall(axes: Any, result: dict[str, Any]) -> None:
    for name, curve in result["curves"].items():
        axes.plot(curve["recall"], curve["precision"], **_style(name))
        length = len(curve["recall"])
    # Rows beyond the list are never seen: the curve ends before a recall of 1.
    axes.set(xlabel=f"recall within the {length:,} most similar rows",
             ylabel="precision", xlim=(0, None))  # fmt: skip
    axes.legend(frameon=False)


def _precision(axes: Any, result: dict[str, Any]) -> None:
    for name, curve in result["curves"].items():
        axes.plot(range(1, len(curve["precision"]) + 1), curve["precision"], **_style(name))
    axes.set(xlabel="neighbours looked at", ylabel="share of the right class", xlim=(1, None))
    axes.legend(frameon=False)


def _reliability(axes: Any, result: dict[str, Any]) -> None:
    bins = result["calibration"]["bins"]
    axes.plot([0, 1], [0, 1], color=RAW, lw=1, ls=":")
    axes.plot([b["confidence"] for b in bins], [b["accuracy"] for b in bins], color=LEARNED, lw=1.5)
    for b in bins:
        face = "none" if b["count"] < FEW_ROWS else LEARNED
        axes.plot(b["confidence"], b["accuracy"], "o", color=LEARNED, mfc=face, clip_on=False)
    axes.set(xlabel="probability of the first guess", ylabel="how often it is right",
             xlim=(0, 1), ylim=(0, 1.03))  # fmt: skip


def _confidences(axes: Any, result: dict[str, Any]) -> None:
    bins = result["calibration"]["bins"]
    axes.bar([b["confidence"] for b in bins], [b["count"] for b in bins], width=0.06, color=LEARNED,
             alpha=0.75)  # fmt: skip
    axes.set(xlabel="probability of the first guess", ylabel="rows", xlim=(0, 1.05))


# Each plot has two panels: side by side in a file, each for itself in a page.
PANELS = {
    "retrieval": {"precision against recall": _recall,
                  "share of the right class by number of neighbours": _precision},
    "calibration": {"how often guesses of a probability are right": _reliability,
                    "rows by the probability of their first guess": _confidences},
}  # fmt: skip


def panels(name: str, result: dict[str, Any]) -> list[tuple[Any, str]]:
    """The panels of a plot, each a matplotlib figure and its description."""
    made = []
    for description, draw in PANELS[name].items():
        plot, (axes,) = _axes(1)
        draw(axes, result)
        made.append((plot, description))
    return made


def save(folder: Path, result: dict[str, Any]) -> None:
    """Write each plot to its own PNG file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, parts in PANELS.items():
        plot, places = _axes(len(parts))
        for axes, draw in zip(places, parts.values()):
            draw(axes, result)
        with atomic_write(folder / f"{name}.png") as temporary:
            plot.savefig(temporary, dpi=140, bbox_inches="tight")


def _style(name: str) -> dict[str, Any]:
    return {"color": _COLOURS[name], "lw": 2.2, "label": TITLES[name]}


def _axes(columns: int) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("a report", "matplotlib", "plots") from None
    plot = Figure(figsize=(4.8 * columns, 3.4))
    places = plot.subplots(1, columns, squeeze=False)[0]
    for axes in places:
        axes.grid(color=GRID, lw=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    plot.subplots_adjust(wspace=0.25)
    return plot, places
