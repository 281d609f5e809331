"""Measures of classification and retrieval: pure functions of arrays."""

from nearkin.metrics.bootstrap import paired_bootstrap
from nearkin.metrics.classification import (
    calibration,
    class_accuracies,
    confusions,
    top_n_accuracy,
)
from nearkin.metrics.retrieval import (
    Relevance,
    judged_relevance,
    label_relevance,
    mean_average_precision,
    ndcg_at_k,
    precision_at_k,
    precision_recall_curve,
    recall_at_k,
    reciprocal_rank,
)

__all__ = [
    "Relevance",
    "calibration",
    "class_accuracies",
    "confusions",
    "judged_relevance",
    "label_relevance",
    "mean_average_precision",
    "ndcg_at_k",
    "paired_bootstrap",
    "precision_at_k",
    "precision_recall_curve",
    "recall_at_k",
    "reciprocal_rank",
    "top_n_accuracy",
]
