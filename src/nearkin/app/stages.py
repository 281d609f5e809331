"""Stages of a run: each output is one file of a run folder, made again when its inputs change."""

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
        Outputs that were there, and outputs made now.

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

    def __init__(self, folder: RunFolder, say: Callable[[str], object] = lambda _: None) -> None:
        self.folder, self.say = folder, say
        self.kept: list[str] = []
        self.made: list[str] = []
        self._inputs: dict[str, Any] = {}

    def source(self, name: str, *files: Path | None) -> None:
        """Give a name to files from elsewhere, whose contents stages are made from."""
        self._inputs[name] = FileDigest(*(file.resolve() for file in files if file))

    def inputs(self, settings: Any, after: Sequence[str]) -> Fingerprint:
        """The fingerprint of an output with these settings, made from these outputs or sources."""
        return Fingerprint.of({"settings": settings} | {name: self._inputs[name] for name in after})

    def get(
        self,
        name: str,
        make: Callable[[Path], object],
        settings: Any = None,
        after: Sequence[str] = (),
    ) -> Path:
        """The output `name`, made now unless it is there and made from the same.

        Parameters
        ----------
        make : callable
            Writes the output to the path that it is given.
        settings
            What the output depends on, beside the outputs and sources named in `after`.
        """

        def making(path: Path) -> None:
            self.say(name)
            make(path)
            self.made.append(name)

        inputs = self.inputs(settings, after)
        self._inputs[name] = TextDigest(repr(sorted(inputs.items())))
        path = self.folder.file(name, inputs, making, stale="replace")
        if name not in self.made:
            self.kept.append(name)
        return path
