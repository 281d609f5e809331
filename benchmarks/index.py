"""Retrieval from an index of vectors as they are, by queries that an adapter has changed.

    python benchmarks/index.py --data DIR --work WORK [--onnx NETWORK] [--sets …] [--table]

DIR and WORK are those of accuracy.py; WORK keeps the results, so that a run resumes. Labelled sets
are split three times at random, the training rows being the index and what is learned from (as
`nearkin try` does); sets of judged queries have their own test queries, and three seeds. Vectors
have unit length. The adapter leaves the index as it is; methods marked "rebuilt" store others.
"""

import argparse
import io
import json
import time
import warnings
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

import accuracy
import machine
from nearkin import SLNE, Preprocess, WithinClassWhitening
from nearkin.app.trial import learn_for_index, measured
from nearkin.images import OnnxEncoder
from nearkin.io.atomic import atomic_write
from nearkin.retrieval_task import RetrievalTask, exact_index, means

SPLITS, SHRINKAGE = 3, 0.3
LABELLED = ("digits", "banking77", "fashion", "onnx", "fashion-onnx")
JUDGED = ("medquad", "scifact")
# Rows of the index and queries, of a large set.
SAMPLE = {"fashion": (6_000, 2_000), "fashion-onnx": (6_000, 4_000)}
EMBEDDED = 12_000  # images of Fashion-MNIST that the network sees


def labelled(name, seed, given):
    """A task whose index holds the training rows."""
    X, y, Q, truth = load(name, seed, given)
    if name not in accuracy.RANDOM:  # one official split: draw others of the same sizes
        X, y = np.concatenate([X, Q]), np.concatenate([y, truth])
        n, m = SAMPLE.get(name, (len(X) - len(Q), len(Q)))
        X, Q, y, truth = train_test_split(
            X, y, train_size=n, test_size=m, stratify=y, random_state=seed
        )
    X, Q = (normalize(rows).astype(np.float32) for rows in (X, Q))
    return RetrievalTask(X, Q, labels=y, truth=truth)


def load(name, seed, given):
    """Rows to learn from, their labels, other rows, their labels."""
    if name != "fashion-onnx":
        return accuracy.load(name, seed, given)
    X, y = fashion_embeddings(given.work, given.onnx)
    n = SAMPLE[name][0]
    return X[:n], y[:n], X[n:], y[n:]


def fashion_embeddings(work, network):
    """Outputs of an ONNX network for some images of Fashion-MNIST, and the labels."""
    X, y = accuracy.fashion()
    some = np.sort(np.random.default_rng(0).permutation(len(X))[:EMBEDDED])
    kept = work / "fashion-embeddings.npy"
    if not kept.exists():
        print("embeddings: about four minutes ...", flush=True)
        encoder = OnnxEncoder(network, output="features", mean=127.0, scale=128.0, crop=1.0)
        features = encoder.transform([png(image) for image in X[some]])
        with atomic_write(kept) as aside, open(aside, "wb") as file:
            np.save(file, features)
    return np.load(kept), y[some]


