"""Run folders: results of long work, kept so that the same work resumes after its process died.

A run folder is claimed with a marker file. What it keeps is either a *part*, a safetensors file
that carries the folder's identity, the inputs it was made from and a checksum, or a *file* in
another format, of which the marker records the same. Everything else in the folder belongs to
somebody else and is neither overwritten nor removed. One process at a time owns the folder; its
workers, on other machines too, write parts.

A new part of a fit is a call of `RunFolder.part` where the fit makes it, as the lists are in
`nearkin.learning.neighborhood_fit`; a new output of ``nearkin run`` is a stage, see
`nearkin.app.stages`.
"""

import json
import math
import os
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from numpy.typing import NDArray

from nearkin.io import safetensors
from nearkin.io.fingerprint import Fingerprint
from nearkin.io.local_storage import LocalStorage
from nearkin.io.ownership import Root
from nearkin.io.safetensors import Arrays
from nearkin.validation import expect
from nearkin.validation.parameters import checked

MINUTES = 5.0

# What to do with something that was made from other inputs.
Stale = Literal["refuse", "replace"]
Inputs = Mapping[str, Any]
Part = tuple[dict[str, NDArray[Any]], dict[str, Any]]  # arrays, notes

_PART = ".safetensors"


def _minutes(value: Any) -> str | None:
    """With infinity, nothing is written before the end."""
    return None if value == math.inf else expect.optional(expect.number(0))(value)


