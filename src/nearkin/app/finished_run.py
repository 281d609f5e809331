"""A trained model as commands use it: read from a file, or from the folder of a finished run."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin import datasets
from nearkin.app.labels import match_labels
from nearkin.app.run_files import ENCODER, FEATURES, IMAGES, MODEL, SPLIT, TIMING
from nearkin.io import models
from nearkin.io.files import check_file
from nearkin.io.ids import RowIds
from nearkin.io.tables import Dataset

COMPARED = 64  # rows that are looked at to know a file again


@dataclass(frozen=True)
class TrainedModel:
    """A model; for images, also their encoder and the paths of the training images."""

    model: Any
    encoder: Any = None
    names: list[str] | None = None
    folder: Path | None = None  # of the run

    def training_rows(self, given: Dataset | None = None) -> Any:
        """The training rows as they were, of `given` rows and labels, or of a run on images.

        None if neither is there: a model holds rows as its preprocessing has made them.
        """
        if given is not None:
            return self._of_model(given.rows, given.labels)
        if self.folder is None or not (self.folder / FEATURES).exists():
            return None
        features = datasets.read(self.folder / FEATURES).rows
        return features[_training_images(self.folder)[1]]

    def _of_model(self, rows: Any, y: Any) -> Any:
        """Those of the rows that the model was trained on, after a comparison.

        Of labels; where the file has none, of some rows as the model stores them.
        """
        own = self.model.classes_[self.model.labels_]
        labels = None if y is None else match_labels(y, self.model.classes_)
        if self.folder is not None and rows.shape[0] != len(own):
            train = _read_split(self.folder)
            if train.max(initial=0) < rows.shape[0]:
                rows, labels = rows[train], None if labels is None else labels[train]
        if labels is not None and not np.array_equal(labels, own):
            raise ValueError(
                f"--train: {len(labels):,} rows whose labels are not those of the {len(own):,} "
                "rows that the model was trained on; give the file that it was trained on"
            )
        if labels is None and not self._stores(rows):
            raise ValueError(
                f"--train: {rows.shape[0]:,} rows that are not the {len(own):,} that the model was "
                "trained on; give the file that it was trained on"
            )
        return rows

    def _stores(self, rows: Any) -> bool:
        """Whether the model's rows were made of these, as far as a sample of them tells."""
        stored = self.model.database_
        if rows.shape != (len(stored), self.model.n_features_in_):
            return False
        some = np.linspace(0, len(stored) - 1, min(len(stored), COMPARED)).astype(int)
        made = self.model.prepared(rows[some])
        return np.allclose(made, stored[some], rtol=1e-3, atol=1e-3 * np.abs(stored[some]).max())

    @property
    def fit_seconds(self) -> float | None:
        """The seconds that a run fitted the model in, if it knows them."""
        try:
            text = (self.folder / TIMING).read_text(encoding="utf-8") if self.folder else "{}"
            return float(json.loads(text)["fit_seconds"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

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
        return TrainedModel(model, folder=path)
    return TrainedModel(model, models.load(path / ENCODER), _training_images(path)[0], path)


def _read_split(folder: Path) -> NDArray[np.int64]:
    """The places of the training rows among all."""
    return datasets.read_array(folder / SPLIT, "train", "give a folder of 'nearkin run'")


def _training_images(folder: Path) -> tuple[list[str], NDArray[np.int64]]:
    """The paths of the images that the model was trained on, and their places among all."""
    check_file(folder / IMAGES, "a folder that 'nearkin run' has finished")
    train = _read_split(folder)
    try:
        images = json.loads((folder / IMAGES).read_text(encoding="utf-8"))
        paths = [str(path) for path in images["paths"]]
        places = np.setdiff1d(np.arange(len(paths)), images["skipped"])[train]
        return [paths[i] for i in places], places
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as reason:
        raise ValueError(
            f"{folder / IMAGES} is damaged or does not belong to {SPLIT} ({reason!r:.80}); the "
            "command 'nearkin run' that made the folder makes it again"
        ) from None
