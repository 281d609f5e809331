"""Classes that were left out of training, told apart by the novelty of their rows.

    python benchmarks/novelty.py --data DIR --work WORK [--onnx NETWORK] [--formulas]

Caltech-101 (network embeddings, 30 training images a class) and Banking77, each with three random
fifths of the classes left out: area under the ROC curve, test rows of known classes against those
of the classes left out. ``--formulas`` compares candidates for `novelty_score` in the same way,
on further classes left out of the training part and a fifth of its rows; the test rows are not
read. DIR and WORK are those of accuracy.py. About ten minutes.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import caltech
import machine
from nearkin import SLNE, Softmax, SoftVotingKNN, Vote, WithinClassWhitening
from nearkin.app.baselines import BASELINES

LEFT_OUT = 0.2
NAMES = "caltech101", "banking77"


def load(name, seed, given):
    """Training rows, their labels, test rows, their labels."""
    if name == "banking77":
        with np.load(given.data / "banking77.npz") as file:
            return [file[key] for key in ("x_train", "y_train", "x_test", "y_test")]
    features, labels = caltech.embeddings(given.data, given.work, given.onnx)
    mask = caltech.split(labels, seed)
    return features[mask], labels[mask], features[~mask], labels[~mask]


def without(labels, rng):
    """All labels but a random fifth."""
    classes = rng.permutation(np.unique(labels))
    return np.sort(classes[int(LEFT_OUT * len(classes)) :])


def compared(X, y, Q):
    """Novelty by what a user could take instead, and by nearkin; the model."""
    distances = 1 - np.sort(unit(Q) @ unit(X).T, axis=1)[:, ::-1]
    model = SoftVotingKNN(random_state=0).fit(X, y)
    logistic = BASELINES["logistic"](0, 2_000).fit(X, y)
    return {
        "raw cosine, nearest row": distances[:, 0],
        "raw cosine, 5th nearest": distances[:, 4],
        "logistic regression": 1 - logistic.predict_proba(Q).max(axis=1),
        "nearkin, 1 - largest share": 1 - model.predict_proba(Q).max(axis=1),
        "nearkin, novelty_score": model.novelty_score(Q),
    }, model


def formulas(X, y, Q):
    """Candidates for `novelty_score`, with a learner as the automatic choice often takes."""
    learner = SLNE(Softmax(), n_neighbors=200, step_size=0.5, max_epochs=3, tol=0, prepare=None)
    vote = Vote("softmax", 0.06, class_weight=0.3, class_temperature=0.06)
    model = SoftVotingKNN(learner, preprocess=WithinClassWhitening(0.3), n_neighbors=100,
                          vote=vote, random_state=0).fit(X, y)  # fmt: skip
    rows, queries, M = model.database_, model.preprocess_.transform(Q), model.similarity_.matrix_
    products = queries @ M
    scores, own = largest(products @ rows.T), largest(rows @ M @ rows.T)[:, 1:]
    near = np.argsort(-(products @ rows.T), axis=1)[:, :5]
    length = np.linalg.norm(products, axis=1)
    found = {f"cosine, mean of {k}": 1 - scores[:, :k].mean(axis=1) / length for k in (1, 3, 5, 10)}
    to_means = (products @ model.class_means_.T).max(axis=1)
    return found | {
        "similarity, mean of 3": -scores[:, :3].mean(axis=1),
        "similarity, 5th": -scores[:, 4],
        "rows before learning, mean of 3": -largest(queries @ rows.T)[:, :3].mean(axis=1),
        "over that of the neighbours": -scores[:, :5].mean(axis=1)
        / own[:, :5].mean(axis=1)[near].mean(axis=1),
        "raw cosine, nearest row": 1 - (unit(Q) @ unit(X).T).max(axis=1),
        "class mean": -to_means,
        "class mean, cosine": -to_means / length,
        "1 - largest share": 1 - model.predict_proba(Q).max(axis=1),
    }


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def largest(scores):
    """The ten largest of each row, and one more."""
    return -np.sort(np.partition(-scores, 11, axis=1)[:, :11], axis=1)


def areas(novelties, known):
    return {name: roc_auc_score(~known, values) for name, values in novelties.items()}


def tested(name, seed, given):
    X, y, Q, truth = load(name, seed, given)
    classes = without(y, np.random.default_rng(seed))
    rows, known = np.isin(y, classes), np.isin(truth, classes)
    novelties, model = compared(np.asarray(X[rows], np.float32), y[rows], np.asarray(Q, np.float32))
    rejected = novelties["nearkin, novelty_score"] > model.novelty_threshold_
    shares = {"rejected, known": rejected[known].mean(), "rejected, new": rejected[~known].mean()}
    return areas(novelties, known) | shares


def chosen(name, seed, given):
    """On the training part alone."""
    X, y = load(name, seed, given)[:2]
    rng = np.random.default_rng(seed)
    part = np.flatnonzero(np.isin(y, without(y, rng)))
    known = np.isin(y[part], without(y[part], rng))
    held = part[known & (rng.random(len(part)) < LEFT_OUT)]
    rows, new = np.setdiff1d(part[known], held), part[~known]
    queries = np.asarray(X[np.r_[held, new]], np.float32)
    novelties = formulas(np.asarray(X[rows], np.float32), y[rows], queries)
    return areas(novelties, np.arange(len(queries)) < len(held))


def main(given):
    print(machine.facts())
    for name in given.sets:
        measure = chosen if given.formulas else tested
        results = []
        for seed in range(given.splits):
            results.append(measure(name, seed, given))
            print(name, seed, {k: round(float(v), 4) for k, v in results[-1].items()}, flush=True)
        print(f"\n{name}")
        for key in results[0]:
            values = [result[key] for result in results]
            print(f"{key:34}{np.mean(values):.3f} ± {np.std(values):.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--onnx", type=Path, help="a network for the embeddings")
    parser.add_argument("--sets", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--formulas", action="store_true", help="compare formulas instead")
    main(parser.parse_args())
