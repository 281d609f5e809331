"""How the time of SL-NE grows with rows, dimensions, neighbours and classes.

    python benchmarks/growth.py --out DIR [--rows 20000 50000 100000 200000] [--series N D k]

Under ten minutes on two quiet cores; ``--rows 20000 100000 400000 1200000`` takes the first series
further. Rows are made up (`made_up.py`). An epoch is the faster of two, random order, batch size
1: the paper's algorithm; the table also gives it per row visited, because rows without a target or
an impostor are passed over.

Neighbours are searched in the series over rows (exact search up to --exact rows, cells always) and
over classes. The series over dimensions and neighbours take random lists of rows of ten classes,
since exact lists would take most of the time; a symmetrised random list is twice as long as k, a
real one 1.4 times. The slopes are between logarithms: 1 is linear, 0 constant. A figure,
``growth.svg``, goes to DIR.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

import machine
from made_up import World
from nearkin import SLNE
from nearkin.neighborhoods import neighborhoods
from nearkin.neighbors import nearest

D, K, CLASSES = 200, 50, 100  # of what is not varied
FEW = 10  # classes where lists are random: among more of them, few rows would find a target
DIMS = (100, 300, 1_000, 3_000)
NEIGHBORS = (10, 30, 100, 200, 500)
CLASS_COUNTS = (10, 30, 100, 300, 1_000)
EPOCHS = 2

Point = dict[str, float]


class Series(NamedTuple):
    """What is varied, over what, and how one point is measured."""

    name: str
    values: list[int]
    measure: Callable[[int], Point]


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def epoch(X: np.ndarray, y: np.ndarray, lists: np.ndarray) -> Point:
    hoods = neighborhoods(lists, y)
    model = SLNE.paper(max_epochs=EPOCHS, tol=0, random_state=0).fit(X, y, neighbors=hoods)
    fastest = min(record["seconds"] for record in model.history_)
    visited = int(hoods.usable.sum())
    return {
        "epoch s": fastest,
        "visited": visited,
        "µs a row": 1e6 * fastest / visited,
        "degree": float(hoods.degrees.mean()),
    }


def random_lists(rows: int, k: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, rows, (rows, k), dtype=np.int32)


def by_rows(rows: int, exact: int) -> Point:
    X, y = World(D, CLASSES).sample(rows)
    found, (_, lists) = seconds(lambda: nearest(X, K, index="cells"))
    point = epoch(X, y, lists) | {"cells s": found}
    if rows <= exact:
        point["exact s"] = seconds(lambda: nearest(X, K, index="exact"))[0]
    return point


def by_dims(dims: int, rows: int) -> Point:
    return epoch(*World(dims, FEW).sample(rows), random_lists(rows, K))


def by_neighbors(k: int, rows: int) -> Point:
    return epoch(*World(D, FEW).sample(rows), random_lists(rows, k))


def by_classes(classes: int, rows: int) -> Point:
    X, y = World(D, classes).sample(rows)
    return epoch(X, y, nearest(X, K, index="exact")[1])


def slope(xs: list[int], ys: list[float]) -> float:
    """Of the straight line through the logarithms."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


TIMES = ("epoch s", "µs a row", "cells s", "exact s")


def slopes(points: dict[int, Point]) -> dict[str, float]:
    """For each time that was measured at two points or more."""
    result = {}
    for name in TIMES:
        known = [v for v, point in points.items() if name in point]
        if len(known) > 1:
            result[name] = slope(known, [points[v][name] for v in known])
    return result


def run(series: Series) -> dict[int, Point]:
    print(f"\n{series.name:>9}" + "".join(f"{name:>10}" for name in
          ("epoch s", "visited", "µs a row", "degree", "cells s", "exact s")))  # fmt: skip
    points = {}
    for value in series.values:
        point = points[value] = series.measure(value)
        cells = [f"{point['epoch s']:.2f}", f"{point['visited']:,}", f"{point['µs a row']:.1f}",
                 f"{point['degree']:.0f}"]  # fmt: skip
        cells += [f"{point[name]:.1f}" for name in ("cells s", "exact s") if name in point]
        print(f"{value:>9,}" + "".join(f"{cell:>10}" for cell in cells), flush=True)
    fitted = slopes(points)
    print("   slopes" + "".join(f"  {name[:-2] if name.endswith(' s') else name} {s:.2f}"
                                for name, s in fitted.items()), flush=True)  # fmt: skip
    return points


def plot(measured: dict[str, dict[int, Point]], path: Path) -> None:
    figure = Figure(figsize=(3.4 * len(measured), 3.2), layout="constrained")
    all_axes = figure.subplots(1, len(measured), squeeze=False)[0]
    for axes, (name, points) in zip(all_axes, measured.items()):
        fitted = slopes(points)
        for time_name in ("epoch s", "cells s", "exact s"):
            known = [v for v, point in points.items() if time_name in point]
            if known:
                label = time_name.removesuffix(" s")
                label += f", slope {fitted[time_name]:.2f}" if time_name in fitted else ""
                axes.loglog(known, [points[v][time_name] for v in known], "o-", label=label)
        axes.set(xlabel=name, ylabel="seconds")
        axes.set_ylim(bottom=axes.get_ylim()[0] / 2, top=axes.get_ylim()[1] * 2)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for growth.svg")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 50_000, 100_000, 200_000])
    parser.add_argument("--exact", type=int, default=50_000, help="most rows searched exactly")
    parser.add_argument("--base", type=int, default=20_000, help="rows where they are not varied")
    names = ["N", "D", "k", "classes"]
    parser.add_argument("--series", nargs="+", choices=names, default=names)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    print(machine.facts())
    base = given.base
    print(f"where not varied: N={base:,}, D={D}, k={K}, {CLASSES} classes")
    by_rows(2_000, 2_000)  # compile
    every = [
        Series("N", sorted(given.rows), lambda rows: by_rows(rows, given.exact)),
        Series("D", list(DIMS), lambda dims: by_dims(dims, base)),
        Series("k", list(NEIGHBORS), lambda k: by_neighbors(k, base)),
        Series("classes", list(CLASS_COUNTS), lambda classes: by_classes(classes, base)),
    ]
    plot({s.name: run(s) for s in every if s.name in given.series}, given.out / "growth.svg")


if __name__ == "__main__":
    main()