class RunFolder:
    """A folder in which long work keeps its results and resumes from them.

    The same work, started again with the same folder, goes on after the last write and ends with
    the same bits. Results of other data or settings are refused.

    Parameters
    ----------
    path : path
        A new or empty folder, or one that nearkin has claimed before.
    minutes : float, optional
        Five, if left out. Time between two writes while learning: what a kill costs, at most.

    Attributes
    ----------
    durable : bool
        Whether it outlives the process.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from nearkin import SLNE
    >>> X, y = load_iris(return_X_y=True)
    >>> folder = RunFolder(tempfile.mkdtemp(), minutes=1)
    >>> first = SLNE(random_state=0).fit(X, y, folder=folder)
    >>> again = SLNE(random_state=0).fit(X, y, folder=folder)  # finds everything done
    >>> bool((first.matrix_ == again.matrix_).all())
    True
    >>> folder.discard()
    """

    durable = True

    @checked(path=expect.path, minutes=_minutes)
    def __init__(self, path: str | os.PathLike[str], minutes: float | None = None) -> None:
        minutes = MINUTES if minutes is None else minutes
        self.path, self.minutes = Path(path), minutes
        self._prefix, self._last = "", time.monotonic()
        self._root = Root(LocalStorage(Path(os.path.abspath(path))), self.path)

    @classmethod
    def nowhere(cls) -> "RunFolder":
        """A folder that keeps nothing, so that code needs no distinction."""
        return _Nowhere()

    @classmethod
    @contextmanager
    def temporary(cls) -> Iterator["RunFolder"]:
        """A folder that is removed when the block ends."""
        with tempfile.TemporaryDirectory(prefix="nearkin-") as path:
            folder = cls(path, math.inf)
            folder.durable = False
            yield folder

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r}, minutes={self.minutes:g})"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.worker()).copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _last=time.monotonic())

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= 60 * self.minutes

    @contextmanager
    def claim(self, purpose: str) -> Iterator[Self]:
        """Own the folder while the block lasts: make it ours, or refuse one that is not.

        Its sections belong to the same owner. To a worker this does nothing.
        """
        with self._root.owned():
            self._root.note_purpose(self._prefix, purpose)
            yield self

    def worker(self) -> "RunFolder":
        """The same folder for a worker of its owner, which writes parts; so is a pickled one."""
        return self._view(Root(self._root.storage, self._root.path, self._root.claimed()), "")

    def sub(self, name: str) -> "RunFolder":
        """A section of this folder, for one of several pieces of work.

        Its name begins the names of its files: a folder within would have to be owned, too.
        """
        if not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"name={name!r} must consist of letters, digits, '-' and '_'")
        return self._view(self._root, f"{name}.")

    def _view(self, root: Root, name: str) -> "RunFolder":
        view = object.__new__(type(self))
        view.path, view.minutes, view.durable = self.path, self.minutes, self.durable
        view._root, view._prefix, view._last = root, self._prefix + name, time.monotonic()
        return view

    def seed(self, random_state: Any) -> Any:
        """`random_state`, or, where that is None, the seed that was drawn for the folder."""
        return self._root.claimed().seed if random_state is None else random_state

    @property
    def begun(self) -> bool:
        """Whether `begin` has recorded something for this section, in this or an earlier run."""
        return self._prefix in self._root.claimed().inputs

    def begin(self, inputs: Inputs, stale: Stale = "refuse") -> None:
        """Record what all work in this section is made from, or compare with what was recorded."""
        stored = self._root.claimed().inputs.get(self._prefix)
        if stored is not None:
            if self._usable(stored, inputs, stale):
                return
            self._remove_contents()
            self._root.forget(self._prefix)
        self._root.claimed().inputs[self._prefix] = Fingerprint.of(inputs)
        self._root.save()

    def read(
        self, name: str, inputs: Inputs | None, stale: Stale = "refuse", verify: bool = True
    ) -> Part | None:
        """The arrays, memory-mapped, and notes of a part.

        None if there is no such part, or if it is damaged, which is warned of. A worker that reads
        what its owner has just written leaves out the inputs and the verification.
        """
        file = self._part(name)
        if not self._root.storage.exists(file):
            return None
        self._root.check_ours(file)
        try:
            arrays, metadata = safetensors.read(self._root.storage.local(file), verify)
            if metadata["part"] != self._root.identity(file):
                raise ValueError(f"a copy of {metadata['part']}")
            stored, notes = json.loads(metadata["inputs"]), json.loads(metadata["notes"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            warnings.warn(f"{self.path / file} is made again: {error}", stacklevel=2)
            return None
        if inputs is not None and not self._usable(stored, inputs, stale):
            return None
        return arrays, notes

    def write(
        self, name: str, inputs: Inputs, arrays: Arrays, notes: Mapping[str, Any] | None = None
    ) -> None:
        """Keep arrays and notes as a part, in place of an earlier one."""
        file = self._part(name)
        if self._root.storage.exists(file):
            self._root.check_ours(file)
        metadata = {
            "folder": self._root.claimed().id,
            "part": self._root.identity(file),
            "inputs": json.dumps(Fingerprint.of(inputs)),
            "notes": json.dumps(notes or {}),
        }
        with self._root.storage.write(file) as temporary:
            safetensors.write_to(temporary, arrays, metadata)
        self._last = time.monotonic()

    def part(
        self,
        name: str,
        inputs: Inputs,
        make: Callable[[], dict[str, NDArray[Any]]],
        stale: Stale = "refuse",
    ) -> dict[str, NDArray[Any]]:
        """The arrays of a part, made now if they are not there."""
        found = self.read(name, inputs, stale)
        if found is not None:
            return found[0]
        arrays = make()
        self.write(name, inputs, arrays)
        return arrays

    def remove(self, name: str) -> None:
        """Remove a part, if it is there and ours."""
        if self._root.is_ours(self._part(name)):
            self._root.storage.remove(self._part(name))

    def file(
        self, name: str, inputs: Inputs, make: Callable[[Path], object], stale: Stale = "refuse"
    ) -> Path:
        """The path of a file in any format; `make` writes it, if it is not there, to a path."""
        root, file = self._root, self._prefix + name
        found = root.current_version(file)
        if found is None or not self._usable(found["inputs"], inputs, stale):
            with root.storage.write(file) as temporary:
                make(temporary)
                root.announce(file, temporary, Fingerprint.of(inputs))
            root.confirm(file)
            self._last = time.monotonic()
        return root.storage.local(file)

    def scratch(self, name: str, inputs: Inputs) -> Path:
        """A hidden folder in which a writer with a format of its own resumes from these inputs."""
        return self._root.scratch(self._prefix + name, Fingerprint.of(inputs))

    def remove_scratch(self, name: str) -> None:
        """Remove the scratch folder of a name."""
        self._root.clear_scratch(f"{self._prefix}{name}-")

    def remove_file(self, name: str) -> None:
        """Remove what `file` has made, if it is there and unchanged."""
        file = self._prefix + name
        self._root.remove_files([file] if file in self._root.claimed().files else [])

    def local(self, name: str) -> Path:
        """Where a file that `file` has made can be read."""
        return self._root.storage.local(self._prefix + name)

    def is_intact(self, name: str) -> bool:
        """Whether a file is there as `file` has made it, from whatever inputs."""
        return self._root.is_as_written(self._prefix + name)

    def discard(self) -> None:
        """Remove everything of ours, and the folder, unless files of others are in it."""
        with self._root.owned(create=False) as exists:
            if not exists:
                return
            self._remove_contents()
            # Of a whole folder, what it was made from is known until the very end: killed before,
            # the same work resumes.
            if self._prefix:
                self._root.forget(self._prefix)
            else:
                self._root.give_up()

    def _part(self, name: str) -> str:
        return f"{self._prefix}{name}{_PART}"

    def _remove_contents(self) -> None:
        for file in self._root.storage.names():
            if file.startswith(self._prefix) and file.endswith(_PART) and self._root.is_ours(file):
                self._root.storage.remove(file)
        self._root.remove_section(self._prefix)

    def _usable(self, stored: Mapping[str, str], inputs: Inputs, stale: Stale) -> bool:
        """Whether something was made from these inputs; if not, it is refused or replaced."""
        differing = Fingerprint(stored).differences(inputs)
        if differing and stale == "refuse":
            raise ValueError(
                f"folder={str(self.path)!r} was made from other data or settings: {differing}. "
                "Nothing in it was changed: use what it was made from to resume, or give another "
                "folder"
            )
        return not differing


class _Nowhere(RunFolder):
    """Finds nothing and keeps nothing."""

    durable = False

    def __init__(self) -> None:
        super().__init__(os.devnull, math.inf)

    @contextmanager
    def claim(self, purpose: str) -> Iterator[Self]:
        yield self

    def worker(self) -> RunFolder:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy() | {"_root": None}

    def sub(self, name: str) -> RunFolder:
        return self

    def seed(self, random_state: Any) -> Any:
        return random_state

    @property
    def begun(self) -> bool:
        return False

    def begin(self, inputs: Inputs, stale: Stale = "refuse") -> None:
        pass

    def read(self, *_: Any, **__: Any) -> Part | None:
        return None

    def write(self, *_: Any, **__: Any) -> None:
        pass

    def remove(self, name: str) -> None:
        pass

    def discard(self) -> None:
        pass


def as_run_folder(folder: Any) -> RunFolder:
    """A `RunFolder` from the argument ``folder=``: one, a path, or None."""
    if folder is None:
        return RunFolder.nowhere()
    if isinstance(folder, RunFolder):
        return folder
    if isinstance(folder, str | os.PathLike) and str(folder):
        return RunFolder(folder)
    raise ValueError(f"folder={folder!r} must be the path of a folder, a nearkin.RunFolder or None")
