"""The demo: scikit-learn's handwritten digits, from rows to a report.

Command: ``make demo`` or ``nearkin demo --out demo``; less than a minute on two cores.

What a newcomer would try, kNN by raw cosine, a linear SVM and logistic regression, and nearkin
without arguments on the same three random splits of 1,797 images (8×8 pixels, ten classes, 60 % for
training). All settings are selected on training rows. The report shows the nearest training images
before and after learning, as the paper's Figure 3 does.
"""

import io
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from nearkin.app import assessment, page, report
from nearkin.app.baselines import BASELINES, TITLES
from nearkin.app.extras import require_extras
from nearkin.classifier import SoftVotingKNN
from nearkin.validation import expect
from nearkin.validation.parameters import checked

TEST_SHARE = 0.4
RAW, OURS = TITLES["cosine"], "nearkin"
ROW = "{method:<22}{accuracy:>9.2f} ± {spread:<4.2f}{seconds:>10.2f}"
NEXT = (
    ("nearkin run photos/", "a folder with a sub-folder of images for each class: a model, and a "
                            "report like this one in runs/photos"),
    ("nearkin serve runs/photos", "a page to look at them: drop a new photo, see the most similar "
                                  "ones, confusions and likely wrong labels"),
    ("nearkin try embeddings.npy labels.txt", "vectors that you have: would it help in front of "
                                              "your index? It may say no"),
)  # fmt: skip

Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


@checked(splits=expect.whole(1, 100))
def run(
    out: Path, progress: Callable[[str], None] = print, splits: int = 3
) -> list[dict[str, Any]]:
    """Print the table, write ``report.html`` into `out` and return the rows of the table."""
    require_extras("the report of the demo", "images", "plots")
    out.mkdir(parents=True, exist_ok=True)
    drawn = [_split(seed) for seed in range(splits)]
    progress("compiling (up to a minute the first time, not timed) …")
    _compile(drawn[0])
    progress(f"{'method':<22}{'accuracy %':>16}{'seconds':>10}")
    results, fitted = [], {}
    for name, make in _methods():
        result, fitted[name] = _measure(name, make, drawn)
        results.append(result)
        progress(ROW.format(**result))
    path = out / "report.html"
    _write_report(path, results, drawn[0], fitted, splits)
    progress(f"report: {path}\n\nnext, on your own data:")
    for command, what in _commands():
        progress(f"  {command}\n      {what}")
    return results


def _split(seed: int) -> Split:
    X, y = load_digits(return_X_y=True)
    return tuple(train_test_split(X, y, test_size=TEST_SHARE, random_state=seed, stratify=y))


def _methods() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name in ("cosine", "svm", "logistic"):
        yield TITLES[name], partial(BASELINES[name], 0)
    yield OURS, partial(SoftVotingKNN, random_state=0)


def _compile(split: Split) -> None:
    """Compile everything that will be timed, by fits on a few rows."""
    X, Q, y, truth = (part[:100] for part in split)
    for _, make in _methods():
        make().fit(X, y).score(Q, truth)


def _measure(name: str, make: Callable[[], Any], splits: list[Split]) -> tuple[dict[str, Any], Any]:
    """The accuracy and cost of a method, and what it fitted on the first split."""
    start, models = time.perf_counter(), []
    for X, _, y, _ in splits:
        models.append(make().fit(X, y))
    seconds = (time.perf_counter() - start) / len(splits)
    accuracies = [100 * m.score(Q, truth) for m, (_, Q, _, truth) in zip(models, splits)]
    mean, spread = float(np.mean(accuracies)), float(np.std(accuracies))
    row = {"method": name, "accuracy": mean, "spread": spread, "seconds": seconds}
    return row, models[0]


def _write_report(
    path: Path, results: list[dict[str, Any]], split: Split, fitted: dict[str, Any], splits: int
) -> None:
    X, Q, _, truth = split
    raw, learned = fitted[RAW], fitted[OURS]
    result = assessment.assess(learned, Q, truth, raw)
    stored, queries = ([_png(row) for row in rows] for rows in (X, Q))
    parts = [
        _cards(results, result),
        *_table(results, splits),
        *_next(),
        page.strips_of(learned, Q, truth, stored, queries, lambda: raw),
        *page.retrieval(result),
        *page.calibration(result),
        "<h2>What was chosen, on training rows</h2>",
        f"<pre>{escape(learned.report_)}</pre>",
    ]
    note = (
        f"scikit-learn's digits: 1,797 images of 8×8 pixels, {len(X):,} of them to learn from. "
        "Before is raw cosine: the nearest images by their pixels. After is nearkin, without any "
        "setting."
    )
    report.write_page(path, "nearkin on handwritten digits", note, parts)


def _cards(results: list[dict[str, Any]], result: dict[str, Any]) -> str:
    accuracy = {r["method"]: r["accuracy"] / 100 for r in results}
    before, after = accuracy[RAW], accuracy[OURS]
    return report.cards([
        (page.before_after(before, after, percent=True), "read rightly, before → after"),
        (page.before_after(1 - before, 1 - after, percent=True), "read wrongly, before → after"),
        (page.before_after(result["precision_at_5_raw"], result["precision_at_5_learned"],
                           percent=True),
         "of the five most similar images show the same digit, before → after"),
    ])  # fmt: skip


def _table(results: list[dict[str, Any]], splits: int) -> Iterator[str]:
    best = int(np.argmax([r["accuracy"] for r in results]))
    rows = [
        (r["method"], f"{r['accuracy']:.2f} ± {r['spread']:.2f}", f"{r['seconds']:.2f}")
        for r in results
    ]
    yield "<h2>Accuracy on digits that no method has seen</h2>"
    yield report.table(["method", "accuracy %", "seconds to fit"], rows, best)
    average = "" if splits == 1 else f"Means and standard deviations of {splits} random splits. "
    yield (
        f"<p class=note>{average}Every method chooses its settings on training rows, and the "
        "seconds include it.</p>"
    )


def _next() -> Iterator[str]:
    yield "<h2>Next, on your own data</h2>"
    yield "".join(
        f"<pre>{escape(command)}</pre><p class=note>{escape(what[0].upper() + what[1:])}.</p>"
        for command, what in _commands()
    )


def _commands() -> Iterator[tuple[str, str]]:
    """What to do next; first, how ``nearkin`` becomes a command where the shell knows none."""
    if shutil.which("nearkin") is None and os.name == "posix":
        activate = Path(sys.executable).parent / "activate"
        yield f". {shlex.quote(os.path.relpath(activate))}", "once in each terminal"
    yield from NEXT


def _png(row: NDArray[Any]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray((255 - row.reshape(8, 8) / 16 * 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
