"""Members of an ensemble: fitted by workers, which share data through a run folder.

A worker gets a folder and parameters, never the N×D matrix: it maps its own d columns of projected
data and the graph. A finished member is one part of the folder, so a run that died resumes with
the missing ones.
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from nearkin.ensemble.coupling import own_scores
from nearkin.ensemble.overlap import Overlap
from nearkin.ensemble.projections import Fixed
from nearkin.io.fingerprint import Fingerprint
from nearkin.io.run_folder import RunFolder, as_run_folder
from nearkin.io.safetensors import Stream
from nearkin.learning.factorization import matrix_of
from nearkin.learning.holdout import HoldOut
from nearkin.native.blas import multiply_into, project_rows, serial_blas
from nearkin.native.threads import limited
from nearkin.neighborhoods import Neighborhoods
from nearkin.preprocessing.pca import row_blocks
from nearkin.validation.arrays import TINY

Array = NDArray[np.float32]

_GRAPH = ("indptr", "indices", "n_targets")
_SHARED, _SCORES = "shared", "scores"
_SAMPLE = 1_000


class Members:
    """The members of one ensemble in a run folder that is claimed."""

    def __init__(
        self,
        folder: RunFolder,
        inputs: Mapping[str, Any],
        count: int,
        overlap: Overlap | None = None,
    ) -> None:
        self.folder, self.inputs, self.count = folder, Fingerprint.of(inputs), count
        self.overlap = overlap
        folder.begin(self.inputs)

    def read(self, n: int) -> tuple[Array, float, list[Any]] | None:
        """Matrix, held-out accuracy and history of member `n`; None if it is not finished.

        What it learned, of directions that others hold, too: its share of it.
        """
        kept = self.folder.read(_member(n), self.inputs)
        if kept is None:
            return None
        arrays, notes = kept
        matrix = np.array(arrays["matrix"])
        if self.overlap:
            matrix *= self.overlap.shares(n)
        return matrix, notes["accuracy"], notes["history"]

    def finished(self) -> list[int]:
        """Members that are kept."""
        kept = (self.folder.read(_member(n), self.inputs) for n in range(self.count))
        return [n for n, found in enumerate(kept) if found is not None]

    def write_shared(
        self,
        labels: NDArray[Any],
        hoods: Neighborhoods,
        holdout: HoldOut,
        weights: Array | None = None,
    ) -> None:
        """Write what every worker needs: labels, the graph, held-out rows, weights of rows."""
        shared = {"labels": labels, "held": holdout.held, "voters": holdout.voters}
        shared |= dict(zip(_GRAPH, hoods.arrays))
        some = {"cells": hoods.cells, "weights": weights}
        shared |= {name: array for name, array in some.items() if array is not None}
        self.folder.write(_SHARED, {}, shared)

    def write_scores(self, scores: Array) -> None:
        """Write what the ensemble gives each edge, in the units of members that are coupled."""
        self.folder.write(_SCORES, {}, {"scores": scores})

    def write_rows(self, n: int, X: Array, P: Array) -> None:
        """Write the projected rows ``X Pᵀ`` of member `n`, block by block."""
        shape = len(X), len(P)
        rows = Stream(shape, np.dtype(np.float32), lambda: _projected(X, P))
        self.folder.write(_rows(n), {}, {"rows": rows})

    def clear_shared(self) -> None:
        """Remove everything but the members, finished or not."""
        self.folder.remove(_SHARED)
        self.folder.remove(_SCORES)
        for n in range(self.count):
            self.folder.remove(_rows(n))
        for n in self.finished():  # a worker may have died before it did so
            self.folder.sub(_unfinished(n)).discard()

    def collect(self, model: Any) -> None:
        """Give an ensemble its finished members, and drop the projections of the others."""
        read = {n: found for n in range(self.count) if (found := self.read(n)) is not None}
        model.projections_ = [model.projections_[n] for n in read]
        model.energies_ = [model.energies_[n] for n in read if n < len(model.energies_)]
        model.members_, accuracies, model.histories_ = map(list, zip(*read.values()))
        mean = float(np.mean(accuracies))
        model.weights_ = [accuracy / mean for accuracy in accuracies]


def place_for_members(folder: Any) -> AbstractContextManager[RunFolder]:
    """Where members are kept: for good, or until they are collected."""
    given = as_run_folder(folder)
    return nullcontext(given) if given.durable else RunFolder.temporary()


def _member(n: int) -> str:
    return f"member-{n:04d}"


def _rows(n: int) -> str:
    return f"rows-{n:04d}"


def _unfinished(n: int) -> str:
    return f"unfinished-{n:04d}"


def _projected(X: Array, P: Array) -> Iterator[Array]:
    return (project_rows(block, P) for _, block in row_blocks(X))


def learn_member(members: Members, n: int, learner: Any) -> None:
    """Fit member `n` on its projected rows and keep it; runs in a worker, on one thread."""
    folder = members.folder.worker()
    if folder.read(_member(n), members.inputs) is not None:
        return  # a scheduler repeats tasks whose worker died after they were done
    shared, rows = _read(folder, _SHARED), _read(folder, _rows(n))["rows"]
    labels, held, voters = (np.array(shared[name]) for name in ("labels", "held", "voters"))
    unfinished = folder.sub(_unfinished(n))
    with limited(1):
        checkpoints = unfinished if folder.durable else RunFolder.nowhere()
        hoods = _coupled(folder, rows, _graph(shared))
        weighed = {"sample_weight": np.array(shared["weights"])} if "weights" in shared else {}
        matrix = matrix_of(_fitted(learner, rows, labels, hoods, checkpoints, weighed))
        holdout = HoldOut(held, voters)
        accuracy = holdout.accuracy(rows, labels, matrix) if holdout else 1.0
    notes = {"accuracy": float(accuracy), "history": getattr(learner, "history_", [])}
    folder.write(_member(n), members.inputs, {"matrix": matrix}, notes)
    folder.remove(_rows(n))
    unfinished.discard()


def _read(folder: RunFolder, name: str) -> dict[str, NDArray[Any]]:
    """What the owner has just written for its workers."""
    found = folder.read(name, None, verify=False)
    if found is None:
        raise RuntimeError(f"{name} is missing in {folder.path}; fit again with the same folder")
    return found[0]


def _graph(shared: Mapping[str, NDArray[Any]]) -> Neighborhoods:
    """The shared graph, memory-mapped."""
    cells = np.array(shared["cells"]) if "cells" in shared else None
    indptr, indices, n_targets = (shared[name] for name in _GRAPH)
    return Neighborhoods(indptr, indices, n_targets, cells=cells)


def _coupled(folder: RunFolder, rows: Array, hoods: Neighborhoods) -> Neighborhoods:
    """The graph with the scores of the other members, if there are any."""
    found = folder.read(_SCORES, None, verify=False)
    if found is None:
        return hoods
    return replace(hoods, offsets=found[0]["scores"] - own_scores(rows, hoods))


def _fitted(
    learner: Any,
    rows: Array,
    labels: Any,
    hoods: Neighborhoods,
    folder: RunFolder,
    weighed: dict[str, Any],
) -> Any:
    if has_fit_parameter(learner, "neighbors"):
        resumes = folder.durable and has_fit_parameter(learner, "folder")
        given = weighed | ({"folder": folder} if resumes else {})
        with warnings.catch_warnings():  # a member that is interrupted is not kept
            warnings.filterwarnings("ignore", "interrupted in epoch")
            learner.fit(rows, labels, neighbors=hoods, **given)
        if getattr(learner, "interrupted_", False):
            raise KeyboardInterrupt  # a member is kept complete or not at all
        return learner
    # Rows that the graph leaves out are held out; a learner without a graph must not see them.
    known = hoods.degrees > 0
    weighed = {name: weights[known] for name, weights in weighed.items()}
    return learner.fit(rows[known], labels[known], **weighed)


def collapsed(model: Any, D: int) -> Array:
    """The members of an ensemble as one matrix, Σ weight · PᵀMP."""
    total = np.zeros((D, D), np.float32)
    with serial_blas():
        for P, M, weight in zip(model.projections_, model.members_, model.weights_):
            matrix = P.matrix()
            half = np.empty_like(matrix)
            multiply_into(half, np.ascontiguousarray(M), matrix)
            multiply_into(total, matrix, half, scale=weight, keep=1, left_transposed=True)
    return total


def check_projections(model: Any, rows: Array) -> None:
    """Refuse a projection that leaves nothing of any row, before other members are learned."""
    for n, P in enumerate(model.projections_):
        if isinstance(P, Fixed) and _vanishes(rows, P.rows):
            raise ValueError(_about_nothing(model, n))


def _about_nothing(model: Any, n: int) -> str:
    if not isinstance(model.projection, str):
        return f"projection[{n}] makes every row of X zero; leave it out, or give another"
    d = len(model.projections_[n].matrix())
    return (
        f"PCA block {n + 1} of {len(model.energies_)} holds nothing of X: the rows that it was "
        f"found from vary in fewer directions; use n_members={max(n, 1)} with n_components={d},"
        " or less of either"
    )


def _vanishes(rows: Array, P: Array) -> bool:
    """Whether the projected rows are so short that their squares are zero."""
    if mean_squared_length(rows, P) > TINY:  # of a sample: enough in nearly all cases
        return False
    total = sum(
        float(np.square(block @ P.T).sum(dtype=np.float64)) for _, block in row_blocks(rows)
    )
    return total / len(rows) <= TINY


def mean_squared_length(X: Array, P: Array) -> float:
    """Of the rows of ``X Pᵀ``, from a sample: it only sets the unit of the step size."""
    sample = X[np.linspace(0, len(X) - 1, min(_SAMPLE, len(X))).astype(int)]
    sample = project_rows(sample, P)
    return float(np.einsum("nd,nd->n", sample, sample).mean(dtype=np.float64))
