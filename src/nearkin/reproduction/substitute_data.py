"""Substitutes for sets that are not there: MNIST (middle scale), covtype (large scale)."""

from typing import Any, NamedTuple

import numpy as np

from nearkin.preprocessing import Preprocess
from nearkin.reproduction.published import PaperSettings
from nearkin.reproduction.setup import DataMissing, Setup
from nearkin.reproduction.tasks import Task

MNIST = PaperSettings(50, 300, 100, 10)
# The paper's 500 neighbours of 1.26 million rows are as many of 100,000 as 40.
COVTYPE, WIDE = PaperSettings(40, 50, 5, 10, "pca", epochs=3), 500
QUICK_ROWS, QUICK_TESTS = 2_000, 1_000
COVTYPE_ROWS, COVTYPE_TESTS = 100_000, 50_000


class Substitute(NamedTuple):
    """The task that the paper's settings make of the rows, and that of the rows as they are."""

    task: Task
    raw: Task


def mnist(setup: Setup) -> Substitute:
    """60,000 digits to learn from and 10,000 to test on, the official split."""
    with _open(setup, "mnist.npz") as file:
        X, Q = (file[f"x_{part}"].reshape(-1, 784).astype(np.float32) for part in ("train", "test"))
        y, truth = file["y_train"].astype(np.int64), file["y_test"].astype(np.int64)
    return _prepared(setup, "mnist", MNIST.dims, (X, y, Q, truth))


def covtype(setup: Setup) -> Substitute:
    """100,000 random rows to learn from and 50,000 to test on; columns standardised."""
    with _open(setup, "covtype.npz") as file:
        rows, labels = file["x"].astype(np.float32), file["y"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    learn, test = order[:COVTYPE_ROWS], order[COVTYPE_ROWS:][:COVTYPE_TESTS]
    X, Q = rows[learn], rows[test]
    mean, spread = X.mean(axis=0), X.std(axis=0)
    X, Q = ((part - mean) / np.where(spread > 0, spread, 1) for part in (X, Q))
    labels = np.unique(labels, return_inverse=True)[1]
    return _prepared(setup, "covtype", COVTYPE.dims, (X, labels[learn], Q, labels[test]))


def _open(setup: Setup, name: str) -> Any:
    path = setup.data / name
    if not path.exists():
        raise DataMissing(f"not run: put {name} at {path}")
    return np.load(path)


def _prepared(setup: Setup, key: str, dims: int, data: tuple[Any, ...]) -> Substitute:
    X, y, Q, truth = data
    if setup.quick:
        some = np.random.default_rng(0).permutation(len(X))[:QUICK_ROWS]
        X, y, Q, truth = X[some], y[some], Q[:QUICK_TESTS], truth[:QUICK_TESTS]
    prepare = Preprocess(min(dims, *X.shape), whitening=0, random_state=0).fit(X)
    key = f"{key}-{len(X)}"
    task = Task(key, prepare.transform(X), y, prepare.transform(Q), truth, prepare.variances_)
    return Substitute(task, Task(f"{key}-raw", X, y, Q, truth, X.var(axis=0)))
