"""Half a million real rows: SL-NE, plain kNN and a linear SVM by SGD on covtype (581,012 × 54).

    python benchmarks/covtype.py --data DIR [--rows 500000] [--test 81012] [--seeds 3] [--raw]

DIR holds ``covtype.npz``. Random splits; columns are standardised on the training rows, or with
--raw taken as they are (some are metres, most are zero or one: distances are then between places).
All settings are selected on training rows: the voters of plain kNN by cross-validation on 15,000
of them (not in its seconds); the penalty of the SVM on a fifth of 10,000, and the bandwidth and
temperature of SL-NE on a tenth of 20,000, within their seconds. SL-NE works on 300 random Fourier
features, since 54 columns, most of them indicators, leave a linear map little freedom.

Allow fifteen minutes a seed on two quiet cores; ``--rows 50000 --test 5000 --seeds 1`` takes two.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

import machine
from accuracy import SEARCH_ROWS, Split, choose, random_splits, some
from nearkin import SLNE, Execution, Preprocess, Softmax, SoftVotingKNN
from nearkin.app.comparison import Factory, Outcome, compare
from nearkin.preprocessing.fourier import FourierFeatures
from nearkin.reproduction.hold_out import HoldOutSplitter
from nearkin.reproduction.linear_svms import sgd_svm

BANDWIDTHS = {"standardised": (2.0, 4.0), "raw": (4.0, 8.0)}
TEMPERATURES = (0.01, 0.03)
SHORTLIST, K, EPOCHS = 50, 50, 6
METHODS = ["plain kNN", "linear SVM (SGD)", "SL-NE"]


def all_splits(data: Path, rows: int, test: int, seeds: int, scaling: str) -> Iterator[Split]:
    """Random splits, scaled; of 500,000 training rows, `rows` are kept."""
    with np.load(data / "covtype.npz") as file:
        X, y = file["x"], file["y"]
    for whole in random_splits(X, y, test, seeds):
        kept = some(whole, rows)
        scaler = StandardScaler(with_std=scaling == "standardised").fit(kept[0])
        X1, X2 = scaler.transform(kept[0]), scaler.transform(whole.X_test)
        yield Split(X1, kept[1], X2, whole.y_test)


def slne(scaling: str, seed: int) -> GridSearchCV:
    """The best bandwidth and temperature; the vote is selected along with them."""
    before = Preprocess(whitening=0, unit_length=False)
    grid = {
        "preprocess": [
            FourierFeatures(before, n_features=150, bandwidth=bandwidth, random_state=seed)
            for bandwidth in BANDWIDTHS[scaling]
        ],
        "similarity": [
            SLNE.paper(
                Softmax(T), n_neighbors=K, step_size=0.5, max_epochs=EPOCHS, tol=0,
                execution=Execution(order="local"),
            )
            for T in TEMPERATURES
        ],
    }  # fmt: skip
    model = SoftVotingKNN(None, n_neighbors=SHORTLIST, random_state=seed)
    return GridSearchCV(
        model, grid, cv=HoldOutSplitter(seed, fraction=0.1, max_rows=20_000), verbose=3
    )


def plain_knn(split: Split) -> Any:
    """Voters chosen by cross-validation on some of the training rows; not fitted."""
    grid = {"n_neighbors": [1, 3, 5, 9], "weights": ["uniform", "distance"]}
    return choose(KNeighborsClassifier(n_jobs=-1), grid, some(split, SEARCH_ROWS))


def methods(split: Split, scaling: str, wanted: list[str]) -> dict[str, Factory]:
    factories: dict[str, Factory] = {
        "plain kNN": lambda _: plain_knn(split),
        "linear SVM (SGD)": sgd_svm,
        "SL-NE": lambda seed: slne(scaling, seed),
    }
    return {name: factories[name] for name in wanted}


def show(name: str, outcomes: list[Outcome]) -> None:
    """Means over the seeds, and the spread of the accuracies."""

    def mean(field: str) -> float:
        return float(np.mean([getattr(o, field) or 0 for o in outcomes]))

    spread = np.std([o.top1 for o in outcomes], ddof=1) if len(outcomes) > 1 else None
    shown = "" if spread is None else f" ± {100 * spread:.2f}"
    accuracies = f"{100 * mean('top1'):.2f}{shown}"
    print(f"| {name} | {accuracies} | {100 * mean('per_class'):.2f} | {mean('seconds'):.0f} "
          f"| {mean('predict_seconds'):.0f} | {mean('peak_bytes') / 2**20:.0f} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with covtype.npz")
    parser.add_argument("--rows", type=int, default=500_000, help="to learn from, at most")
    parser.add_argument("--test", type=int, default=81_012)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--raw", action="store_true", help="columns as they are")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    given = parser.parse_args()
    scaling = "raw" if given.raw else "standardised"
    print(machine.facts())
    found: dict[str, list[Outcome]] = {name: [] for name in given.methods}
    parts = all_splits(given.data, given.rows, given.test, given.seeds, scaling)
    for seed, split in enumerate(parts):
        began = time.perf_counter()
        made = methods(split, scaling, given.methods)
        for outcome in compare(made, split.X, split.y, split.X_test, split.y_test,
                               seed=seed, verbose=1):  # fmt: skip
            found[outcome.name].append(outcome)
        print(f"seed {seed}: {time.perf_counter() - began:.0f} s", flush=True)
    print(f"\ncovtype, {len(split.y):,} training rows, {len(split.y_test):,} test rows, "
          f"{scaling} columns, {given.seeds} seeds\n")  # fmt: skip
    print("| method | accuracy % | mean of classes % | fit s | predict s | MiB |")
    print("|---|---|---|---|---|---|")
    for name, outcomes in found.items():
        show(name, outcomes)


if __name__ == "__main__":
    main()