def png(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def judged(name, given):
    """A task of test queries, and the queries and judgements to learn from."""
    with np.load(given.data / f"{name}.npz") as file:
        docs, learn, test = (normalize(file[key].astype(np.float32)).astype(np.float32)
                             for key in ("docs", "queries_train", "queries_test"))  # fmt: skip
        return RetrievalTask(docs, test, file["qrels_test"]), learn, file["qrels_train"]


def by_labels(name, seed, given):
    task = labelled(name, seed, given)
    began = time.perf_counter()
    model = learn_for_index(task.documents, task.labels, seed)
    seconds = time.perf_counter() - began
    found = entries(measured(task, task.asked, model.adapter(metric="cosine")))
    for kind, make in REBUILT.items():
        stored, asked = make(task.documents, task.labels, task.asked)
        values = task.measures(task.search(exact_index(stored), asked))
        found[f"{kind}, rebuilt"] = means(values)
    default = SLNE(random_state=seed).fit(task.documents, task.labels)
    asked = default.transform_query(task.asked)
    values = task.measures(task.search(exact_index(task.documents), asked))
    found["SLNE() without arguments, whole index, exact"] = means(values)
    return found | {"seconds": seconds, "prepare": repr(model.prepare)}


def by_judgements(name, seed, given):
    task, queries, relevant = judged(name, given)
    began = time.perf_counter()
    model = SLNE(random_state=seed).fit_pairs(queries, task.documents, relevant)
    seconds = time.perf_counter() - began
    return entries(measured(task, task.asked, model.adapter(metric="cosine"))) | {
        "seconds": seconds, "chosen": model.pair_choice_,
    }  # fmt: skip


def entries(methods):
    return {method.name: method.as_dict() for method in methods}


def learned(prepare):
    """SLNE on rows that are scaled to unit length after `prepare`."""

    def make(X, y, Q):
        rows = prepare.fit_transform(X, y)
        model = SLNE(prepare=None, random_state=0).fit(rows, y)
        return rows, model.transform_query(prepare.transform(Q))

    return make


def whitened(X, y, Q):
    """Within-class whitening and cosine, in four lines of numpy."""
    within = np.concatenate([X[y == c] - X[y == c].mean(axis=0) for c in np.unique(y)])
    values, vectors = np.linalg.eigh(within.T @ within / len(X))
    W = (vectors / np.sqrt(np.maximum(values, 0) + SHRINKAGE * values.mean())).astype(np.float32)
    return normalize((X - X.mean(axis=0)) @ W), (Q - X.mean(axis=0)) @ W


def discriminant(X, y, Q):
    """Shrinkage LDA, and cosine between discriminants."""
    lda = LinearDiscriminantAnalysis("eigen", shrinkage=SHRINKAGE).fit(X, y)
    stored, asked = (np.ascontiguousarray(lda.transform(rows), np.float32) for rows in (X, Q))
    return normalize(stored), asked


REBUILT = {
    "SLNE after Preprocess()": learned(Preprocess()),
    "SLNE after WithinClassWhitening()": learned(WithinClassWhitening()),
    "within-class whitening": whitened,
    "shrinkage LDA": discriminant,
}


def table(results, sets):
    for name in sets:
        found = [results[key] for seed in range(SPLITS) if (key := f"{name}/{seed}") in results]
        if not found:
            continue
        shown = ("precision@10",) if name in LABELLED else ("nDCG@10", "recall@100")
        seconds = np.mean([entry["seconds"] for entry in found])
        print(f"\n{name}: {' and '.join(shown)}, {len(found)} splits or seeds, {seconds:.0f} s")
        for method, first in found[0].items():
            if not isinstance(first, dict) or method == "chosen":  # by fit_pairs
                continue
            cells = []
            for measure in shown:
                if measure not in first:  # of lists that are too short
                    continue
                values = [entry[method][measure] for entry in found]
                cells.append(f"{np.mean(values):.4f} ± {np.std(values):.4f}")
                if "gains" in first and measure in first["gains"]:
                    low = min(entry[method]["gains"][measure]["low"] for entry in found)
                    cells.append(f"gain at least {low:+.4f}")
            if first.get("found") is not None:
                cells.append(f"found {np.mean([entry[method]['found'] for entry in found]):.3f}")
            if "ms_per_query" in first:
                cells.append(f"{np.mean([e[method]['ms_per_query'] for e in found]):.2f} ms")
            print(f"  {method:44}  {'  '.join(cells)}")


def main(given):
    print(machine.facts())
    kept = given.work / "index.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    for name in given.sets if not given.table else []:
        for seed in range(SPLITS):
            if f"{name}/{seed}" in results:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                measure = by_labels if name in LABELLED else by_judgements
                results[f"{name}/{seed}"] = measure(name, seed, given)
            print(name, seed, json.dumps(results[f"{name}/{seed}"]), flush=True)
            with atomic_write(kept) as aside:
                aside.write_text(json.dumps(results))
    table(results, given.sets)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--onnx", type=Path, help="a network for the embeddings of images")
    parser.add_argument("--sets", nargs="+", choices=LABELLED + JUDGED, default=LABELLED + JUDGED)
    parser.add_argument("--table", action="store_true", help="print the results so far")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    main(given)
