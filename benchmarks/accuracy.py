"""Test errors of nearkin and of what a user would pick instead; settings from training rows.

    python benchmarks/accuracy.py --data DIR [--sets digits usps letter mnist] [--splits 3]

DIR holds ``usps.npz``, ``letter.npz`` and ``mnist.npz``; digits come with scikit-learn. USPS and
MNIST have their official split; digits (a fifth for testing) and letter (4,000 of 20,000) are
split at random `--splits` times, and their errors are means ± standard deviations over the
splits. All methods see the same raw columns; each may scale them as its tuning finds best. A test
set is used once per method, to report.

NCA learns from at most 8,000 rows, because its arrays are N×N; its neighbours are of all rows. On
two shared cores, allow two hours for all of it.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nearkin.tuning import tune
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC

SETS = ["digits", "usps", "letter", "mnist"]
# Settings are chosen on at most so many training rows; what the slower methods can afford.
SEARCH_ROWS, SVM_SEARCH_ROWS, NCA_SEARCH_ROWS = 15_000, 6_000, 1_500
# scikit-learn's NCA holds several N×N float64 arrays, 0.5 GiB each at 8,000 rows, 27 at 60,000.
NCA_ROWS = 8_000
SCALERS = [MinMaxScaler(), StandardScaler(), "passthrough"]


class Split(NamedTuple):
    """Rows to learn from and rows to report on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def splits(name: str, data: Path | None, count: int) -> Iterator[Split]:
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        yield from random_splits(X, y, 0.2, count)
        return
    if data is None:
        raise SystemExit(f"{name} needs --data DIR, the folder that holds {name}.npz")
    with np.load(data / f"{name}.npz") as file:
        if name == "letter":
            yield from random_splits(file["x"], file["y"], 4_000, count)
            return
        X, X_test = (
            file[f"x_{part}"].reshape(len(file[f"x_{part}"]), -1) for part in ("train", "test")
        )
        yield Split(
            X.astype(np.float32), file["y_train"], X_test.astype(np.float32), file["y_test"]
        )


def random_splits(X: np.ndarray, y: np.ndarray, test_size: float, count: int) -> Iterator[Split]:
    for seed in range(count):
        X1, X2, y1, y2 = train_test_split(
            X.astype(np.float32), y, test_size=test_size, stratify=y, random_state=seed
        )
        yield Split(X1, y1, X2, y2)


def some(split: Split, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most so many training rows, by class."""
    if len(split.y) <= most:
        return split.X, split.y
    X, _, y, _ = train_test_split(
        split.X, split.y, train_size=most, stratify=split.y, random_state=0
    )
    return X, y


def choose(pipeline: Any, grid: dict[str, list[Any]], rows: tuple[np.ndarray, np.ndarray]) -> Any:
    """The pipeline with the settings that cross-validate best, not fitted."""
    search = GridSearchCV(pipeline, grid, cv=3, refit=False)
    return clone(pipeline).set_params(**search.fit(*rows).best_params_)


def plain_knn(split: Split) -> Any:
    grid = {
        "minmaxscaler": SCALERS,
        "kneighborsclassifier__n_neighbors": [1, 3, 5, 7, 9],
        "kneighborsclassifier__weights": ["uniform", "distance"],
    }
    pipeline = make_pipeline(MinMaxScaler(), KNeighborsClassifier(n_jobs=-1))
    return choose(pipeline, grid, some(split, SEARCH_ROWS)).fit(split.X, split.y)


def linear_svm(split: Split) -> Any:
    grid = {
        "minmaxscaler": [MinMaxScaler(), StandardScaler()],
        "linearsvc__C": [0.001, 0.01, 0.1, 1.0, 10.0],
    }
    pipeline = make_pipeline(MinMaxScaler(), LinearSVC(random_state=0))
    return choose(pipeline, grid, some(split, SVM_SEARCH_ROWS)).fit(split.X, split.y)


def nca_knn(split: Split) -> Any:
    """NCA's matrix from as many rows as its N×N arrays allow; the neighbours are of all rows."""
    nca = NeighborhoodComponentsAnalysis(random_state=0, max_iter=30)
    pipeline = make_pipeline(MinMaxScaler(), nca, KNeighborsClassifier(3, n_jobs=-1))
    grid = {
        "minmaxscaler": [MinMaxScaler(), StandardScaler()],
        "neighborhoodcomponentsanalysis__n_components": sorted(
            {min(n, split.X.shape[1]) for n in (30, 100)}
        ),
    }
    chosen = choose(pipeline, grid, some(split, NCA_SEARCH_ROWS))
    learned = chosen[:-1].fit(*some(split, NCA_ROWS))
    moved = split._replace(X=learned.transform(split.X))
    voters = {"n_neighbors": [1, 3, 5, 7, 9], "weights": ["uniform", "distance"]}
    knn = choose(KNeighborsClassifier(n_jobs=-1), voters, some(moved, SEARCH_ROWS))
    return Pipeline([("learned", learned), ("knn", knn.fit(moved.X, moved.y))])


def nearkin(split: Split) -> Any:
    return tune(split.X, split.y, random_state=0, verbose=1)


METHODS: dict[str, Callable[[Split], Any]] = {
    "plain kNN": plain_knn,
    "linear SVM": linear_svm,
    "NCA + kNN": nca_knn,
    "nearkin": nearkin,
}


def measured(method: str, parts: list[Split]) -> str:
    """Test error in per cent (with its spread over the splits), and seconds a split."""
    errors, began = [], time.perf_counter()
    for split in parts:
        model = METHODS[method](split)
        errors.append(100 * np.mean(model.predict(split.X_test) != split.y_test))
        if method == "nearkin":
            log(f"  {describe(model)}")
    seconds = (time.perf_counter() - began) / len(parts)
    spread = f" ± {np.std(errors, ddof=1):.2f}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.2f}{spread} ({seconds:.0f} s)"


def describe(model: Any) -> str:
    parts = model.preprocess, model.similarity, model.n_neighbors, model.vote_
    return "; ".join(" ".join(repr(part).split()) for part in parts)


def log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def facts() -> str:
    """What the numbers depend on besides the code."""
    here = Path(__file__).resolve().parent
    command = ["git", "describe", "--always", "--dirty"]
    revision = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    packages = ("nearkin", "numpy", "scikit-learn", "numba", "faiss-cpu")
    return ", ".join([
        f"revision {revision.stdout.strip() or 'unknown'}",
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        *(f"{name} {version(name)}" for name in packages),
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="Test errors, all settings from training rows.")
    parser.add_argument("--data", type=Path, help="folder with usps.npz, letter.npz, mnist.npz")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=int, default=3, help="random splits of digits and letter")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # a slow solver is stopped, and counts
    print(f"Test error in % (seconds a split). {facts()}")
    print(row("set", "rows", *arguments.methods))
    for name in arguments.sets:
        parts = list(splits(name, arguments.data, arguments.splits))
        cells = []
        for method in arguments.methods:
            log(f"{name}: {method} ...")
            cells.append(measured(method, parts))
            log(f"  {cells[-1]}")
        print(row(name, f"{len(parts[0].y):,} × {parts[0].X.shape[1]}", *cells), flush=True)


def row(*cells: str) -> str:
    return f"{cells[0]:8}" + f"{cells[1]:>14}" + "".join(f"{cell:>24}" for cell in cells[2:])


if __name__ == "__main__":
    main()
