"""The demo: scikit-learn's handwritten digits, from rows to a report.

Command: ``make demo`` or ``nearkin demo --out demo``; about half a minute on two cores.

Plain kNN, a linear SVM and SL-NE with each sampling rule on the same three random splits of 1,797
images (8×8 pixels, ten classes, 60 % for training). All settings are selected on training rows.
The report shows the paper's Figure 2 (hardest against uniform sampling) and Figure 3 (nearest
training images before and after learning) on this data.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from nearkin.app import report
from nearkin.classifier import SoftVotingKNN
from nearkin.learning.execution import Execution
from nearkin.learning.sampling import RULES
from nearkin.preprocessing import Preprocess
from nearkin.slne import SLNE

SPLITS, TEST_SHARE = 3, 0.4
N_SHOWN = 8
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
    yield "plain kNN", lambda: SoftVotingKNN(preprocess=_prepare(), random_state=0)
    yield "linear SVM", _linear_svm
    for rule in RULES:
        yield f"SL-NE, {rule}", partial(_slne, rule)


def _prepare() -> Preprocess:
    return Preprocess(whitening=0.25)


def _linear_svm() -> Any:
    svm = make_pipeline(StandardScaler(), LinearSVC(random_state=0, max_iter=5_000))
    return GridSearchCV(svm, {"linearsvc__C": [0.01, 0.1, 1.0]}, cv=3)


def _slne(rule: Any) -> SoftVotingKNN:
    learner = SLNE(rule, n_neighbors=50, step_size=0.5 if rule == "softmax" else 0.2)
    return SoftVotingKNN(learner, preprocess=_prepare(), random_state=0)


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
    curves = _curves(split)
    parts = [
        "<h2>Accuracy on held-out digits</h2>",
        report.table(["method", "accuracy %", "seconds per fit"], rows, best),
        "<h2>Hardest against uniform sampling</h2>",
        report.figure(_plot(curves), "test accuracy after each epoch"),
        f"<p class=note>{_caption(curves)}</p>",
        "<h2>The most similar training images</h2>",
        "<p class=note>Green: the same digit. Red: another one.</p>",
        *_strips(split),
    ]
    note = f"scikit-learn's digits: 1,797 images of 8×8 pixels, {SPLITS} random splits"
    report.write_page(path, "nearkin on handwritten digits", note, parts)


def _curves(split: Split) -> dict[str, list[float]]:
    """The paper's Figure 2: test accuracy after each epoch, with the paper's own vote."""
    X, Q, y, truth = split
    prepare = _prepare().fit(X)
    X, Q = prepare.transform(X), prepare.transform(Q)
    curves: dict[str, list[float]] = {}
    for rule in ("hardest", "uniform"):
        curve = curves[rule] = [_paper_accuracy(None, X, y, Q, truth)]

        def record(_: int, model: SLNE, curve: list[float] = curve) -> None:
            curve.append(_paper_accuracy(model, X, y, Q, truth))

        SLNE(rule, tol=0, random_state=0, execution=Execution(callback=record)).fit(X, y)
    return curves


def _plot(curves: dict[str, list[float]]) -> Any:
    from matplotlib.figure import Figure

    plot = Figure(figsize=(6.4, 3.6))
    axes = plot.subplots()
    for rule, curve in curves.items():
        axes.plot(range(len(curve)), curve, marker="o", markersize=3, label=rule)
    axes.set(
        xlabel="epoch", ylabel="test accuracy %", title="votes = similarities, as in the paper"
    )
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
    axes.legend()
    return plot


def _caption(curves: dict[str, list[float]]) -> str:
    """The paper's statement, and the result on these digits."""
    hardest, uniform = curves["hardest"][-1], curves["uniform"][-1]
    place = "ahead" if hardest > uniform else "behind" if hardest < uniform else "level with it"
    return (
        "Test accuracy after each epoch, on the first split. The paper reports hardest ahead of "
        f"uniform; on these digits, after {len(curves['hardest']) - 1} epochs, it is {place}: "
        f"{hardest:.2f} % against {uniform:.2f} %."
    )


def _paper_accuracy(model: SLNE | None, X: Any, y: Any, Q: Any, truth: Any) -> float:
    return 100 * SoftVotingKNN(model, vote="similarity").fit(X, y).score(Q, truth)


def _strips(split: Split) -> Iterator[str]:
    """The paper's Figure 3, for test images whose plain neighbours are mixed."""
    X, Q, y, truth = split
    plain = SoftVotingKNN(preprocess=_prepare(), random_state=0).fit(X, y)
    learned = _slne("softmax").fit(X, y)
    near = {"plain": plain.kneighbors(Q, N_SHOWN)[1], "learned": learned.kneighbors(Q, N_SHOWN)[1]}
    wrong = (y[near["plain"]] != truth[:, None]).sum(axis=1)
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
