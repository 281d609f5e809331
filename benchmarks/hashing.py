"""Binary codes under a learned similarity: recall of candidates, beside random codes and cells.

    python benchmarks/hashing.py --data DIR

Rows and queries are those of the official splits. M is `SLNE()`'s, on prepared rows; truth are the
ten rows of largest xᵀMz, exactly. Every index proposes 50 candidates a query. Codes "of rows" are
made from the rows as M sees them and know nothing of M; codes "of factors" from Ax and Bz, M = AᵀB
(`learning.factorization.factors`), so that their Hamming distance follows the learned similarity.
"""

import argparse
from pathlib import Path

import numpy as np

from nearkin import SLNE
from nearkin.learning.factorization import factors
from nearkin.neighbors.registry import build

K, CANDIDATES, QUERIES = 10, 50, 1_000


def load(path, rows):
    with np.load(path) as f:
        X, y = f["x_train"][:rows], f["y_train"][:rows]
        Q = f["x_test"][:QUERIES]
    return (a.reshape(len(a), -1).astype(np.float32) for a in (X, Q)), y


def recall(candidates, truth):
    found = [
        len(set(a) & set(b)) for a, b in zip(candidates[:, :CANDIDATES].tolist(), truth.tolist())
    ]
    return sum(found) / truth.size


def proposed(rows, queries, index, metric="euclidean"):
    built = build(np.ascontiguousarray(rows), index, metric)
    built.prepare(CANDIDATES)
    return built.search(np.ascontiguousarray(queries), CANDIDATES)


def compare(name, model, X, Q, bits):
    X, Q = (model.preparation_.transform(a) for a in (X, Q))
    A, B = factors(model.matrix_)
    moved = Q @ model.matrix_
    truth = np.argsort(-(moved @ X.T), axis=1, kind="stable")[:, :K]
    print(f"\n{name}: {len(X):,} × {X.shape[1]}, recall@{K} in {CANDIDATES} candidates", flush=True)
    near, dot = ("euclidean", "dot")
    codes = f"itq;bits={bits},candidates=1"
    for told, found in {
        f"LSH, {bits} bits, of rows": (X, Q, f"LSH{bits}r", near),
        f"LSH, {bits} bits, of rows, queries by M": (X, moved, f"LSH{bits}r", near),
        f"LSH, {bits} bits, of factors": (X @ B.T, Q @ A.T, f"LSH{bits}r", near),
        f"itq, {bits} bits, of rows": (X, Q, codes, near),
        f"itq, {bits} bits, of rows, queries by M": (X, moved, codes, dot),
        f"itq, {bits} bits, of factors": (X @ B.T, Q @ A.T, codes, dot),
        "cells;recall=0.95, queries by M": (X, moved, "cells;recall=0.95", dot),
    }.items():
        print(f"| {told} | {recall(proposed(*found), truth):.3f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sets", nargs="*", default=["banking77", "mnist"])
    arguments = parser.parse_args()
    for name in arguments.sets:
        (X, Q), y = load(arguments.data / f"{name}.npz", arguments.rows)
        model = SLNE(random_state=0).fit(X, y)
        for bits in (64, 256):
            compare(name, model, X, Q, bits)
