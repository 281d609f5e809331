"""Folders and lists of labelled images, in a fixed order."""

import csv
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nearkin.images.reading import Source
from nearkin.io.files import check_file
from nearkin.validation import expect
from nearkin.validation.parameters import checked, require

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")


class ImageFolder:
    """Labelled images: one sub-folder per class, nested to any depth.

    Hidden files and files without the suffix of an image are ignored. Symbolic links are
    followed, but no folder is read twice within a class. Sub-folders without images are not
    classes; a warning lists them, and counts images that lie outside any sub-folder.

    Parameters
    ----------
    root : path
        Folder with a sub-folder for each class.

    Attributes
    ----------
    paths : list of str
        One file per row, sorted by class, then by path.
    labels : array of str
        The class of each row.
    classes : array of str
        The distinct labels, sorted.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for name in ("dog/b.png", "cat/a.png", "cat/more/c.png"):
    ...     (root / name).parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("L", (40, 30)).save(root / name)
    >>> folder = ImageFolder(root)
    >>> len(folder), folder.labels.tolist(), folder.classes.tolist()
    (3, ['cat', 'cat', 'dog'], ['cat', 'dog'])
    >>> [Path(path).name for path in folder[folder.labels == "cat"].paths]
    ['a.png', 'c.png']
    """

    paths: list[str]
    labels: NDArray[np.str_]

    def __init__(self, root: str | os.PathLike[str]) -> None:
        require("root", root, expect.path)
        base = Path(root)
        if not base.is_dir():
            found = "it is a file" if base.exists() else "there is nothing there"
            raise NotADirectoryError(
                f"root={str(root)!r}: expected a folder with one sub-folder per class, but {found}"
            )
        found_classes = {
            entry.name: sorted(_images_below(Path(entry.path), base), key=lambda path: path.parts)
            for entry in _entries(base)
            if _is_dir(entry)
        }
        rows = [(path, name) for name in sorted(found_classes) for path in found_classes[name]]
        loose = sum(_is_image(entry) for entry in _entries(base))
        if not rows:
            raise ValueError(
                f"root={str(root)!r}: no images in its {len(found_classes)} sub-folders "
                f"({loose} directly in it); expected a sub-folder for each class, with images "
                f"({' '.join(SUFFIXES)}). For other layouts list the files in a CSV of path,label: "
                "ImageFolder.from_csv, or 'nearkin features list.csv'"
            )
        _warn_of_ignored([name for name, paths in found_classes.items() if not paths], loose)
        self._set(rows)

    @classmethod
    @checked(path=expect.path)
    def from_csv(cls, path: str | os.PathLike[str]) -> Self:
        """Read a list of ``path,label`` (UTF-8, one image per line; sorted by path).

        The first line may be a header that names these two columns among others. Relative paths
        are relative to the list.
        """
        file = Path(path)
        check_file(file, "a CSV file of path,label")
        try:
            with open(file, encoding="utf-8-sig", newline="") as lines:
                rows = list(_csv_rows(csv.reader(lines), file))
        except UnicodeDecodeError as reason:
            raise ValueError(f"path={str(path)!r} must be a CSV file in UTF-8 ({reason})") from None
        if not rows:
            raise ValueError(f"path={str(path)!r}: no rows; expected lines of path,label")
        repeated = [name for name, n in Counter(name for name, _ in rows).items() if n > 1]
        if repeated:
            raise ValueError(
                f"path={str(path)!r}: {len(repeated)} images are listed more than once, "
                f"{str(repeated[0])!r} for one; list each image once"
            )
        return cls.from_rows(rows)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Path, str]]) -> Self:
        """Images from pairs of path and label, sorted by path."""
        folder = cls.__new__(cls)
        folder._set(sorted(rows))
        return folder

    def _set(self, rows: Iterable[tuple[Path, str]]) -> None:
        paths, labels = zip(*rows)
        self.paths = [str(path) for path in paths]
        self.labels = np.array(labels, dtype=np.str_)

    @property
    def classes(self) -> NDArray[np.str_]:
        """The distinct labels, sorted."""
        return np.unique(self.labels)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Any) -> Self:
        """Only these rows: a slice, a list of numbers or a mask."""
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        folder = type(self).__new__(type(self))
        folder.paths = [self.paths[i] for i in chosen]
        folder.labels = self.labels[chosen]
        return folder

    def __repr__(self) -> str:
        return f"<ImageFolder: {len(self):,} images in {len(self.classes):,} classes>"


