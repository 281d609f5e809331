"""Tasks from image folders: LLC features, PCA, unit length, neighbours; kept in the run folder.

As in the paper: 43,008-dimensional LLC features (2,048 words, 21 cells), the first 3,000
(ILSVRC'10: 1,000) principal directions of the training images, unit length. The codebook is
learned without labels from all images. Half-whitened rows, which the paper does not use, are
derived from these. The paper does not say where SIFT is sampled: here much as by the authors of
LLC, and at our own settings (`OWN`) as `LLC` does by itself, square roots taken.

Neighbourhoods come from a Retrieval of its own, as in the paper. The paper's (Shen et al. 2012)
searches images by their local features and has no public code; here it is square roots of the LLC
features, PCA, half whitening, unit length: nearest rows.

The other half of the paper's, its k-NN re-ranking (the first answers are asked in turn; an image
scores 1/rank for the query and 1/((i + 1)·rank) for the i-th answer), is left out. On a held-out
fifth of the training images of three splits it puts more images of the right class into a list of
40 (22.1 % instead of 19.2), but also more of the same wrong class, and sums over the list (Eq. 9)
suffer: Retrieval 59.3 instead of 61.8; SL-NE, one split, five epochs, 63.6 instead of 65.0. So do
diffusion and query expansion. What lifts the sums is the opposite, `Task.without_hubs`: Retrieval
then gets 70.6 and SL-NE, ten epochs, 69.1 instead of 61.8 and 65.0. The lists do all the work, and
similarities of unwhitened rows add little to it: it stands beside the tables, in a note of Table 3.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import nearkin
from nearkin.images.extraction import fingerprint
from nearkin.images.llc import LLC
from nearkin.io.fingerprint import Digest, Fingerprint
from nearkin.io.run_folder import Inputs
from nearkin.io.safetensors import Arrays, Stream
from nearkin.native.listed_scores import pair_scores
from nearkin.neighbors import nearest
from nearkin.neighbors.lists import without_self
from nearkin.preprocessing import Preprocess
from nearkin.reproduction import layouts
from nearkin.reproduction.published import SETTINGS, TOY_CLASSES
from nearkin.reproduction.setup import Setup
from nearkin.voting.csls import CSLS_NEIGHBORS

Array = NDArray[np.float32]

WORDS = 2_048
QUICK_CLASSES, QUICK_IMAGES, QUICK_WORDS, QUICK_DIMS = 20, 50, 256, 300
# Above this many images features are projected block by block: 43,008 columns of a million
# images in half precision are 100 GB.
MAX_STORED = 200_000
STREAM_SAMPLE, STREAM_BLOCK = 20_000, 4_096
RETRIEVAL: dict[str, Any] = {"power": 0.5, "whitening": 0.5}


class Recipe(NamedTuple):
    """How images become rows: settings of LLC, and the power of the entries."""

    suffix: str  # of names in the run folder
    llc: dict[str, Any]
    power: float


PAPERS = Recipe("", {"step": 8, "patch_sizes": (16, 24, 32)}, 1.0)
OWN = Recipe("-own", {name: LLC().get_params()[name] for name in PAPERS.llc}, 0.5)


@dataclass(frozen=True)
class Task:
    """Training rows and test rows with their labels."""

    key: str  # the prefix of its parts in the run folder
    X: Array
    y: NDArray[np.int64]
    Q: Array
    truth: NDArray[np.int64]
    variances: Array  # of the columns, before the rows were scaled to unit length
    retrieval: tuple[Array, Array] | None = None  # X and Q as Retrieval knows them
    asking: Array | None = None  # X as it asks Retrieval, if not as it is stored there

    @cached_property
    def digest(self) -> Digest:
        """The task as an input of what is made from it."""
        return Digest(self.X, self.y, self.Q, self.truth, *(self.retrieval or ()))

    @property
    def searched(self) -> tuple[Array, Array]:
        """Training rows and test rows among which neighbours are found."""
        return self.retrieval or (self.X, self.Q)

    @property
    def retrieved(self) -> "Task":
        """The same task in the space of its Retrieval."""
        if self.retrieval is None:
            return self
        X, Q = self.retrieval
        same = np.ones(X.shape[1], np.float32)  # whitened already
        return Task(f"{self.key}-retrieval", X, self.y, Q, self.truth, same)

    def whitened(self, exponent: float) -> "Task":
        """The rows that a PCA with this whitening would have given, and neighbours among them.

        Column scaling commutes with scaling rows to unit length up to a factor per row, which
        the second scaling to unit length removes.
        """
        if exponent == 0:
            return self
        floor = np.float32(1e-7) * self.variances.max()  # below: rounding errors
        safe = np.where(self.variances > floor, self.variances, np.inf)
        scale = safe ** np.float32(-exponent / 2)
        X, Q = _unit(self.X * scale), _unit(self.Q * scale)
        return replace(self, key=f"{self.key}-w{exponent:g}", X=X, Q=Q, retrieval=None, asking=None)

    def without_hubs(self) -> "Task":
        """The same task; Retrieval whitens to 3/4 and holds back rows that are near to everything.

        CSLS: half of its mean similarity to its nearest rows is taken off a row's scores. One
        column does that, and another one, 0 in queries, makes rows equally long again, so that
        the nearest row is that of the highest score.
        """
        X, _ = self.searched
        plain = replace(self.retrieved, variances=np.square(X).mean(axis=0))
        made = plain.whitened(0.5)
        near = nearest(made.X, min(CSLS_NEIGHBORS, len(X) - 1))[1]
        lost = pair_scores(made.X, made.X, near).mean(axis=1) / 2
        even = np.sqrt(np.square(lost).max() - np.square(lost))
        stored = np.column_stack([made.X, -lost, even])
        asking, asked = (
            np.pad(np.pad(rows, ((0, 0), (0, 1)), constant_values=1), ((0, 0), (0, 1)))
            for rows in (made.X, made.Q)
        )
        key = f"{self.key}-even"
        return replace(self, key=key, retrieval=(stored, asked), asking=asking)

    def shortened(self, dims: int) -> "Task":
        """The first `dims` columns, scaled to unit length."""
        if dims >= self.X.shape[1]:
            return self
        X, Q = _unit(self.X[:, :dims]), _unit(self.Q[:, :dims])
        key = f"{self.key}-d{dims}"
        return replace(self, key=key, X=X, Q=Q, variances=self.variances[:dims])

    def lists(self, setup: Setup, k: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The training rows that Retrieval finds for the training rows and for the test rows."""
        k = min(k, len(self.X) - 1)
        X, Q = self.searched
        found = setup.arrays(
            f"{self.key}-neighbors{k}",
            {"rows": self.digest},
            lambda: {"own": self._own_lists(k), "near": nearest(X, k, queries=Q)[1]},
        )
        return found["own"], found["near"]

    def _own_lists(self, k: int) -> NDArray[np.integer]:
        X, _ = self.searched
        if self.asking is None:
            return nearest(X, k)[1]
        return without_self(nearest(X, k + 1, queries=self.asking)[1], np.arange(len(X)))


