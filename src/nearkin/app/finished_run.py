"""A trained model as commands use it: read from a file, or from the folder of a finished run."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.io import models

ENCODER, IMAGES, SPLIT = "encoder.safetensors", "images.json", "split.npz"
MODEL = "model.safetensors"


@dataclass(frozen=True)
class TrainedModel:
    """A model; for images, also their encoder and the paths of the training images."""

    model: Any
    encoder: Any = None
    names: list[str] | None = None


def load_trained(path: Path) -> TrainedModel:
    """The model of a file or a run folder, with what is needed to use it on images."""
    if not path.is_dir():
        return TrainedModel(models.load(path))
    if not (path / MODEL).exists():
        raise FileNotFoundError(
            f"{path} holds no {MODEL}; give a folder that 'nearkin run' has finished, or a model"
        )
    model = models.load(path / MODEL)
    if not (path / ENCODER).exists():
        return TrainedModel(model)
    images = json.loads((path / IMAGES).read_text(encoding="utf-8"))
    readable = np.setdiff1d(np.arange(len(images["paths"])), images["skipped"])
    with np.load(path / SPLIT) as split:
        names = [images["paths"][i] for i in readable[split["train"]]]
    return TrainedModel(model, models.load(path / ENCODER), names)
