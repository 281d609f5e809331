"""A fit from labelled rows: preparation, neighbours, hold-out, Algorithm 1, refreshed rounds."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nearkin.io.fingerprint import Digest
from nearkin.io.run_folder import RunFolder
from nearkin.learning.checkpoints import CheckpointWriter
from nearkin.learning.epochs import report_skipped, run_epochs
from nearkin.learning.holdout import validation_rows
from nearkin.learning.preparation import preparation_for, scale_of
from nearkin.learning.refresh import refreshed
from nearkin.learning.state import TrainingState
from nearkin.learning.training_data import TrainingData
from nearkin.native.blas import serial_blas
from nearkin.neighborhoods import (
    Neighborhoods,
    NeighborLists,
    as_graph,
    neighborhoods,
    split_by_shared_labels,
)
from nearkin.neighbors.index import clip_n_neighbors, own_lists
from nearkin.neighbors.retrieval import check_unlabelled, fitted_retrieval, kept_lists, without_rows
from nearkin.preprocessing.prepared import prepared
from nearkin.preprocessing.transformers import learns_from_labels

if TYPE_CHECKING:
    from nearkin.learning.trainer import Trainer

Array = NDArray[np.float32]


@dataclass
class NeighborhoodFit:
    """One call of `SLNE.fit` on a model, whose parameters are checked."""

    model: Any
    data: TrainingData
    cells: NDArray[np.int32] | None = None  # of the rows, where the search has made some

    def run(self, folder: RunFolder) -> None:
        """Learn, and leave the result in the model."""
        model, data = self.model, self.data
        random_state = check_random_state(folder.seed(model.random_state))
        self.seed = int(random_state.randint(np.iinfo(np.int32).max))
        self.rows = prepare_rows(model, data.rows, data.y, random_state, folder)
        self.digest = Digest(self.rows)
        model.retrieval_, lists = None, data.neighbors
        if lists is None:
            lists = self._find_neighbors(random_state, folder)
        self.holdout = validation_rows(lists, data.labels, model.validation_fraction, self.seed)
        best = self._learn(lists, folder)
        self._refresh(lists, best, folder)

    def _refresh(self, lists: NeighborLists, best: float, folder: RunFolder) -> None:
        """Learn again from neighbours searched under M, as long as held-out rows lose nothing."""
        model = self.model
        for number in range(model._execution.refresh):
            if model.interrupted_:
                break
            before = vars(model).copy()
            lists = self._search_again(lists)
            now = self._learn(lists, folder.sub(f"refresh-{number + 1}"))
            if now < best:
                model.__dict__.update(before)
                break
            best = now

    def _search_again(self, lists: NeighborLists) -> NDArray[np.int32]:
        """The neighbours, and those under the learned similarity."""
        model = self.model
        if isinstance(lists, Neighborhoods):
            lists = as_graph(lists, len(self.rows))
        with serial_blas():
            return refreshed(lists, self.rows, model.matrix_, model.n_neighbors, model.index)

    def _find_neighbors(self, rng: Any, folder: RunFolder) -> NDArray[np.int32]:
        """Lists of nearest rows, in the space which is learned on or by a retrieval of its own."""
        model, data, rows = self.model, self.data, self.rows
        k = clip_n_neighbors(model.n_neighbors, len(rows))
        retrieval = fitted_retrieval(model._execution.index, data.rows, data.y, rng, folder)
        if retrieval is not None:
            model.retrieval_ = without_rows(retrieval)
            return kept_lists(retrieval, k, folder)

        def search() -> dict[str, NDArray[Any]]:
            lists, cells = own_lists(rows, k, model.index, model._execution.verbose)
            if cells is None or model._execution.order != "local":
                return {"indices": lists}
            return {"indices": lists, "cells": cells}

        inputs = {"n_neighbors": k, "index": model.index, "X": self.digest}
        found = folder.part("neighbors", inputs, search)
        self.cells = found.get("cells")
        return found["indices"]

    def _learn(self, lists: NeighborLists, folder: RunFolder) -> float:
        """Run Algorithm 1 on these neighbourhoods; the accuracy on held-out rows, if any."""
        model, rows, labels = self.model, self.rows, self.data.labels
        hoods = self._neighborhoods(lists)
        report_skipped(model, hoods, self.holdout.held)
        trainer = model._trainer(rows, hoods, self.seed)
        trainer.weights = self.data.weights
        state = TrainingState(model.history_)

        def validate() -> float | None:
            return self.holdout.accuracy(rows, labels, trainer.learned) if self.holdout else None

        checkpoints = CheckpointWriter(folder, self._inputs(trainer), trainer, state)
        checkpoints.resume()
        state.check_epochs(model.max_epochs, folder)
        model.history_ = state.history
        with serial_blas():
            run_epochs(model, trainer, validate, state, checkpoints)
        return state.best

    def _neighborhoods(self, lists: NeighborLists) -> Neighborhoods:
        multilabel, labels = self.data.multilabel, self.data.labels
        hoods = neighborhoods(
            lists,
            np.zeros(len(labels), np.int64) if multilabel else labels,
            held=self.holdout.held if self.holdout else None,
            hub_limit=self.model._execution.hub_limit,
        )
        if hoods.cells is None and self.cells is not None:
            hoods = replace(hoods, cells=self.cells)
        return split_by_shared_labels(hoods, labels) if multilabel else hoods

    def _inputs(self, trainer: "Trainer") -> dict[str, Any]:
        """What determines the result."""
        hoods, weights = trainer.hoods, self.data.weights
        return (
            self.model.settings()
            | {
                "seed": trainer.settings.seed,
                "rows until M is complete": trainer.superblock,
                # Now, not when it is first asked for: the matrix is about to change.
                "the matrix to start from": str(Digest(trainer.matrix)),
                "epochs before": trainer.epochs,
                "neighbors": Digest(*(a for a in (*hoods.arrays, hoods.cells) if a is not None)),
                "X": self.digest,
                "y": Digest(self.data.labels),
            }
            | ({} if weights is None else {"sample_weight": Digest(weights)})
        )


def prepare_rows(model: Any, rows: Array, y: NDArray[Any], rng: Any, folder: RunFolder) -> Array:
    """Rows as the model, which keeps its preparation and their scale, learns on them."""
    judged, multilabel = model.validation_fraction > 0, y.ndim == 2
    if judged or multilabel:
        why = "y has several labels per row" if multilabel else "validation_fraction holds rows out"
        check_unlabelled(model._execution.index, why)
    if not (model.warm_start and hasattr(model, "matrix_")):
        unfitted = preparation_for(model.prepare, rows.shape, judged or multilabel)
        if learns_from_labels(unfitted) and (judged or multilabel):
            raise ValueError(_labels_needed(model, multilabel))
        model.preparation_ = unfitted
    model.preparation_, rows = prepared(model.preparation_, rows, y, rng, folder)
    model.scale_ = scale_of(rows)
    return rows


def _labels_needed(model: Any, multilabel: bool) -> str:
    name = type(model.prepare).__name__
    if multilabel:
        return f"prepare={name} needs one label per row, and y has several; give prepare='auto'"
    return (
        f"validation_fraction={model.validation_fraction} judges on rows whose labels "
        f"prepare={name} has seen; give prepare='auto'"
    )
