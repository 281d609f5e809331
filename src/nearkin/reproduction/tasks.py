"""Tasks from image folders: LLC features, PCA, unit length, neighbours; computed once, cached.

As in the paper: 43,008-dimensional LLC features (2,048 words, 21 cells), the first 3,000
(ILSVRC'10: 1,000) principal directions of the training images, unit length. The codebook is
learned without labels from all images. Half-whitened rows, which the paper does not use, are
derived from these.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nearkin
from nearkin.images.llc import LLC
from nearkin.io.atomic import atomic_write
from nearkin.neighbors import nearest
from nearkin.preprocessing import Preprocess
from nearkin.reproduction import layouts
from nearkin.reproduction.published import SETTINGS, TOY_CLASSES
from nearkin.reproduction.setup import Setup

Array = NDArray[np.float32]

QUICK_CLASSES, QUICK_IMAGES, QUICK_WORDS, QUICK_DIMS = 20, 50, 256, 300
# Above this many images features are projected block by block: 43,008 columns of a million
# images in half precision are 100 GB.
MAX_STORED = 200_000
STREAM_SAMPLE, STREAM_BLOCK = 20_000, 4_096


@dataclass(frozen=True)
class Task:
    """Training rows and test rows with their labels."""

    key: str  # the prefix of its files in the cache
    X: Array
    y: NDArray[np.int64]
    Q: Array
    truth: NDArray[np.int64]
    variances: Array  # of the columns, before the rows were scaled to unit length

    def whitened(self, exponent: float) -> "Task":
        """The rows that a PCA with this whitening would have given.

        Column scaling commutes with scaling rows to unit length up to a factor per row, which
        the second scaling to unit length removes.
        """
        if exponent == 0:
            return self
        floor = np.float32(1e-7) * self.variances.max()  # below: rounding errors
        safe = np.where(self.variances > floor, self.variances, np.inf)
        scale = safe ** np.float32(-exponent / 2)
        X, Q = _unit(self.X * scale), _unit(self.Q * scale)
        return replace(self, key=f"{self.key}-w{exponent:g}", X=X, Q=Q)

    def shortened(self, dims: int) -> "Task":
        """The first `dims` columns, scaled to unit length."""
        if dims >= self.X.shape[1]:
            return self
        X, Q = _unit(self.X[:, :dims]), _unit(self.Q[:, :dims])
        key = f"{self.key}-d{dims}"
        return replace(self, key=key, X=X, Q=Q, variances=self.variances[:dims])

    def lists(self, setup: Setup, k: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The nearest training rows of the training rows and of the test rows."""
        k = min(k, len(self.X) - 1)
        own = setup.array(f"{self.key}-own{k}", lambda: nearest(self.X, k)[1])
        near = setup.array(f"{self.key}-near{k}", lambda: nearest(self.X, k, queries=self.Q)[1])
        return own, near


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def image_set(setup: Setup, name: str) -> layouts.ImageSet:
    """The set, or for a quick run a small part of it."""
    setup.cache.parent.mkdir(parents=True, exist_ok=True)
    found = layouts.find(name, setup.data, setup.cache.parent)
    if not setup.quick:
        return found
    return layouts.first_classes(found, TOY_CLASSES, QUICK_CLASSES, QUICK_IMAGES)


def features(setup: Setup, images: layouts.ImageSet) -> NDArray[np.float16]:
    """LLC features in half precision, one row per image; an interrupted extraction resumes."""
    out = setup.cache / f"{stem(images)}-llc.npy"
    done = out.with_suffix(".done")
    if not done.exists():
        setup.log(f"LLC features of {len(images.folder):,} images ({images.name}) ...")
        encoder = _encoder(setup).fit(images.folder)
        encoder.transform(
            images.folder, out=out, dtype="float16", n_jobs=setup.jobs, on_error="skip"
        )
        done.touch()
    return np.load(out, mmap_mode="r")


def _encoder(setup: Setup) -> LLC:
    return LLC(QUICK_WORDS if setup.quick else 2_048, random_state=0)


