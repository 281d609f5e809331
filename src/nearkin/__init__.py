"""nearkin learns what "similar" means.

Give it labelled vectors and it learns a similarity ``s(x, z) = xᵀMz`` under which a row's
nearest neighbours are of its own kind.

Names and modules are loaded on first use, so that ``import nearkin`` costs milliseconds.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "RunFolder": "nearkin.io.run_folder",
    "SLDE": "nearkin.slde",
    "SLNE": "nearkin.slne",
    "SoftVotingKNN": "nearkin.classifier",
    "Preprocess": "nearkin.preprocessing",
    "FourierLift": "nearkin.preprocessing",
    "tune": "nearkin.tuning",
    "load": "nearkin.io.models",
    "save": "nearkin.io.models",
}

__all__ = [
    "SLDE",
    "SLNE",
    "FourierLift",
    "Preprocess",
    "RunFolder",
    "SoftVotingKNN",
    "__version__",
    "load",
    "save",
    "tune",
]  # fmt: skip

if TYPE_CHECKING:
    from nearkin.classifier import SoftVotingKNN
    from nearkin.io.models import load, save
    from nearkin.io.run_folder import RunFolder
    from nearkin.preprocessing import FourierLift, Preprocess
    from nearkin.slde import SLDE
    from nearkin.slne import SLNE
    from nearkin.tuning import tune


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name[:1] != "_" and find_spec(f"nearkin.{name}"):
        return import_module(f"nearkin.{name}")
    raise AttributeError(f"module 'nearkin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *(module.name for module in iter_modules(__path__))])
