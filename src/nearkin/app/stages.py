"""Stages of a run: each output is one file of a run folder, made again if its inputs change.

A new output of ``nearkin run`` is a name in `nearkin.app.run_files` and a call of `Stages.get` in
`nearkin.app.pipeline`; a new part of a fit goes to its `folder.part` (`nearkin.io.run_folder`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nearkin.io.fingerprint import FileDigest, Fingerprint, TextDigest
from nearkin.io.run_folder import RunFolder


class Stages:
    """Outputs of a run, in a run folder that is claimed.

    Attributes
    ----------
    kept, made : list of str
        Outputs of an earlier run that were kept, and outputs made now.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp()
    >>> def work(parts):
    ...     with RunFolder(path).claim("example") as folder:
    ...         stages = Stages(folder)
    ...         stages.get("sum.txt", lambda path: path.write_text(str(sum(parts))), parts)
    ...         stages.get("note.txt", lambda path: path.write_text("done"), after=["sum.txt"])
    ...     return stages.made
    >>> work([1, 2]), work([1, 2]), work([1, 3])
    (['sum.txt', 'note.txt'], [], ['sum.txt', 'note.txt'])
    """

    def __init__(
        self, folder: RunFolder, progress: Callable[[str], object] = lambda _: None
    ) -> None:
        self.folder, self.progress = folder, progress
        self.kept: list[str] = []
        self.made: list[str] = []
        self._inputs: dict[str, Any] = {}

    def source(self, name: str, *files: Path | None, settings: Any = None) -> None:
        """Give a name to input files, and to what is read of them, for `after`."""
        paths = [file.resolve() for file in files if file]
        self._inputs[name] = FileDigest(*paths, settings=settings)

    def inputs(self, settings: Any, after: Sequence[str]) -> Fingerprint:
        """The fingerprint of an output with these settings and the inputs `after`."""
        return Fingerprint.of({"settings": settings} | {name: self._inputs[name] for name in after})

    def get(
        self,
        name: str,
        make: Callable[[Path], object],
        settings: Any = None,
        after: Sequence[str] = (),
    ) -> Path:
        """The output `name`, made now unless it exists and its inputs are the same.

        Parameters
        ----------
        make : callable
            Writes the output to the path it is called with.
        settings
            Values that the output depends on.
        after : sequence of str
            Outputs and sources that it is made from.
        """

        def make_output(path: Path) -> None:
            self.progress(name)
            make(path)
            self.made.append(name)

        inputs = self.inputs(settings, after)
        self._inputs[name] = TextDigest(repr(sorted(inputs.items())))
        path = self.folder.file(name, inputs, make_output, stale="replace")
        if name not in self.made:
            self.kept.append(name)
        return path