def _unit(rows: Array) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def image_set(setup: Setup, name: str) -> layouts.ImageSet:
    """The set, or for a quick run a small part of it."""
    found = layouts.find(name, setup.data, setup.folder)
    if not setup.quick:
        return found
    return layouts.first_classes(found, TOY_CLASSES, QUICK_CLASSES, QUICK_IMAGES)


def stem(images: layouts.ImageSet) -> str:
    """A prefix of names that changes when the images do."""
    name = "".join(c for c in images.name.lower() if c.isalnum())
    return f"{name}-{str(fingerprint(images.folder.paths))[-6:]}"


def features(
    setup: Setup, images: layouts.ImageSet, recipe: Recipe = PAPERS
) -> NDArray[np.float16]:
    """LLC features in half precision, one row per image; an interrupted extraction resumes."""
    setup.log(f"LLC features of {len(images.folder):,} images ({images.name}{recipe.suffix})")
    encoder = _encoder(setup, images, recipe)
    return encoder.transform(
        images.folder,
        folder=setup.folder.sub(f"{stem(images)}-llc{recipe.suffix}"),
        dtype="float16",
        n_jobs=setup.jobs,
        on_error="skip",
    )


def _encoder(setup: Setup, images: layouts.ImageSet, recipe: Recipe) -> LLC:
    """The encoder, with a codebook learned from these images."""
    encoder = LLC(_words(setup), **recipe.llc, random_state=0)
    inputs = {
        "images": fingerprint(images.folder.paths), "encoder": encoder, "llc": recipe.llc
    }  # fmt: skip
    name = f"{stem(images)}-encoder{recipe.suffix}"
    return _fitted(setup, name, inputs, encoder, lambda: images.folder)


def _words(setup: Setup) -> int:
    return QUICK_WORDS if setup.quick else WORDS


def _fitted(setup: Setup, name: str, inputs: Inputs, model: Any, data: Callable[[], Any]) -> Any:
    """A model, fitted unless the folder has it."""
    return nearkin.load(
        setup.folder.file(
            f"{name}.safetensors",
            inputs,
            lambda path: nearkin.save(model.fit(data()), path),
            "replace",
        )
    )


