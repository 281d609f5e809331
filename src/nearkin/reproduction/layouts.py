"""The official folders of the paper's data sets, and the paper's splits.

============  =======================================================  ==========================
set           where, below ``--data DIR``                              training images
============  =======================================================  ==========================
Caltech-101   ``caltech101.tar``, or the folder ``caltech101`` or      30 random ones a class
              ``101_ObjectCategories``: ``<class>/image_0001.jpg``
Caltech-256   ``256_ObjectCategories``: ``001.ak47/001_0001.jpg`` …    80 random ones a class, but
              ``257.clutter``                                          20 are left for testing
SUN-397       ``SUN397``: ``a/abbey/sun_….jpg``,                       70 % of a class, at random
              ``a/apartment_building/outdoor/…``; the path of the
              folder is the class
ILSVRC'10     ``ILSVRC2010``: ``train/<WNID>/….JPEG``,                 the official split: ``train``
              ``test/….JPEG``, ``val/….JPEG``; from the development    to learn, ``test`` to report
              kit ``data/meta.mat`` and                                (``val`` if it is not there)
              ``data/ILSVRC2010_test_ground_truth.txt`` (or
              ``…_validation_…``)
============  =======================================================  ==========================

The rule for Caltech-256 is in the source of the paper: "80 training (minimum 20 testing)".
"""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.images.folder import SUFFIXES, ImageFolder
from nearkin.io.fingerprint import FileDigest
from nearkin.io.run_folder import RunFolder
from nearkin.reproduction.setup import DataMissing

Mask = NDArray[np.bool_]
Labels = NDArray[np.int64]


def some_of_each(labels: Labels, seed: int, quota: Callable[[int], int]) -> Mask:
    """Mark ``quota(size)`` random rows of each class.

    Examples
    --------
    >>> some_of_each(np.array([0, 0, 0, 1, 1]), 0, lambda size: size - 1).sum()
    np.int64(3)
    """
    rng = np.random.default_rng(seed)
    mask = np.zeros(len(labels), bool)
    for c in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == c))
        mask[rows[: quota(len(rows))]] = True
    return mask


def thirty(size: int) -> int:
    """Caltech-101: 30 to learn from; at least one stays to test."""
    return min(30, size - 1)


def eighty(size: int) -> int:
    """Caltech-256: 80 to learn from, but at least 20 stay to test."""
    return max(1, min(80, size - 20))


def seven_tenths(size: int) -> int:
    """SUN-397: 70 per cent to learn from."""
    return min(size - 1, round(0.7 * size))


@dataclass(frozen=True)
class ImageSet:
    """Images, their classes as numbers, and how the paper divides them."""

    name: str
    folder: ImageFolder
    quota: Callable[[int], int] | None
    fixed: Mask | None = None  # an official split

    @property
    def labels(self) -> Labels:
        """The classes as numbers."""
        return np.unique(self.folder.labels, return_inverse=True)[1]

    def training(self, seed: int) -> Mask:
        """Mark the training images of split `seed`."""
        if self.fixed is not None:
            return self.fixed
        assert self.quota is not None
        return some_of_each(self.labels, seed, self.quota)

    def only(self, rows: NDArray[Any]) -> "ImageSet":
        """A smaller set of these images."""
        fixed = None if self.fixed is None else self.fixed[rows]
        return ImageSet(self.name, self.folder[rows], self.quota, fixed)


@dataclass(frozen=True)
class Layout:
    """The locations of a set and how to read it."""

    places: tuple[str, ...]
    read: Callable[[Path, RunFolder], tuple[ImageFolder, Mask | None]]
    quota: Callable[[int], int] | None


def find(name: str, data: Path, run: RunFolder) -> ImageSet:
    """The set `name` in `data`; raises `DataMissing` if it is not there.

    An archive is unpacked into the run folder, which must be claimed.
    """
    layout = LAYOUTS[name]
    place = next((p for p in map(data.joinpath, layout.places) if p.exists()), None)
    if place is None:
        raise DataMissing(f"not run: put {name} at {data / layout.places[0]} ({_wanted(layout)})")
    folder, fixed = layout.read(place, run)
    return ImageSet(name, folder, layout.quota, fixed)


