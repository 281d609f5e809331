"""Measures of raw cosine on real retrieval sets, beside those of trec_eval.

    python benchmarks/measures.py --data DIR

DIR holds medquad.npz and scifact.npz: docs, queries_test, qrels_test (query row, document row,
grade). Fails if a query's value differs by more than float32 can account for.
"""

import argparse
from pathlib import Path

import numpy as np
import pytrec_eval

from nearkin import metrics

LENGTH = 100


def cosine_lists(queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """The nearest documents by dot product: rows have unit length."""
    scores = queries.astype(np.float32) @ documents.astype(np.float32).T
    return np.argsort(-scores, axis=1, kind="stable")[:, :LENGTH]


def ours(ranked: np.ndarray, judgements: np.ndarray) -> dict[str, np.ndarray]:
    found = metrics.judged_relevance(ranked, judgements)
    return {
        "ndcg_cut_10": metrics.ndcg_at_k(found.relevant, found.ideal, 10, per_query=True),
        "P_10": metrics.precision_at_k(found.relevant, 10, per_query=True),
        "recall_100": metrics.recall_at_k(found.relevant, found.totals, 100, per_query=True),
        "recip_rank": metrics.reciprocal_rank(found.relevant, LENGTH, per_query=True),
    }


def theirs(ranked: np.ndarray, judgements: np.ndarray) -> dict[str, np.ndarray]:
    qrels: dict[str, dict[str, int]] = {str(q): {} for q in range(len(ranked))}
    for q, row, grade in judgements.tolist():
        qrels[str(q)][str(row)] = int(grade)
    run = {str(q): {str(row): float(-rank) for rank, row in enumerate(rows)}
           for q, rows in enumerate(ranked.tolist())}  # fmt: skip
    names = ("ndcg_cut_10", "P_10", "recall_100", "recip_rank")
    found = pytrec_eval.RelevanceEvaluator(qrels, set(names)).evaluate(run)
    return {name: np.array([found[str(q)][name] for q in range(len(ranked))]) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    for name in ("medquad", "scifact"):
        with np.load(folder / f"{name}.npz") as data:
            ranked = cosine_lists(data["queries_test"], data["docs"])
            judgements = data["qrels_test"]
        expected = theirs(ranked, judgements)
        for measure, values in ours(ranked, judgements).items():
            np.testing.assert_allclose(values, expected[measure], atol=1e-6)
            print(f"{name:<8} {measure:<12} {values.mean():.4f}   {len(values)} queries agree")


if __name__ == "__main__":
    main()
