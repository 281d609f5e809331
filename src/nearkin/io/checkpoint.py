"""Checkpoints: what a fit has done so far, so that the same fit goes on after its process died.

Every file appears whole or not at all and says what it was made from. What was made from the same
is used, what was made from something else is refused: nothing is ever mixed, overwritten or lost
without being told.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.io.atomic import discard, is_aside, replacing
from nearkin.io.fingerprint import differences, words
from nearkin.validation.parameters import check_number

FORMAT = 1
MINUTES = 5.0

_NOTE = "checkpoint.json"

Kept: TypeAlias = tuple[dict[str, NDArray[Any]], dict[str, Any]]


class Checkpoint:
    """A folder in which a fit keeps what it has done.

    The same fit, started again with the same folder, goes on from the last write and ends with
    the same matrix to the last bit. Work of a fit with other data or settings is refused. What is
    finished stays until the folder is removed, so a process that dies after learning and before
    saving loses nothing.

    Parameters
    ----------
    folder : path
        A new or empty folder, or one that a fit has kept its work in.
    minutes : float, optional
        Five, if left out. Time between two writes while learning: what a kill costs, at most.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from nearkin import SLNE
    >>> X, y = load_iris(return_X_y=True)
    >>> folder = tempfile.mkdtemp()
    >>> first = SLNE(random_state=0).fit(X, y, checkpoint=Checkpoint(folder, minutes=1))
    >>> again = SLNE(random_state=0).fit(X, y, checkpoint=folder)  # finds everything done
    >>> bool((first.matrix_ == again.matrix_).all())
    True
    """

    def __init__(self, folder: str | os.PathLike[str], minutes: float | None = None) -> None:
        minutes = MINUTES if minutes is None else minutes
        check_number("minutes", minutes, 0)
        self.folder, self.minutes = Path(folder), minutes
        self._last = time.monotonic()

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.folder)!r}, minutes={self.minutes:g})"

    def __bool__(self) -> bool:
        return True

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= 60 * self.minutes

    def part(self, name: str) -> "Checkpoint":
        """A checkpoint within this one, for one of several fits."""
        return Checkpoint(self.folder / name, self.minutes)

    def seed(self, random_state: Any) -> Any:
        """`random_state`, or, where that is None, the seed that the first start drew."""
        note = self._open()
        return note["seed"] if random_state is None else random_state

    def read(self, name: str, made_from: Mapping[str, Any]) -> Kept | None:
        """What was kept under `name`, as arrays and notes; None if nothing was."""
        self._open()
        path = self._path(name)
        if not path.exists():
            return None
        arrays, metadata = safetensors.read(path)
        self.compare(json.loads(metadata["made_from"]), made_from)
        return arrays, json.loads(metadata["notes"])

    def write(
        self,
        name: str,
        made_from: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep arrays and notes under `name`."""
        self._open()
        metadata = {"made_from": json.dumps(words(made_from)), "notes": json.dumps(notes or {})}
        safetensors.write(self._path(name), arrays, metadata)
        self._last = time.monotonic()

    def lists(
        self, made_from: Mapping[str, Any], search: Callable[[], NDArray[np.int32]]
    ) -> NDArray[np.int32]:
        """Neighbour lists that were kept, or else those that `search` finds, which are kept."""
        kept = self.read("neighbors", made_from)
        if kept is not None:
            return kept[0]["indices"]
        found = search()
        self.write("neighbors", made_from, {"indices": found})
        return found

    def compare(self, there: Mapping[str, str], here: Mapping[str, Any]) -> None:
        """Refuse what was made from something else, and say what differs."""
        differing = differences(there, here)
        if not differing:
            return
        raise ValueError(
            f"checkpoint={str(self.folder)!r} belongs to a fit with other data or settings: "
            f"{differing}. Nothing in it was changed: start with what it was made from "
            "to go on, give another folder, or remove this one to start anew"
        )

    def remove(self) -> None:
        """Remove the folder with everything in it, if a fit has kept its work there."""
        if (self.folder / _NOTE).exists():
            discard(self.folder)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _open(self) -> dict[str, Any]:
        """Make the folder ours, or see that it is; everything in it may then be removed."""
        note = self.folder / _NOTE
        if not note.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            others = [p.name for p in self.folder.iterdir() if not is_aside(p)]
            if others:
                raise ValueError(
                    f"checkpoint={str(self.folder)!r} holds files that no fit has kept there "
                    f"({', '.join(sorted(others)[:3])}); give a new or an empty folder"
                )
            with replacing(note) as aside:
                aside.write_text(json.dumps({"format": FORMAT, "seed": secrets.randbits(31)}))
        found = json.loads(note.read_text())
        if found["format"] != FORMAT:
            raise ValueError(
                f"checkpoint={str(self.folder)!r} has format {found['format']}, this version of "
                f"nearkin keeps format {FORMAT}; finish it with the version that began it, or "
                "remove the folder"
            )
        return found


class Nowhere(Checkpoint):
    """No checkpoint: nothing is found and nothing is kept."""

    def __init__(self) -> None:
        super().__init__(os.devnull)

    def __bool__(self) -> bool:
        return False

    @property
    def due(self) -> bool:
        """Never."""
        return False

    def part(self, name: str) -> "Checkpoint":
        """Nowhere, too."""
        return self

    def seed(self, random_state: Any) -> Any:
        """`random_state` as it is."""
        return random_state

    def read(self, name: str, made_from: Mapping[str, Any]) -> Kept | None:
        """Nothing."""
        return None

    def write(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


def as_checkpoint(checkpoint: Any) -> Checkpoint:
    """A `Checkpoint` from what `fit` was given: one, a path, or None."""
    if checkpoint is None:
        return Nowhere()
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    if isinstance(checkpoint, str | os.PathLike):
        return Checkpoint(checkpoint)
    raise ValueError(
        f"checkpoint={checkpoint!r} must be the path of a folder or a nearkin.Checkpoint"
    )