def task(setup: Setup, name: str, seed: int = 0, recipe: Recipe = PAPERS) -> Task:
    """Split `seed` of an image set as rows in the paper's input space, or our own."""
    images = image_set(setup, name)
    mask, labels = images.training(seed), images.labels
    dims = min(QUICK_DIMS if setup.quick else SETTINGS[name].dims, int(mask.sum()) - 1)
    key = f"{stem(images)}-split{seed}{recipe.suffix}"
    inputs = Fingerprint.of({
        "images": fingerprint(images.folder.paths), "words": _words(setup), "llc": recipe.llc,
        "training": Digest(mask), "dims": dims, "power": recipe.power, "retrieval": RETRIEVAL,
    })  # fmt: skip
    streamed = _Streamed(key, inputs, recipe) if len(mask) > MAX_STORED else None
    make = streamed or partial(_projected, recipe)
    found = setup.arrays(key, inputs, lambda: make(setup, images, mask, dims))
    if streamed:
        streamed.clear(setup, len(mask))
    rows, searched = found["rows"], found["retrieval"]
    return Task(
        key, rows[mask], labels[mask], rows[~mask], labels[~mask], found["variances"],
        (searched[mask], searched[~mask]),
    )  # fmt: skip


def _spaces(dims: int, power: float = 1.0) -> dict[str, Preprocess]:
    """The space that is learned in, and that of Retrieval."""
    return {
        "rows": Preprocess(dims, power=power, whitening=0, random_state=0),
        "retrieval": Preprocess(dims, **RETRIEVAL, random_state=0),
    }


def _projected(
    recipe: Recipe, setup: Setup, images: layouts.ImageSet, mask: Any, dims: int
) -> Arrays:
    """PCA of the training rows, all rows projected."""
    made = features(setup, images, recipe)
    setup.log(f"PCA to {dims:,} dimensions ({images.name}) ...")
    training = made[mask]
    spaces = _spaces(dims, recipe.power)
    fitted = {"rows": spaces["rows"].fit(training)}
    if recipe.power == RETRIEVAL["power"]:  # the same directions
        fitted["retrieval"] = copy(fitted["rows"]).set_params(**RETRIEVAL)
    else:
        fitted["retrieval"] = spaces["retrieval"].fit(training)
    found = {name: space.transform(made) for name, space in fitted.items()}
    return found | {"variances": fitted["rows"].variances_}


@dataclass(frozen=True)
class _Streamed:
    """The same, block by block, for sets whose features do not fit on a disk.

    The principal directions come from a sample of the training images, as the paper suggests.
    """

    key: str
    inputs: Fingerprint
    recipe: Recipe

    def __call__(self, setup: Setup, images: layouts.ImageSet, mask: Any, dims: int) -> Arrays:
        folder, learning = images.folder, np.flatnonzero(mask)
        sample = np.sort(np.random.default_rng(0).permutation(learning)[:STREAM_SAMPLE])
        encoder = _encoder(setup, images.only(learning), self.recipe)
        options: dict[str, Any] = {"n_jobs": setup.jobs, "on_error": "skip", "dtype": "float16"}
        kept = setup.folder.sub(f"{self.key}-sample")
        fitted = {
            name: _fitted(
                setup, f"{self.key}-pca-{name}", self.inputs, space,
                lambda: encoder.transform(folder[sample], folder=kept, **options),
            )
            for name, space in _spaces(dims, self.recipe.power).items()
        }  # fmt: skip

        def block(lo: int) -> Arrays:
            setup.log(f"images {lo:,} to {min(lo + STREAM_BLOCK, len(folder)):,} ...")
            made = encoder.transform(folder[lo : lo + STREAM_BLOCK], **options)
            return {name: space.transform(made) for name, space in fitted.items()}

        parts = [
            setup.arrays(name, self.inputs, partial(block, lo))
            for lo, name in self._blocks(len(folder))
        ]
        shape = len(folder), dims

        def joined(name: str) -> Stream:
            return Stream(shape, np.dtype(np.float32), lambda: (part[name] for part in parts))

        return {name: joined(name) for name in fitted} | {"variances": fitted["rows"].variances_}

    def _blocks(self, images: int) -> list[tuple[int, str]]:
        return [(lo, f"{self.key}-block-{lo}") for lo in range(0, images, STREAM_BLOCK)]

    def clear(self, setup: Setup, images: int) -> None:
        """Remove what the rows were made from."""
        for _, name in self._blocks(images):
            setup.folder.remove(name)
        for name in _spaces(1):
            setup.folder.remove_file(f"{self.key}-pca-{name}.safetensors")
        setup.folder.sub(f"{self.key}-sample").discard()
