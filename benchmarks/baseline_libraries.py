"""Libraries against hand-written parts; results in `docs/notes/baseline-libraries.md`.

    python benchmarks/baseline_libraries.py {sgd,nca,fourier} --data DIR

DIR holds ``mnist.npz``, ``covtype.npz``, ``banking77.npz`` and ``letter.npz``. Seconds are CPU
seconds; set ``OMP_NUM_THREADS=1`` so that no thread spins.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import machine
from accuracy import Split, random_splits, some, splits
from nearkin import SoftVotingKNN
from nearkin.preprocessing import Preprocess
from nearkin.preprocessing.fourier import FourierFeatures

EPOCHS = 5
COSTS = (1.0, 10.0, 100.0)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    return work(), time.process_time() - began


def data_sets(data: Path) -> Iterator[tuple[str, Split]]:
    """Rows of mean squared length one, so that C means the same everywhere."""
    yield "mnist", unit_scale(next(splits("mnist", data, 1)))
    with np.load(data / "banking77.npz") as file:
        X, Q = (file[f"x_{part}"].astype(np.float32) for part in ("train", "test"))
        yield "banking77", unit_scale(Split(X, file["y_train"], Q, file["y_test"]))
    with np.load(data / "covtype.npz") as file:
        split = next(random_splits(file["x"], file["y"], 81_012, 1))
    scaler = StandardScaler().fit(split.X)
    yield (
        "covtype",
        unit_scale(
            split._replace(X=scaler.transform(split.X), X_test=scaler.transform(split.X_test))
        ),
    )


def unit_scale(split: Split) -> Split:
    scale = np.float32(1 / np.sqrt(np.mean(np.square(split.X).sum(axis=1))))
    return split._replace(X=split.X * scale, X_test=split.X_test * scale)


def sgd(data: Path) -> None:
    """Averaged SGD on one-versus-all hinge losses, and liblinear."""
    for name, split in data_sets(data):
        for C in COSTS:
            n = len(split.y)
            models = {
                "SGDClassifier": SGDClassifier(
                    alpha=1 / (C * n), average=n, max_iter=EPOCHS, tol=None, random_state=0
                ),
            }
            if n <= 20_000:
                models["LinearSVC"] = LinearSVC(C=C, loss="hinge", random_state=0)
            for method, model in models.items():
                fitted, seconds = timed(lambda m=model, s=split: m.fit(s.X, s.y))
                accuracy = 100 * fitted.score(split.X_test, split.y_test)
                show(name, f"C={C:g}", method, f"{accuracy:.2f} %", f"{seconds:.1f} s")


def nca(data: Path) -> None:
    """scikit-learn's NCA on rows as they come, and on rows of mean squared length one."""
    for name in ("letter", "mnist"):
        whole = next(splits(name, data, 1))
        for rows in (2_000, 4_000):
            X, y = some(whole, rows)
            for kind, split in (("as it is", whole._replace(X=X, y=y)),
                                ("scaled", unit_scale(whole._replace(X=X, y=y)))):  # fmt: skip
                before = NeighborhoodComponentsAnalysis(16, max_iter=50, random_state=0)
                learned, seconds = timed(lambda b=before, s=split: b.fit(s.X, s.y))
                for voter in (KNeighborsClassifier(3), SoftVotingKNN(None, random_state=0)):
                    fitted = voter.fit(learned.transform(split.X), split.y)
                    accuracy = fitted.score(learned.transform(split.X_test), split.y_test)
                    show(name, f"{rows:,} rows", kind, type(voter).__name__,
                         f"{100 * accuracy:.2f} %", f"{seconds:.1f} s")  # fmt: skip


def fourier(data: Path) -> None:
    """Cosines and sines of m directions, or 2m cosines with random phases; the same width."""
    for seed in range(2):
        split = unit_scale(list(splits("letter", data, 2))[seed])
        for bandwidth in (4.0, 8.0):
            gamma = bandwidth**2 / 2
            for columns in (200, 800):
                own = FourierFeatures(
                    Preprocess(whitening=0, center=False, unit_length=False),
                    n_features=columns // 2, bandwidth=bandwidth, random_state=seed,
                )  # fmt: skip
                theirs = RBFSampler(gamma=gamma, n_components=columns, random_state=seed)
                for method, lift in (("FourierFeatures", own), ("RBFSampler", theirs)):
                    Z, seconds = timed(lambda s=split, t=lift: t.fit_transform(s.X))
                    error = kernel_error(split.X, Z, gamma)
                    svm = make_pipeline(lift, LinearSVC(C=10.0, random_state=0))
                    votes = SoftVotingKNN(None, preprocess=lift, random_state=seed)
                    marks = [100 * m.fit(split.X, split.y).score(split.X_test, split.y_test)
                             for m in (svm, votes)]  # fmt: skip
                    show(f"seed {seed}", f"bandwidth {bandwidth:g}", f"{columns} columns", method,
                         f"kernel error {error:.4f}", f"SVM {marks[0]:.2f} %",
                         f"kNN {marks[1]:.2f} %", f"{seconds:.2f} s", str(Z.dtype))  # fmt: skip


def kernel_error(X: np.ndarray, Z: np.ndarray, gamma: float, pairs: int = 200_000) -> float:
    """Root mean square of the approximation's error on random pairs of rows."""
    i, j = np.random.default_rng(0).integers(0, len(X), (2, pairs))
    exact = np.exp(-gamma * np.square(X[i] - X[j], dtype=np.float64).sum(axis=1))
    return float(np.sqrt(np.mean((np.einsum("nd,nd->n", Z[i], Z[j]) - exact) ** 2)))


def show(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


PARTS = {"sgd": sgd, "nca": nca, "fourier": fourier}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=list(PARTS))
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    print(machine.facts())
    PARTS[given.part](given.data)


if __name__ == "__main__":
    main()
