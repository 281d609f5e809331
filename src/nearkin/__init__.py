"""nearkin learns what "similar" means.

Give it labelled vectors and it learns a similarity ``s(x, z) = xᵀMz`` under which a row's
nearest neighbours are of its own class.

Names and modules are loaded on first use, so that ``import nearkin`` costs milliseconds.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Adapter": "nearkin.adapter",
    "AllAndHardest": "nearkin.learning.sampling",
    "AllPairs": "nearkin.learning.sampling",
    "Constraint": "nearkin.learning.constraints",
    "Execution": "nearkin.learning.execution",
    "FourierFeatures": "nearkin.preprocessing",
    "Hardest": "nearkin.learning.sampling",
    "Preprocess": "nearkin.preprocessing",
    "RandomTarget": "nearkin.learning.sampling",
    "Retrieval": "nearkin.neighbors",
    "RunFolder": "nearkin.io.run_folder",
    "SLDE": "nearkin.slde",
    "SLNE": "nearkin.slne",
    "SamplingRule": "nearkin.learning.sampling",
    "SoftVotingKNN": "nearkin.classifier",
    "Selection": "nearkin.selection",
    "Softmax": "nearkin.learning.sampling",
    "Uniform": "nearkin.learning.sampling",
    "UnitLength": "nearkin.preprocessing",
    "Vote": "nearkin.voting",
    "WithinClassWhitening": "nearkin.preprocessing",
    "graded_triplets": "nearkin.learning.triplets",
    "load": "nearkin.io.models",
    "save": "nearkin.io.models",
}

__all__ = [
    "SLDE",
    "SLNE",
    "Adapter",
    "AllAndHardest",
    "AllPairs",
    "Constraint",
    "Execution",
    "FourierFeatures",
    "Hardest",
    "Preprocess",
    "RandomTarget",
    "Retrieval",
    "RunFolder",
    "SamplingRule",
    "Selection",
    "SoftVotingKNN",
    "Softmax",
    "Uniform",
    "UnitLength",
    "Vote",
    "WithinClassWhitening",
    "__version__",
    "graded_triplets",
    "load",
    "save",
]

if TYPE_CHECKING:
    from nearkin.adapter import Adapter
    from nearkin.classifier import SoftVotingKNN
    from nearkin.io.models import load, save
    from nearkin.io.run_folder import RunFolder
    from nearkin.learning.constraints import Constraint
    from nearkin.learning.execution import Execution
    from nearkin.learning.sampling import (
        AllAndHardest,
        AllPairs,
        Hardest,
        RandomTarget,
        SamplingRule,
        Softmax,
        Uniform,
    )
    from nearkin.learning.triplets import graded_triplets
    from nearkin.neighbors import Retrieval
    from nearkin.preprocessing import (
        FourierFeatures,
        Preprocess,
        UnitLength,
        WithinClassWhitening,
    )
    from nearkin.selection import Selection
    from nearkin.slde import SLDE
    from nearkin.slne import SLNE
    from nearkin.voting import Vote


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name[:1] != "_" and find_spec(f"nearkin.{name}"):
        return import_module(f"nearkin.{name}")
    raise AttributeError(f"module 'nearkin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(module.name for module in iter_modules(__path__))])
