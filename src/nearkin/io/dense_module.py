"""The files of sentence-transformers' Dense module."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors

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
    safetensors.write(folder / "model.safetensors", weights, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
