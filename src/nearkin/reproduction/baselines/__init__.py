"""Metric learners of the literature, as scikit-learn estimators, to compare the paper with."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "LMNN": "nearkin.reproduction.baselines.lmnn",
    "NCM": "nearkin.reproduction.baselines.ncm",
    "OASIS": "nearkin.reproduction.baselines.oasis",
    "KNNMetric": "nearkin.reproduction.baselines.knn_metric",
}

__all__ = ["LMNN", "NCM", "OASIS", "KNNMetric"]

if TYPE_CHECKING:
    from nearkin.reproduction.baselines.knn_metric import KNNMetric
    from nearkin.reproduction.baselines.lmnn import LMNN
    from nearkin.reproduction.baselines.ncm import NCM
    from nearkin.reproduction.baselines.oasis import OASIS


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nearkin.reproduction.baselines' has no attribute {name!r}")
