"""The demo: scikit-learn's handwritten digits, from rows to a report.

Command: ``make demo`` or ``nearkin demo --out demo``; about a minute on two cores.

What a newcomer would try, kNN by raw cosine, a linear SVM and logistic regression, and nearkin
without arguments on the same three random splits of 1,797 images (8×8 pixels, ten classes, 60 % for
training). All settings are selected on training rows. The report shows the nearest training images
before and after learning, as the paper's Figure 3 does.
"""

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

from nearkin.app import report
from nearkin.app.baselines import BASELINES, TITLES, raw_cosine
from nearkin.classifier import SoftVotingKNN

SPLITS, TEST_SHARE = 3, 0.4
N_SHOWN = 8
OURS = "nearkin"
ROW = "{method:<22}{accuracy:>9.2f} ± {spread:<4.2f}{seconds:>10.2f}"

Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def run(out: Path, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    """Print the table, write ``report.html`` into `out` and return the rows of the table."""
    out.mkdir(parents=True, exist_ok=True)
    splits = [_split(seed) for seed in range(SPLITS)]
    progress("compiling (up to a minute the first time, not timed) …")
    _compile(splits[0])
    progress(f"{'method':<22}{'accuracy %':>16}{'seconds':>10}")
    results = []
    for name, make in _methods():
        results.append(_measure(name, make, splits))
        progress(ROW.format(**results[-1]))
    page = out / "report.html"
    _write_report(page, results, splits[0])
    progress(f"report: {page}")
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


def _measure(name: str, make: Callable[[], Any], splits: list[Split]) -> dict[str, Any]:
    start = time.perf_counter()
    accuracies = [100 * make().fit(X, y).score(Q, truth) for X, Q, y, truth in splits]
    seconds = (time.perf_counter() - start) / len(splits)
    mean, spread = float(np.mean(accuracies)), float(np.std(accuracies))
    return {"method": name, "accuracy": mean, "spread": spread, "seconds": seconds}


def _write_report(path: Path, results: list[dict[str, Any]], split: Split) -> None:
    best = int(np.argmax([r["accuracy"] for r in results]))
    rows = [
        (r["method"], f"{r['accuracy']:.2f} ± {r['spread']:.2f}", f"{r['seconds']:.2f}")
        for r in results
    ]
    learned = SoftVotingKNN(random_state=0).fit(split[0], split[2])
    parts = [
        "<h2>Accuracy on held-out digits</h2>",
        report.table(["method", "accuracy %", "seconds per fit"], rows, best),
        "<h2>What was chosen, on training rows</h2>",
        f"<pre style='white-space: pre-wrap'>{escape(learned.report_)}</pre>",
        "<h2>The most similar training images</h2>",
        "<p class=note>Green: the same digit. Red: another one.</p>",
        *_strips(split, learned),
    ]
    note = f"scikit-learn's digits: 1,797 images of 8×8 pixels, {SPLITS} random splits"
    report.write_page(path, "nearkin on handwritten digits", note, parts)


def _strips(split: Split, learned: SoftVotingKNN) -> Iterator[str]:
    """The paper's Figure 3, for test images whose neighbours by raw cosine are mixed."""
    X, Q, y, truth = split
    raw = raw_cosine().fit(X, y)
    near = {"raw cosine": raw.kneighbors(Q, N_SHOWN)[1], OURS: learned.kneighbors(Q, N_SHOWN)[1]}
    wrong = (y[near["raw cosine"]] != truth[:, None]).sum(axis=1)
    for i in np.argsort(np.abs(wrong - N_SHOWN / 2), kind="stable")[:8]:
        strips = "".join(
            report.strip(
                name,
                [_pixels(X[j]) for j in lists[i]],
                y[lists[i]] == truth[i],
                map(str, y[lists[i]]),
            )
            for name, lists in near.items()
        )
        yield report.query(_pixels(Q[i]), str(truth[i]), strips)


def _pixels(row: NDArray[Any]) -> NDArray[np.uint8]:
    return (255 - row.reshape(8, 8) / 16 * 255).astype(np.uint8)