def _wanted(layout: Layout) -> str:
    others = " or ".join(layout.places[1:])
    return f"or {others}; " * bool(others) + "see nearkin.reproduction.layouts"


def _classes(place: Path, run: RunFolder) -> tuple[ImageFolder, None]:
    """One sub-folder per class, or a tar of them."""
    return ImageFolder(_unpacked(place, run) if place.suffix == ".tar" else place), None


def _unpacked(tar: Path, run: RunFolder) -> Path:
    scratch = run.scratch(tar.stem, {"tar": FileDigest(tar.resolve())})
    images, partial = scratch / tar.stem, scratch / "partial"
    if not images.is_dir():
        with tarfile.open(tar) as archive:
            archive.extractall(partial, filter="data")
        (partial / tar.stem).rename(images)
    return images


def _nested(place: Path, _: RunFolder) -> tuple[ImageFolder, None]:
    """Folders of any depth; the path of an image's folder is its class."""
    images = (p for p in place.rglob("*") if _is_image(p))
    return _listed([(p, p.parent.relative_to(place).as_posix()) for p in images]), None


def _official(place: Path, _: RunFolder) -> tuple[ImageFolder, Mask]:
    """ILSVRC's own training and test images."""
    training = [(p, p.parent.name) for p in sorted((place / "train").glob("*/*")) if _is_image(p)]
    tested = next((n for n in TRUTHS if (place / n).is_dir()), None)
    if tested is None or not training:
        raise DataMissing(f"not run: {place} must hold train/<WNID>/ and test/ or val/")
    folder = _listed(training + list(_test_images(place, tested)))
    below = (place / "train").resolve()
    return folder, np.array([Path(path).is_relative_to(below) for path in folder.paths])


TRUTHS = {
    "test": "ILSVRC2010_test_ground_truth.txt",
    "val": "ILSVRC2010_validation_ground_truth.txt",
}


def _test_images(place: Path, part: str) -> Iterator[tuple[Path, str]]:
    """Line i of the ground truth is the number of the class of image i, in order of name."""
    from scipy.io import loadmat

    synsets = loadmat(_kit(place, "meta.mat"), simplify_cells=True)["synsets"]
    name = {int(s["ILSVRC2010_ID"]): str(s["WNID"]) for s in synsets}
    truth = _kit(place, TRUTHS[part]).read_text().split()
    images = sorted(p for p in (place / part).iterdir() if _is_image(p))
    if len(images) != len(truth):
        raise ValueError(
            f"{place / part} holds {len(images)} images, {TRUTHS[part]} {len(truth)} lines; "
            "unpack all of them"
        )
    return ((p, name[int(number)]) for p, number in zip(images, truth))


def _kit(place: Path, name: str) -> Path:
    folders = [place, place / "data", *place.glob("*devkit*/data")]
    found = next((f / name for f in folders if (f / name).exists()), None)
    if found is None:
        raise DataMissing(f"not run: {name} of the development kit belongs into {place / 'data'}")
    return found


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _listed(rows: list[tuple[Path, str]]) -> ImageFolder:
    if not rows:
        raise DataMissing("not run: the folder holds no images in the official layout")
    return ImageFolder.from_rows((path.resolve(), label) for path, label in rows)


def first_classes(found: ImageSet, names: tuple[str, ...], classes: int, images: int) -> ImageSet:
    """A small set for a quick run: these classes and the first others, some images of each."""
    others = [c for c in found.folder.classes if c not in names]
    wanted = [*(n for n in names if n in found.folder.classes), *others][:classes]
    rows = [np.flatnonzero(found.folder.labels == c)[:images] for c in wanted]
    return found.only(np.sort(np.concatenate(rows)))


LAYOUTS = {
    "Caltech-101": Layout(
        ("caltech101.tar", "caltech101", "101_ObjectCategories"), _classes, thirty
    ),
    "Caltech-256": Layout(("256_ObjectCategories", "caltech256"), _classes, eighty),
    "SUN-397": Layout(("SUN397",), _nested, seven_tenths),
    "ILSVRC'10": Layout(("ILSVRC2010",), _official, None),
}
