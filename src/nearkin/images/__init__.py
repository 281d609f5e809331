"""From labelled images to vectors: LLC features as in the paper, and any ONNX encoder.

Names are loaded on first use, so that ``import nearkin.images`` costs milliseconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "LLC": "nearkin.images.llc",
    "Codebook": "nearkin.images.codebook",
    "DenseSIFT": "nearkin.images.sift",
    "ImageError": "nearkin.images.reading",
    "ImageFolder": "nearkin.images.folder",
    "OnnxEncoder": "nearkin.images.onnx",
    "UnreadableImages": "nearkin.images.extraction",
}

__all__ = [
    "LLC",
    "Codebook",
    "DenseSIFT",
    "ImageError",
    "ImageFolder",
    "OnnxEncoder",
    "UnreadableImages",
]

if TYPE_CHECKING:
    from nearkin.images.codebook import Codebook
    from nearkin.images.extraction import UnreadableImages
    from nearkin.images.folder import ImageFolder
    from nearkin.images.llc import LLC
    from nearkin.images.onnx import OnnxEncoder
    from nearkin.images.reading import ImageError
    from nearkin.images.sift import DenseSIFT


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'nearkin.images' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
