"""Accuracy of nearkin without arguments, beside every classifier that a user would try.

    python benchmarks/accuracy.py --data DIR --work WORK [--onnx NETWORK] [--sets …] [--methods …]

DIR holds the archives named in `DATA`, WORK keeps image features and the results, so that a run
resumes, a method can be measured apart, and ``--table`` prints what is there. Digits come with
scikit-learn, Fashion-MNIST with Debian's package dataset-fashion-mnist.

All methods get the same rows. Linear classifiers choose their scaling (of columns, or of all rows
by one factor) and regularisation by cross-validation on at most 6,000 training rows, then fit all
of them (`nearkin.app.baselines`). Official test rows where there are any, else three random splits.
Allow some hours.
"""

import argparse
import gzip
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import machine
from nearkin import SoftVotingKNN
from nearkin.app.baselines import BASELINES, TITLES
from nearkin.io.atomic import atomic_write
from nearkin.metrics import calibration

SPLITS = 3
FASHION = Path("/usr/share/datasets/fashion-mnist")
SETS = ["digits", "usps", "letter", "mnist", "fashion", "covtype", "llc", "onnx", "banking77"]
RANDOM = {"digits", "letter", "covtype", "llc", "onnx"}  # sets without an official test set
EMBEDDINGS = {"onnx", "banking77"}


def class_means(X, y):
    """Nearest class mean; the map is a D×D matrix."""
    return None if X.shape[1] > len(X) else BASELINES["means"](0).fit(X, y)


METHODS: dict[str, Callable] = {
    TITLES[name]: lambda X, y, make=make: make(0).fit(X, y) for name, make in BASELINES.items()
} | {
    "class means": class_means,
    "raw distance 1-NN": lambda X, y: SoftVotingKNN(None, n_neighbors=1, vote="top").fit(X, y),
    "nearkin": lambda X, y: SoftVotingKNN(random_state=0).fit(X, y),
}


def load(name, seed, given):
    """Rows to learn from, their labels, rows to report on, their labels."""
    if name == "digits":
        return split(*load_digits(return_X_y=True), 0.2, seed)
    if name == "fashion":
        X, y = fashion()
        return rows(X[:60_000]), y[:60_000], rows(X[60_000:]), y[60_000:]
    if name in ("llc", "onnx"):
        return images(name, seed, given)
    with np.load(given.data / f"{name}.npz") as file:
        if name == "letter":
            return split(file["x"], file["y"], 4_000, seed)
        if name == "covtype":
            chosen = np.random.default_rng(seed).permutation(len(file["y"]))[:120_000]
            return split(file["x"][chosen], file["y"][chosen], 20_000, seed)
        return rows(file["x_train"]), file["y_train"], rows(file["x_test"]), file["y_test"]


def rows(array):
    return array.reshape(len(array), -1).astype(np.float32)


def split(X, y, test, seed):
    X1, X2, y1, y2 = train_test_split(rows(X), y, test_size=test, stratify=y, random_state=seed)
    return X1, y1, X2, y2


def idx(name):
    with gzip.open(FASHION / f"{name}-ubyte.gz") as file:
        data = file.read()
    dims = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i]) for i in range(data[3])]
    return np.frombuffer(data[4 + 4 * len(dims) :], np.uint8).reshape(dims)


def fashion():
    """All images of Fashion-MNIST, 28×28 bytes, and their labels; the training ones first."""
    images, labels = ([idx(f"{part}-{kind}") for part in ("train", "t10k")]
                      for kind in ("images-idx3", "labels-idx1"))  # fmt: skip
    return np.concatenate(images), np.concatenate(labels)


def images(name, seed, given):
    """Caltech-101, 30 training images a class; LLC codes in the span of the training rows."""
    import caltech

    if name == "onnx":
        features, labels = caltech.embeddings(given.data, given.work, given.onnx)
        mask = caltech.split(labels, seed)
        X, Q = features[mask], features[~mask]
    else:
        features, labels = caltech.llc_features(given.data, given.work)
        mask = caltech.split(labels, seed)
        X, Q = caltech.in_span(features, mask, f"llc-split{seed}", given.work, 0.5)
    return np.asarray(X), labels[mask], np.asarray(Q), labels[~mask]


