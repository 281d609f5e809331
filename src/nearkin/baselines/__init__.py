"""What nearkin is compared with, in the same shape as its own learners."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "LMNN": "nearkin.baselines.lmnn",
    "LinearSVM": "nearkin.baselines.linear_svm",
}

__all__ = ["LMNN", "LinearSVM"]

if TYPE_CHECKING:
    from nearkin.baselines.linear_svm import LinearSVM
    from nearkin.baselines.lmnn import LMNN


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nearkin.baselines' has no attribute {name!r}")