def unlabelled(path: str | os.PathLike[str]) -> list[str]:
    """The images at `path`, a file or a folder of any layout, sorted by path."""
    place = Path(path)
    if not place.is_dir():
        return [str(place)]
    found = sorted(_images_below(place), key=lambda path: path.parts)
    if not found:
        raise ValueError(
            f"{str(path)!r} holds no images; expected files with one of the suffixes "
            f"{' '.join(SUFFIXES)}"
        )
    return [str(path) for path in found]


def sources_of(images: "ImageFolder | Sequence[Source]") -> list[Source]:
    """The rows of a folder, or of a list of paths or of encoded images."""
    if isinstance(images, ImageFolder):
        return list(images.paths)
    if isinstance(images, str | os.PathLike | bytes):
        raise TypeError(
            f"images={str(images)[:80]!r} is a single path: pass ImageFolder(path) for a folder, "
            "or a list of paths"
        )
    found: Any = images
    sources = list(found) if isinstance(found, Iterable) else [found]
    for source in sources:
        if not isinstance(source, str | os.PathLike | bytes):
            raise TypeError(
                f"images holds {type(source).__name__}: expected an ImageFolder, or a list of "
                "paths or of the bytes of image files"
            )
    if not sources:
        raise ValueError("images is empty: expected at least one image")
    return sources


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if not entry.name.startswith(".")]


def _is_dir(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_image(entry: "os.DirEntry[str]") -> bool:
    """By its suffix. Links that lead nowhere count, so that extraction reports them; pipes do not.

    `os.path`, unlike the entry, takes a link to itself for one that leads nowhere.
    """
    return entry.name.lower().endswith(SUFFIXES) and (
        os.path.isfile(entry.path) or (entry.is_symlink() and not os.path.exists(entry.path))
    )


def _images_below(folder: Path, base: Path | None = None) -> Iterator[Path]:
    pending = [folder]
    # Starting with the root: a link up to it would make every image one of this class.
    seen = set() if base is None else {_identity(base)}
    while pending:
        current = pending.pop()
        if _identity(current) in seen:
            continue
        seen.add(_identity(current))
        for entry in sorted(_entries(current), key=lambda entry: entry.name, reverse=True):
            if _is_dir(entry):
                pending.append(Path(entry.path))
            elif _is_image(entry):
                yield Path(entry.path)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _warn_of_ignored(empty: list[str], loose: int) -> None:
    if empty:
        warnings.warn(
            f"{len(empty)} sub-folders hold no images and are not classes: "
            f"{', '.join(sorted(empty)[:20])}",
            stacklevel=3,
        )
    if loose:
        warnings.warn(
            f"{loose} images lie outside any sub-folder, have no class and are left out",
            stacklevel=3,
        )


def _csv_rows(lines: Iterator[list[str]], file: Path) -> Iterator[tuple[Path, str]]:
    columns = (0, 1)
    for number, cells in enumerate(lines, start=1):
        if number == 1 and {"path", "label"} <= set(cells):
            columns = cells.index("path"), cells.index("label")
            continue
        if not cells:
            continue
        values = [cells[i].strip() if i < len(cells) else "" for i in columns]
        if not all(values):
            raise ValueError(f"path={str(file)!r}, line {number}: expected path,label, got {cells}")
        yield file.parent / values[0], values[1]