def measure(fit, data):
    X, y, Q, truth = data
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fit(X, y)
    if model is None:
        return None
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    codes = np.searchsorted(np.unique(y), truth)
    probabilities = hasattr(model, "predict_proba")
    scores = model.predict_proba(Q) if probabilities else model.decision_function(Q)
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    right, top3 = ranked[:, 0] == codes, (ranked == codes[:, None]).any(axis=1)
    result = {"seconds": wall, "cpu": cpu, "top1": right.mean(), "top3": top3.mean(),
              "per_class": np.mean([right[codes == c].mean() for c in np.unique(codes)]),
              "per_class_top3": np.mean([top3[codes == c].mean() for c in np.unique(codes)]),
              "right": np.packbits(right).tolist(), "n": len(right)}  # fmt: skip
    if probabilities:
        likelihood = scores[np.arange(len(codes)), codes]
        result["log_loss"] = float(-np.log(np.maximum(likelihood, 1e-7)).mean())
        result["calibration"] = calibration(scores, right)["error"]
    if hasattr(model, "report_"):
        result["chosen"] = model.report_
    return {k: float(v) if isinstance(v, np.floating) else v for k, v in result.items()}


def spread(entries, other=None):
    """Standard deviation over splits, or of a paired bootstrap over the test rows."""
    values = [e["top1"] for e in entries]
    if len(entries) > 1:
        others = [0] * len(entries) if other is None else [o["top1"] for o in other]
        return float(np.std([a - b for a, b in zip(values, others)]))  # of splits that both have
    right = unpacked(entries[0]) - (0 if other is None else unpacked(other[0]))
    rng = np.random.default_rng(0)
    return float(
        np.std([right[rng.integers(0, len(right), len(right))].mean() for _ in range(500)])
    )


def unpacked(entry):
    return np.unpackbits(np.array(entry["right"], np.uint8))[: entry["n"]].astype(float)


def table(results, sets):
    for name in sets:
        found = {m: results.get(f"{name}/{m}", []) for m in METHODS}
        found = {m: [e for e in entries if e] for m, entries in found.items()}
        found = {m: entries for m, entries in found.items() if entries}
        if not found:
            continue
        print(f"\n{name}\n{'':22}  top-1          top-3  per class      log loss  calib.  seconds")
        for method, entries in found.items():
            mean = {k: np.mean([e[k] for e in entries]) for k in entries[0]
                    if isinstance(entries[0][k], float)}  # fmt: skip
            loss = (
                f"{mean['log_loss']:.3f}  {mean['calibration']:.3f}" if "log_loss" in mean else "-"
            )
            percent = {k: 100 * v for k, v in mean.items()}
            print(
                f"{method:22}  {percent['top1']:5.2f} ± {100 * spread(entries):.2f}  "
                f"{percent['top3']:6.2f}  {percent['per_class']:5.2f}/"
                f"{percent['per_class_top3']:5.2f}  {loss:>14}  {mean['seconds']:7.1f}"
            )
        others = {m: np.mean([e["top1"] for e in v]) for m, v in found.items() if m != "nearkin"}
        if "nearkin" in found and others:
            best = max(others, key=others.get)
            ours = np.mean([e["top1"] for e in found["nearkin"]])
            gap = spread(found["nearkin"], found[best])
            print(f"nearkin − {best}: {100 * (ours - others[best]):+.2f} ± {100 * gap:.2f}")


def main(given):
    print(machine.facts())
    kept = given.work / "accuracy.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for name in given.sets if not given.table else []:
        for seed in range(SPLITS if name in RANDOM else 1):
            data = None
            for method in given.methods:
                entries = results.setdefault(f"{name}/{method}", [])
                if len(entries) > seed:
                    continue
                data = data or load(name, seed, given)
                entries.append(measure(METHODS[method], data))
                shown = entries[-1] and {k: v for k, v in entries[-1].items() if k != "right"}
                print(name, seed, method, shown, flush=True)
                with atomic_write(kept) as aside:
                    aside.write_text(json.dumps(results))
    table(results, given.sets)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--onnx", type=Path, help="a network for the embeddings")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--table", action="store_true", help="print the results so far")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    main(given)