def stem(images: layouts.ImageSet) -> str:
    """A file name prefix that changes when the images do."""
    listed = "\n".join(
        f"{label}/{Path(p).name}" for label, p in zip(images.folder.labels, images.folder.paths)
    )
    name = "".join(c for c in images.name.lower() if c.isalnum())
    return f"{name}-{blake2b(listed.encode(), digest_size=3).hexdigest()}"


def task(setup: Setup, name: str, seed: int = 0) -> Task:
    """Split `seed` of an image set as rows in the paper's input space."""
    images = image_set(setup, name)
    mask, labels = images.training(seed), images.labels
    dims = min(QUICK_DIMS if setup.quick else SETTINGS[name].dims, int(mask.sum()) - 1)
    key = f"{stem(images)}-split{seed}"
    make = _streamed if len(mask) > MAX_STORED else _projected
    rows, variances = make(setup, images, mask, dims, key)
    return Task(key, rows[mask], labels[mask], rows[~mask], labels[~mask], variances)


def _fitted(setup: Setup, key: str, dims: int, rows: Any) -> Preprocess:
    path = setup.cache / f"{key}-pca.safetensors"
    if not path.exists():
        setup.log(f"PCA to {dims:,} dimensions ({key}) ...")
        nearkin.save(Preprocess(dims, whitening=0, random_state=0).fit(rows()), path)
    found: Preprocess = nearkin.load(path)
    return found


def _projected(
    setup: Setup, images: layouts.ImageSet, mask: Any, dims: int, key: str
) -> tuple[Array, Array]:
    """PCA of the training rows, all rows projected."""
    variances = setup.cache / f"{key}-variances.npy"
    rows = setup.cache / f"{key}-rows.npy"
    if not (variances.exists() and rows.exists()):
        made = features(setup, images)
        fitted = _fitted(setup, key, dims, lambda: made[mask])
        fitted.transform(made, out=rows)
        _save(variances, fitted.variances_)
        (setup.cache / f"{key}-pca.safetensors").unlink()  # half a gigabyte, no longer needed
    return np.load(rows), np.load(variances)


def _streamed(
    setup: Setup, images: layouts.ImageSet, mask: Any, dims: int, key: str
) -> tuple[Array, Array]:
    """The same, block by block, for sets whose features do not fit on a disk.

    The principal directions come from a sample of the training images, as the paper suggests.
    """
    rows, variances = setup.cache / f"{key}-rows.npy", setup.cache / f"{key}-variances.npy"
    if not rows.exists():
        folder, rng = images.folder, np.random.default_rng(0)
        learning = np.flatnonzero(mask)
        sample = np.sort(rng.permutation(learning)[:STREAM_SAMPLE])
        encoder = _encoder(setup).fit(folder[learning])
        options: dict[str, Any] = {"n_jobs": setup.jobs, "on_error": "skip", "dtype": "float16"}
        file = setup.cache / f"{key}-sample.npy"
        fitted = _fitted(
            setup, key, dims, lambda: encoder.transform(folder[sample], out=file, **options)
        )
        blocks = range(0, len(folder), STREAM_BLOCK)
        parts = [setup.cache / f"{key}-rows-{lo}.npy" for lo in blocks]
        for lo, part in zip(blocks, parts):
            if not part.exists():
                setup.log(f"images {lo:,} to {min(lo + STREAM_BLOCK, len(folder)):,} ...")
                made = encoder.transform(folder[lo : lo + STREAM_BLOCK], **options)
                _save(part, fitted.transform(made))
        _save(variances, fitted.variances_)
        _joined(rows, parts, (len(folder), dims))
    return np.load(rows, mmap_mode="r"), np.load(variances)


def _joined(path: Path, parts: list[Path], shape: tuple[int, int]) -> None:
    with atomic_write(path) as aside:
        whole = np.lib.format.open_memmap(aside, "w+", np.float32, shape)
        for number, part in enumerate(parts):
            block = np.load(part)
            whole[number * STREAM_BLOCK :][: len(block)] = block
        whole.flush()
    for part in parts:
        part.unlink()


def _save(path: Path, array: Any) -> None:
    with atomic_write(path) as aside:
        np.save(aside, array)
