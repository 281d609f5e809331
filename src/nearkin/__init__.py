"""nearkin learns what "similar" means.

Give it labelled vectors and it learns a similarity ``s(x, z) = xᵀMz`` under which a row's
nearest neighbours are of its own kind.

Names and modules are loaded on first use, so that ``import nearkin`` costs milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Checkpoint": "nearkin._checkpoint",
    "SLDE": "nearkin.slde",
    "SLNE": "nearkin.slne",
    "SoftVotingKNN": "nearkin.voting",
    "Preprocess": "nearkin.preprocess",
    "FourierLift": "nearkin.lift",
    "tune": "nearkin.tuning",
    "load": "nearkin.persistence",
    "save": "nearkin.persistence",
}

_MODULES = (
    "baselines",
    "cli",
    "cluster",
    "datasets",
    "evaluation",
    "experiments",
    "images",
    "lift",
    "neighborhoods",
    "neighbors",
    "persistence",
    "preprocess",
    "projections",
    "report",
    "similarity",
    "slde",
    "slne",
    "tuning",
    "votes",
    "voting",
)

__all__ = [
    "SLDE",
    "SLNE",
    "Checkpoint",
    "FourierLift",
    "Preprocess",
    "SoftVotingKNN",
    "__version__",
    "load",
    "save",
    "tune",
]  # fmt: skip

if TYPE_CHECKING:
    from nearkin._checkpoint import Checkpoint
    from nearkin.lift import FourierLift
    from nearkin.persistence import load, save
    from nearkin.preprocess import Preprocess
    from nearkin.slde import SLDE
    from nearkin.slne import SLNE
    from nearkin.tuning import tune
    from nearkin.voting import SoftVotingKNN


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"nearkin.{name}")
    raise AttributeError(f"module 'nearkin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
