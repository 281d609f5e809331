"""Members of an ensemble: what a worker does, and the folder that it shares with the others.

A worker gets paths and parameters, never the N×D matrix: it maps its own d columns of projected
data and the graph. A finished member is one file that appears whole or not at all, so a run that
died goes on with the missing ones.
"""

import json
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from nearkin.io import safetensors
from nearkin.io.atomic import discard, replacing
from nearkin.io.checkpoint import Checkpoint
from nearkin.io.fingerprint import differences, words
from nearkin.learning.holdout import HoldOut
from nearkin.native.threads import limited
from nearkin.neighborhoods import Neighborhoods
from nearkin.preprocessing.pca import row_blocks

Array = NDArray[np.float32]

_GRAPH = ("indptr", "indices", "n_targets")
_SAMPLE = 1_000
# numpy parses headers with ast, which Python 3.11 now and then gets wrong in two threads at once.
_READING = threading.Lock()


class Folder:
    """Projected data, graph and finished members of one run.

    A `durable` one outlives the run: members that are being learned keep checkpoints in it.
    """

    def __init__(self, path: Path, durable: bool = False) -> None:
        self.path, self.durable = path, durable

    def claim(self, made_from: Mapping[str, Any]) -> None:
        """Make the folder ours, or refuse one that belongs to another run."""
        self.path.mkdir(parents=True, exist_ok=True)
        note = self.path / "run.json"
        if not note.exists() and not any(self.path.glob("member-*")):
            with replacing(note) as aside:
                aside.write_text(json.dumps(words(made_from)))
        differing = differences(json.loads(note.read_text()) if note.exists() else {}, made_from)
        if differing:
            raise ValueError(
                f"cache_dir={str(self.path)!r} belongs to a run with other data or parameters: "
                f"{differing}. Nothing in it was changed: give another folder, or remove this one"
            )

    def member(self, n: int) -> Path:
        """Where member `n` is kept."""
        return self.path / f"member-{n:04d}.safetensors"

    def rows(self, n: int) -> Path:
        """Where the projected rows of member `n` lie while it is being learned."""
        return self.path / f"rows-{n:04d}.npy"

    def unfinished(self, n: int) -> Path:
        """Where member `n` keeps its checkpoint while it is being learned."""
        return self.path / f"unfinished-{n:04d}"

    def array(self, name: str) -> Path:
        """Where an array that all members share lies."""
        return self.path / f"{name}.npy"

    def write_shared(
        self,
        labels: NDArray[Any],
        hoods: Neighborhoods | None,
        holdout: HoldOut,
    ) -> None:
        """Write what every worker needs: labels, the graph if it is shared, held-out rows."""
        shared = {"labels": labels, "held": holdout.held, "voters": holdout.voters}
        if hoods is not None:
            shared |= dict(zip(_GRAPH, hoods.arrays))
            if hoods.cells is not None:
                shared["cells"] = hoods.cells
        for name, array in shared.items():
            with replacing(self.array(name)) as aside:
                np.save(aside, array)

    def hoods(self) -> Neighborhoods | None:
        """The shared graph, memory-mapped."""
        if not self.array("indices").exists():
            return None
        with _READING:
            indptr, indices, n_targets = (
                np.load(self.array(name), mmap_mode="r") for name in _GRAPH
            )
            cells = np.load(self.array("cells")) if self.array("cells").exists() else None
        return Neighborhoods(indptr, indices, n_targets, cells=cells)

    def clear_shared(self) -> None:
        """Remove everything but the members, finished or not."""
        for path in self.path.glob("*.npy"):
            path.unlink()


def project(X: Array, P: Array, path: Path) -> None:
    """Write ``X Pᵀ`` to a file, block by block."""
    with replacing(path) as aside:
        out = np.lib.format.open_memmap(aside, "w+", np.float32, (len(X), len(P)))
        for lo, block in row_blocks(X):
            out[lo : lo + len(block)] = block @ P.T
        out.flush()


def mean_squared_length(X: Array, P: Array) -> float:
    """Of the rows of ``X Pᵀ``, from a sample: it only sets the unit of the step size."""
    sample = X[np.linspace(0, len(X) - 1, min(_SAMPLE, len(X))).astype(int)] @ P.T
    return float(np.einsum("nd,nd->n", sample, sample).mean(dtype=np.float64))


def learn_member(folder: Folder, n: int, learner: Any) -> None:
    """Fit member `n` on its projected rows and keep it; runs in a worker, on one thread."""
    if folder.member(n).exists():
        return
    with limited(1):
        with _READING:
            rows = np.load(folder.rows(n), mmap_mode="r")
            labels, held, voters = (np.load(folder.array(a)) for a in ("labels", "held", "voters"))
        checkpoint = Checkpoint(folder.unfinished(n)) if folder.durable else None
        matrix = matrix_of(_fitted(learner, rows, labels, folder.hoods(), checkpoint))
        holdout = HoldOut(held, voters)
        accuracy = holdout.accuracy(rows, labels, matrix) if holdout else 1.0
        history = json.dumps(getattr(learner, "history_", []))
    metadata = {"accuracy": repr(accuracy), "history": history}
    safetensors.write(folder.member(n), {"matrix": matrix}, metadata)
    folder.rows(n).unlink(missing_ok=True)
    discard(folder.unfinished(n))


def _fitted(
    learner: Any,
    rows: Array,
    labels: Any,
    hoods: Neighborhoods | None,
    checkpoint: Checkpoint | None,
) -> Any:
    if has_fit_parameter(learner, "neighbors"):
        durable = checkpoint is not None and has_fit_parameter(learner, "checkpoint")
        with warnings.catch_warnings():  # a member that is interrupted is not kept
            warnings.filterwarnings("ignore", "interrupted in epoch")
            learner.fit(
                rows, labels, neighbors=hoods, **({"checkpoint": checkpoint} if durable else {})
            )
        if getattr(learner, "interrupted_", False):
            raise KeyboardInterrupt  # a member is kept whole or not at all
        return learner
    # Rows that the graph leaves out are held out; a learner without a graph must not see them.
    known = slice(None) if hoods is None else hoods.degrees > 0
    return learner.fit(rows[known], labels[known])


def read_member(folder: Folder, n: int) -> tuple[Array, float, list[Any]]:
    """Matrix, held-out accuracy and history of a finished member."""
    arrays, metadata = safetensors.read(folder.member(n))
    matrix = np.array(arrays["matrix"])
    return matrix, float(metadata["accuracy"]), json.loads(metadata["history"])


def matrix_of(learner: Any) -> Array:
    """M of any metric learner: its ``matrix_``, or LᵀL of its ``components_``."""
    if hasattr(learner, "matrix_"):
        return np.asarray(learner.matrix_, np.float32)
    if hasattr(learner, "components_"):
        L = np.asarray(learner.components_, np.float32)
        return L.T @ L
    raise TypeError(
        f"learner={type(learner).__name__} has neither matrix_ nor components_ after fit; a "
        "learner of the ensemble must yield one of them"
    )
