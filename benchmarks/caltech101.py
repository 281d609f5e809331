"""Accuracy on Caltech-101: the paper's row of Table 3, and nearkin at its own best.

Command: ``python benchmarks/caltech101.py --data DIR --work WORK [--onnx NETWORK] [--splits 3]``.
The first run makes the features (five minutes); a split then takes about seven minutes on two
cores.

30 random training images a class, the others for testing; mean of the per-class accuracies, and
the plain accuracy beside it (the paper does not say which it reports). Every setting, also the
baselines', is chosen on the training images: six of the 30 of each class are held out for it, three
times.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.svm import LinearSVC

import caltech
import machine
from nearkin import SLDE, SLNE, votes
from nearkin._holdout import held_out
from nearkin._kernel import pair_scores
from nearkin.evaluation import top_n_accuracy
from nearkin.neighbors import nearest

PAPER = {"linear SVM": "73.46 / 84.59", "Retrieval": "63.49 / 77.87", "SL-NE": "75.28 / 85.29",
         "SL-DE": "75.14 / 85.30"}  # fmt: skip
HELD, FOLDS, K = 0.2, 3, 1_000
# The rules learn different things; their matrices may also be added up.
LEARNERS = {
    "all": {"rule": "all", "step_size": 2.0, "n_neighbors": 1_000, "max_epochs": 3},
    "hardest": {"rule": "hardest", "step_size": 0.2, "n_neighbors": 400, "max_epochs": 9},
    "softmax": {"rule": "softmax", "step_size": 0.5, "n_neighbors": 400, "max_epochs": 2},
}
SUMS = [("all",), ("hardest",), ("softmax",), ("all", "hardest"), ("all", "softmax"),
        ("all", "hardest", "softmax")]  # fmt: skip
WHITENING = (0.5, 0.75)
POWERS = [votes.Vote("power", p) for p in (1.0, 2.0, 3.0, 4.0, 6.0)]
METHODS = ["linear SVM", "Retrieval", "SL-NE", "SL-DE"]


def main(arguments):
    print(machine.facts())
    sources = [("LLC", lambda: caltech.llc_features(arguments.data, arguments.work), 3_000)]
    if arguments.onnx:
        source = lambda: caltech.embeddings(arguments.data, arguments.work, arguments.onnx)  # noqa: E731
        sources.append(("embeddings", source, 1_280))
    for name, load, dims in sources:
        features, labels = load()
        table = {}
        for seed in range(arguments.splits):
            run_split(name, features, labels, dims, seed, arguments, table)
        print(
            f"\n{name}, {arguments.splits} splits: mean of classes (plain accuracy), top-1 / top-3"
        )
        for method, rows in table.items():
            mean, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
            paper = f"   paper {PAPER[method]}" if name == "LLC" and method in PAPER else ""
            print(f"{method:<12} {mean[0]:5.2f} ± {spread[0]:.2f} ({mean[1]:5.2f}) / "
                  f"{mean[2]:5.2f} ± {spread[2]:.2f} {mean[3]:6.1f} s{paper}")  # fmt: skip


def run_split(name, features, labels, dims, seed, arguments, table):
    mask = caltech.split(labels, seed)
    y, truth = labels[mask], labels[~mask]
    folds = [held_out(y, HELD, np.random.default_rng([seed, f])) for f in range(FOLDS)]
    key = f"{name.lower()}-split{seed}"
    sets = {
        w: caltech.preprocessed(features, mask, key, arguments.work, dims, w) for w in WHITENING
    }
    X, Q = sets[0.5]
    work = {
        "linear SVM": lambda: svm(features, mask, y, folds),
        "Retrieval": lambda: plain(sets, y, folds),
        "SL-NE": lambda: single(X, Q, y, folds),
        "SL-DE": lambda: ensemble(X, Q, y, folds[:1]),
    }
    for method in arguments.methods:
        record(table, method, seed, truth, *timed(work[method]))


def timed(work):
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def record(table, method, seed, truth, outcome, seconds):
    tally, note = outcome
    ranked = np.argsort(-tally, axis=1, kind="stable")[:, :3]
    row = [100 * top_n_accuracy(ranked, truth, 1, True), 100 * top_n_accuracy(ranked, truth, 1),
           100 * top_n_accuracy(ranked, truth, 3, True), seconds]  # fmt: skip
    table.setdefault(method, []).append(row)
    shown = f"{row[0]:.2f} ({row[1]:.2f}) / {row[2]:.2f} {seconds:6.1f} s"
    print(f"split {seed} {method:<12} {shown}  {note}", flush=True)


def svm(features, mask, y, folds):
    """One against all; C from the held-out rows."""
    X, Q = in_their_span(features, mask)

    def fitted(C, rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LinearSVC(C=C, max_iter=300, tol=1e-2).fit(X[rows], y[rows])

    held = folds[0]
    quality = {C: fitted(C, ~held).score(X[held], y[held]) for C in (0.3, 1.0, 3.0)}
    C = max(quality, key=quality.get)
    return fitted(C, np.ones(len(y), bool)).decision_function(Q), f"C={C}"


def in_their_span(features, mask):
    """Coordinates in the span of the training rows: a linear SVM there is the same, and quicker."""
    X = np.asarray(features[mask], np.float32)
    values, vectors = np.linalg.eigh((X @ X.T).astype(np.float64))
    kept = values > values[-1] * 1e-9
    axes = (vectors[:, kept] / np.sqrt(values[kept])).astype(np.float32)
    scale = np.float32(1 / np.linalg.norm(X, axis=1).mean())
    products = np.concatenate([part @ X.T for part in np.array_split(features, 20)])
    coordinates = products @ axes * scale
    return coordinates[mask], coordinates[~mask]


def shortlist(X, Q, k):
    return nearest(X, min(k, len(X)), queries=Q)[0]


def judge(parts, y):
    """The power of the vote that is best on the held-out rows, and its mean accuracy."""
    quality = []
    for vote in POWERS:
        accuracies = []
        for scores, labels, truth in parts:
            guess = vote.tally(scores, labels, y.max() + 1).argmax(axis=1)
            accuracies.append(caltech.mean_per_class(guess == truth, truth))
        quality.append((float(np.mean(accuracies)), vote))
    return max(quality, key=lambda pair: pair[0])


def plain(sets, y, folds):
    results = []
    for w, (X, _) in sets.items():
        for k in (20, 50, 100):
            parts = []
            for held in folds:
                near = shortlist(X[~held], X[held], k)
                scores = pair_scores(X[held], X[~held], near)
                parts.append((scores, y[~held][near], y[held]))
            results.append((*judge(parts, y), w, k))
    _, vote, w, k = max(results, key=lambda r: r[0])
    X, Q = sets[w]
    near = shortlist(X, Q, k)
    note = f"whitening {w}, k={k}, power {vote.sharpness:g}"
    return vote.tally(pair_scores(Q, X, near), y[near], y.max() + 1), note


def matrix(name, X, y):
    """M of one rule, of Frobenius norm one, so that matrices can be added."""
    M = SLNE(tol=0, random_state=0, **LEARNERS[name]).fit(X, y).matrix_
    return M / np.linalg.norm(M)


def single(X, Q, y, folds):
    """SL-NE: the rule, or sum of rules, that is best on held-out rows."""
    shown = []
    for held in folds:
        rows, labels, queries = X[~held], y[~held], X[held]
        near = shortlist(rows, queries, K)
        scores = {n: pair_scores(queries @ matrix(n, rows, labels), rows, near) for n in LEARNERS}
        shown.append((scores, labels[near], y[held]))
    trials = []
    for names in SUMS:
        parts = [(sum(scores[n] for n in names), near, truth) for scores, near, truth in shown]
        trials.append((*judge(parts, y), names))
    _, vote, names = max(trials, key=lambda t: t[0])
    M = sum(matrix(n, X, y) for n in names)
    near = shortlist(X, Q, K)
    tried = " ".join(f"{'+'.join(names)} {accuracy:.2f}" for accuracy, _, names in trials)
    note = f"{'+'.join(names)}, power {vote.sharpness:g} (held out: {tried})"
    return vote.tally(pair_scores(Q @ M, X, near), y[near], y.max() + 1), note


def ensemble(X, Q, y, folds):
    """SL-DE: three blocks of principal directions and ten random projections, d = D/3, per rule."""

    def collapsed(name, rows, labels):
        member, d = SLNE(tol=0, **LEARNERS[name]), X.shape[1] // 3
        model = SLDE(member, projection="mixed", n_members=13, n_components=d, n_jobs=2)
        M = model.set_params(random_state=0).fit(rows, labels).matrix_
        return M / np.linalg.norm(M)

    def summed(rows, labels):
        return collapsed("all", rows, labels) + collapsed("hardest", rows, labels)

    parts = []
    for held in folds:
        near = shortlist(X[~held], X[held], K)
        scores = pair_scores(X[held] @ summed(X[~held], y[~held]), X[~held], near)
        parts.append((scores, y[~held][near], y[held]))
    accuracy, vote = judge(parts, y)
    near = shortlist(X, Q, K)
    scores = pair_scores(Q @ summed(X, y), X, near)
    note = f"all+hardest, power {vote.sharpness:g} (held out: {accuracy:.2f})"
    return vote.tally(scores, y[near], y.max() + 1), note


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--onnx", type=Path, help="a network for the table of embeddings")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    main(given)
