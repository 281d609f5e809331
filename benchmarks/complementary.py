"""Projections of SL-DE beside each other at equal cost, with and without coupled members.

Command: ``python benchmarks/ensemble.py --data DIR --work WORK --only projections``. Every row of
the table has the same number of members, of dimensions and of steps. Figures are of held-out
training rows, which choose; `SETTLED`, chosen so, SL-NE and raw cosine then see the test rows.

Cells: accuracy of a softmax vote of the 50 most similar rows (its temperature the best of five on
held-out rows) / precision@10, both in % and ranked by the similarity alone. At most 2,000 of the
held-out rows are judged. CPU seconds are those of the fit, without its lists.
"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import caltech
from made_up import World
from nearkin import SLDE, SLNE, SoftVotingKNN, UnitLength
from nearkin.learning.holdout import held_out
from nearkin.learning.preparation import preparation_for
from nearkin.neighbors import nearest

VOTERS, TEMPERATURES = 50, (0.02, 0.05, 0.1, 0.2, 0.5)
JUDGED, AT_ONCE = 2_000, 250
PROJECTIONS = ("pca", "strided", "discriminant", "random", "orthonormal")
COUPLINGS = ("none", "start", "boosted")
SETTLED = ("pca", "start")


@dataclass
class Sample:
    """Training rows with their neighbours, and rows to judge on."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray
    truth: np.ndarray
    raw: tuple[np.ndarray, np.ndarray]
    lists: np.ndarray
    seconds: float = 0.0  # CPU, of the last fit

    @classmethod
    def of(cls, X, y, Q, truth, prepared, k=100):
        Z, R = X, Q
        if not prepared:
            fitted = preparation_for("auto", X.shape, judged=False).fit(X, y)
            Z, R = fitted.transform(X), fitted.transform(Q)
        return cls(Z, y, R, truth, (X, Q), nearest(Z, k)[1])

    def measures(self, queries, rows):
        """Accuracy of the vote at each temperature, and precision@10, by dot product."""
        parts = np.array_split(queries, -(-len(queries) // AT_ONCE))
        top, found = zip(*(_most_similar(part, rows) for part in parts))
        top, found = np.concatenate(top), np.concatenate(found)
        labels, unit = self.y[top], np.abs(found[:, 0]).mean()
        right = []
        for T in TEMPERATURES:
            votes = np.exp((found - found[:, :1]) / (T * unit))
            tally = np.zeros((len(top), self.y.max() + 1))
            np.add.at(tally, (np.arange(len(top))[:, None], labels), votes)
            right.append(100 * float((tally.argmax(axis=1) == self.truth).mean()))
        return np.array(right), 100 * float((labels[:, :10] == self.truth[:, None]).mean())

    def cosine(self):
        X, Q = (a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-30) for a in self.raw)
        return self.measures(Q, X)

    def learned(self, model):
        began = time.process_time()
        model.fit(self.X, self.y, neighbors=self.lists)
        self.seconds = time.process_time() - began
        return self.measures(self.Q @ model.matrix_, self.X)


def _most_similar(queries, rows):
    scores = queries @ rows.T
    top = np.argpartition(-scores, VOTERS, axis=1)[:, :VOTERS]
    found = np.take_along_axis(scores, top, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return np.take_along_axis(top, order, axis=1), np.take_along_axis(found, order, axis=1)


def ensemble(way, n, epochs):
    projection, coupling = way
    member = SLNE(prepare=None, max_epochs=epochs, tol=0)
    return SLDE(member, projection=projection, coupling=coupling, n_members=n, random_state=0,
                n_components=None)  # fmt: skip


def data_sets(arguments):
    """Names, and functions that give training and test rows; only of data that are there."""
    data, work, few = arguments.data, arguments.work, arguments.quick
    if (data / "mnist.npz").exists():
        yield "MNIST", partial(_mnist, data, 3_000 if few else 10_000)
    if (data / "caltech101.tar").exists():
        if arguments.network:
            yield "embeddings", partial(_caltech, caltech.embeddings, data, work, arguments.network)
        yield "LLC", partial(_llc, data, work)
    yield "made-up", partial(_made_up, arguments.rows)


def _mnist(data: Path, rows: int):
    with np.load(data / "mnist.npz") as f:
        X, y = f["x_train"][:rows].reshape(rows, -1), f["y_train"][:rows].astype(int)
        return _floats(X, y, f["x_test"].reshape(10_000, -1), f["y_test"].astype(int))


def _caltech(features, *where):
    X, y = features(*where)
    mask = caltech.split(y, 0)
    return _floats(X[mask], y[mask], X[~mask], y[~mask])


def _llc(data: Path, work: Path):
    features, y = caltech.llc_features(data, work)
    mask = caltech.split(y, 0)
    X, Q = caltech.preprocessed(features, mask, "llc-split0", work)
    return _floats(X, y[mask], Q, y[~mask])


def _made_up(rows: int):
    world = World(classes=max(10, rows // 50))
    return _floats(*world.sample(rows), *world.sample(min(rows, 5_000), part=1))


def _floats(X, y, Q, truth):
    return np.asarray(X, np.float32), np.asarray(y), np.asarray(Q, np.float32), np.asarray(truth)


def compare(arguments, n=10):
    """Print a table for each data set."""
    epochs = arguments.epochs
    for name, load in data_sets(arguments):
        if arguments.sets and name not in arguments.sets:
            continue
        X, y, Q, truth = load()
        held = held_out(y, 0.2, np.random.default_rng(0))
        prepared = name == "LLC"
        judged = np.random.default_rng(1).permutation(np.flatnonzero(held))[:JUDGED]
        chosen = Sample.of(X[~held], y[~held], X[judged], y[judged], prepared)
        print(f"\n{name}: {len(chosen.X):,} × {X.shape[1]:,}, {n} members of equal width, "
              f"{epochs} epochs; {len(judged):,} held-out rows", flush=True)  # fmt: skip
        temperature = {}
        rivals = {"raw cosine": chosen.cosine, "SL-NE": partial(chosen.learned, _single(epochs))}
        ways = product(arguments.projections, arguments.couplings)
        rivals |= {way: partial(chosen.learned, ensemble(way, n, epochs)) for way in ways}
        for way, measure in rivals.items():
            accuracies, precision = measure()
            temperature[way] = int(accuracies.argmax())
            told = way if isinstance(way, str) else " ".join(way)
            print(f"| {told} | {accuracies.max():.2f} / {precision:.2f} | {chosen.seconds:.0f} s",
                  flush=True)  # fmt: skip
        final = Sample.of(X, y, Q, truth, prepared)
        rivals = {"raw cosine": final.cosine, "SL-NE": partial(final.learned, _single(epochs))}
        if SETTLED in temperature:
            rivals |= {SETTLED: partial(final.learned, ensemble(SETTLED, n, epochs))}
        for way, measure in rivals.items():
            accuracies, precision = measure()
            told = way if isinstance(way, str) else " ".join(way)
            print(f"| test: {told} | {accuracies[temperature[way]]:.2f} / {precision:.2f} |",
                  flush=True)  # fmt: skip


def defaults(arguments, rows=10_000):
    """`SLDE()` beside `SLNE()` and raw cosine on test rows: soft vote, and precision@10."""
    names = ["digits", "usps", "banking77", "letter", "mnist"]
    for name in arguments.sets or names:
        X, y, Q, truth = _official(arguments.data, name, rows)
        sample = Sample(X, y, Q, truth, (X, Q), None)
        plain = SoftVotingKNN(None, preprocess=UnitLength(), random_state=0).fit(X, y)
        told = [f"{100 * plain.score(Q, truth):.2f} / {sample.cosine()[1]:.2f}"]
        for model in (SLNE(random_state=0), SLDE(random_state=0)):
            vote = SoftVotingKNN(clone(model), random_state=0).fit(X, y)
            model.fit(X, y)
            moved, stored = (model.preparation_.transform(a) for a in (Q, X))
            precision = sample.measures(moved @ model.matrix_, stored)[1]
            told.append(f"{100 * vote.score(Q, truth):.2f} / {precision:.2f}")
        print(f"| {name} {len(X):,} × {X.shape[1]} | {' | '.join(told)} |", flush=True)


def _official(data: Path, name: str, rows: int):
    """At most `rows` training rows, and the test rows; a quarter of sets without a split."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        with np.load(data / f"{name}.npz") as f:
            if "x_test" in f:
                X, Q = (f[part].reshape(len(f[part]), -1) for part in ("x_train", "x_test"))
                y, truth = f["y_train"], f["y_test"]
                return _floats(X[:rows], y[:rows], Q, truth)
            X, y = f["x"], f["y"]
    X, Q, y, truth = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    return _floats(X[:rows], y[:rows], Q, truth)


def _single(epochs):
    return SLNE(prepare=None, max_epochs=epochs, tol=0, random_state=0)
