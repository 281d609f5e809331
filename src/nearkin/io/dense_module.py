"""The files of sentence-transformers' Dense module."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.io.atomic import atomic_write

_WEIGHTS = "model.safetensors"
_ACTIVATION = "torch.nn.modules.linear.Identity"


def write_dense(folder: Path, matrix: NDArray[np.float32], offset: NDArray[np.float32]) -> None:
    """Write a folder, which must not exist, with a linear layer's weights and their description."""
    config = {
        "in_features": matrix.shape[0],
        "out_features": matrix.shape[1],
        "bias": True,
        "activation_function": _ACTIVATION,
    }
    weights = {"linear.weight": np.ascontiguousarray(matrix.T), "linear.bias": offset}
    folder.mkdir(parents=True)
    try:
        safetensors.write(folder / _WEIGHTS, weights, {"format": "pt"})
        with atomic_write(folder / "config.json") as temporary:
            temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    except BaseException:  # half a module is none
        (folder / _WEIGHTS).unlink(missing_ok=True)
        folder.rmdir()
        raise
