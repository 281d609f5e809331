"""A trained model as commands use it: read from a file, or from the folder of a finished run."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nearkin import datasets
from nearkin.io import models
from nearkin.io.files import check_file
from nearkin.io.ids import RowIds

ENCODER, IMAGES, SPLIT = "encoder.safetensors", "images.json", "split.npz"
MODEL = "model.safetensors"


@dataclass(frozen=True)
class TrainedModel:
    """A model; for images, also their encoder and the paths of the training images."""

    model: Any
    encoder: Any = None
    names: list[str] | None = None

    @cached_property
    def ids(self) -> RowIds | None:
        """The ids of the training rows, if their table had any."""
        packed = getattr(self.model, "ids_", None)
        return None if packed is None else RowIds(packed, len(self.model.labels_))


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
    return TrainedModel(model, models.load(path / ENCODER), _training_images(path))


def _training_images(folder: Path) -> list[str]:
    """The paths of the images that the model was trained on."""
    check_file(folder / IMAGES, "a folder that 'nearkin run' has finished")
    train = datasets.read_array(folder / SPLIT, "train", "give a folder of 'nearkin run'")
    try:
        images = json.loads((folder / IMAGES).read_text(encoding="utf-8"))
        paths = [str(path) for path in images["paths"]]
        readable = np.setdiff1d(np.arange(len(paths)), images["skipped"])
        return [paths[i] for i in readable[train]]
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as reason:
        raise ValueError(
            f"{folder / IMAGES} is damaged or does not belong to {SPLIT} ({reason!r:.80}); the "
            "command 'nearkin run' that made the folder makes it again"
        ) from None
