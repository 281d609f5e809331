"""The setup of a run: data, sizes, and the run folder in which items keep and share results."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

import nearkin
from nearkin.io.run_folder import Inputs, RunFolder
from nearkin.io.safetensors import Arrays


class DataMissing(Exception):
    """An item's data is not there; the message says where to put it."""


@dataclass(frozen=True)
class Setup:
    """Data, sizes and a claimed run folder, from which an interrupted run resumes."""

    data: Path
    folder: RunFolder
    quick: bool = False
    splits: int = 1
    again: bool = False
    jobs: int = 2
    log: Callable[[str], None] = print

    def value(self, name: str, inputs: Inputs, make: Callable[[], Any]) -> Any:
        """A JSON value; measured unless the folder has it from these inputs."""
        inputs = {"nearkin": nearkin.__version__, **inputs}
        kept = None if self.again else self.folder.read(name, inputs, "replace")
        if kept is not None:
            return kept[1]["value"]
        value = make()
        self.folder.write(name, inputs, {}, {"value": value})
        return json.loads(json.dumps(value))  # the same types as when it is read

    def arrays(
        self, name: str, inputs: Inputs, make: Callable[[], Arrays]
    ) -> dict[str, NDArray[Any]]:
        """Arrays, memory-mapped; computed unless the folder has them from these inputs."""
        kept = self.folder.read(name, inputs, "replace")
        if kept is None:
            self.folder.write(name, inputs, make())
            kept = self.folder.read(name, inputs)
        if kept is None:
            raise OSError(f"{self.folder.path} does not return what was written; check the disk")
        return kept[0]
