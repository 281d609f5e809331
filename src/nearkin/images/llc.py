"""The LLC estimator: images to the paper's feature vectors."""

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from nearkin.images.codebook import Codebook, check_coding, check_words
from nearkin.images.extraction import Failed, ImageEncoder, UnreadableImages, name_of
from nearkin.images.folder import ImageFolder, sources_of
from nearkin.images.llc_coding import codes, max_pool, nearest_words, pyramid_cells
from nearkin.images.reading import ImageError, Source, read_grey
from nearkin.images.sift import LENGTH, DenseSIFT, Patches, patch_sizes
from nearkin.images.store import Failures
from nearkin.io.fingerprint import Digest
from nearkin.io.progress_bar import track
from nearkin.validation import expect
from nearkin.validation.parameters import Table

Floats = NDArray[np.float32]

# What the codebook is learned from: enough for 2,048 words, and half a minute.
SAMPLE_IMAGES = 2_000
SAMPLE_DESCRIPTORS = 200_000
# Images that a worker takes at a time: at most these are lost when it is killed.
CHUNK = 16


class LLC(ImageEncoder):
    """Locality-constrained linear coding of dense SIFT, max-pooled over a spatial pyramid.

    The defaults are the paper's setting: 2,048 words, 1×1, 2×2 and 4×4 cells, 43,008 dimensions,
    unit length. The paper does not say where SIFT is sampled; with patches of 16 to 32 pixels, 8
    apart, extraction takes half the time, and Caltech-101 is a point less accurate. Blank patches
    are left out; an image of blank patches only gets the zero vector.

    Parameters
    ----------
    n_words : int
        Size of the codebook.
    n_neighbors : int
        Number of nearest words that encode a descriptor.
    pyramid : sequence of int
        Sides of the grids that the codes are pooled over: (1, 2, 4) is 21 cells.
    patch_sizes : sequence of int
        Sides of the SIFT patches in pixels, multiples of 4.
    step : int
        Pixels from one patch to the next.
    beta : float
        Regularisation of the codes.
    max_side : int
        Longer images are shrunk to this many pixels.
    random_state : int or None
        Seed for the codebook and the sample of images it is learned from.

    Attributes
    ----------
    words_ : array of shape (n_words, 128)
        The codebook.
    failed_ : list of (path, reason)
        Images that could not be used, after `fit` or `transform`.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from PIL import Image
    >>> def png(seed):
    ...     file = io.BytesIO()
    ...     noise = np.random.default_rng(seed).integers(0, 256, (64, 64), dtype=np.uint8)
    ...     Image.fromarray(noise).save(file, "PNG")
    ...     return file.getvalue()
    >>> images = [png(seed) for seed in range(4)]  # or ImageFolder("pictures/"), or paths
    >>> F = LLC(n_words=32, pyramid=(1, 2)).fit_transform(images)
    >>> F.shape, np.linalg.norm(F, axis=1).round(3).tolist()
    ((4, 160), [1.0, 1.0, 1.0, 1.0])
    """

    PARAMETERS: ClassVar[Table] = {
        **Codebook.PARAMETERS,
        "pyramid": expect.each(expect.whole(1, 1_000), "sides of grids such as (1, 2, 4)"),
        "patch_sizes": patch_sizes,
        "step": expect.whole(1),
        "max_side": expect.whole(1),
    }

    def __init__(
        self,
        n_words: int = 2048,
        n_neighbors: int = 5,
        pyramid: tuple[int, ...] = (1, 2, 4),
        patch_sizes: tuple[int, ...] = (16, 24, 32, 48),
        step: int = 6,
        beta: float = 1e-4,
        max_side: int = 300,
        random_state: int | None = 0,
    ) -> None:
        self.n_words = n_words
        self.n_neighbors = n_neighbors
        self.pyramid = pyramid
        self.patch_sizes = patch_sizes
        self.step = step
        self.beta = beta
        self.max_side = max_side
        self.random_state = random_state

    def fit(self, images: ImageFolder | Sequence[Source], y: Any = None) -> Self:
        """Learn the codebook from a sample of descriptors; labels are not used."""
        check_coding(self)
        self._check_sides()
        sources = sources_of(images)
        descriptors, self.failed_ = self._sample(sources)
        if self.failed_:
            warnings.warn(str(UnreadableImages(self.failed_, len(sources))), stacklevel=2)
        codebook = Codebook(self.n_words, self.n_neighbors, self.beta, self.random_state)
        self.words_ = codebook.fit(descriptors).words_
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "words_")

    def _check_fitted(self) -> None:
        """Refuse words, perhaps of a file, that do not fit the other parameters."""
        if hasattr(self, "words_"):
            check_words(self, LENGTH)
            self._check_sides()

    def _check_sides(self) -> None:
        if self.max_side < min(self.patch_sizes):
            raise ValueError(
                f"max_side={self.max_side} must be at least {min(self.patch_sizes)}, the smallest "
                "of patch_sizes"
            )

    def chunk_shape(self) -> tuple[int, int]:
        """Images that a worker takes at a time, and the length of a feature vector."""
        self._check_fitted()
        return CHUNK, self.n_features_out_

    @property
    def n_features_out_(self) -> int:
        """Length of a feature vector."""
        return len(self.words_) * sum(int(grid) ** 2 for grid in self.pyramid)

    def encode(self, images: Sequence[Source]) -> tuple[Floats, Failures]:
        """Features of a few images in this process, and why some have none."""
        sources = sources_of(images)
        self._check_fitted()
        rows = np.zeros((len(sources), self.n_features_out_), dtype=np.float32)
        failed = {}
        for i, source in enumerate(sources):
            try:
                self._describe(source, rows[i])
            except ImageError as error:
                failed[i] = str(error)
        return rows, failed

    def _describe(self, source: Source, row: Floats) -> None:
        patches, shape = self._patches(source)
        nearest = nearest_words(patches.descriptors, self.words_, self.n_neighbors)
        weights = codes(patches.descriptors, self.words_, nearest, self.beta)
        cells = pyramid_cells(patches.centres, shape, self.pyramid)
        max_pool(weights, nearest, cells, row.reshape(-1, len(self.words_)))
        length = np.sqrt(np.dot(row, row))
        if length > 0:
            row /= length

    def _patches(self, source: Source) -> tuple[Patches, tuple[int, int]]:
        """The patches of an image that are not blank, and its height and width."""
        grey = read_grey(source, self.max_side)
        found = DenseSIFT(self.step, self.patch_sizes).describe(grey)
        textured = np.einsum("ij,ij->i", found.descriptors, found.descriptors) > 0
        return Patches(found.descriptors[textured], found.centres[textured]), grey.shape

    def _sample(self, sources: list[Source]) -> tuple[Floats, Failed]:
        """Descriptors for the codebook, the same number from each of some random images."""
        random = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        chosen = np.sort(random.permutation(len(sources))[:SAMPLE_IMAGES])
        quota = -(-SAMPLE_DESCRIPTORS // len(chosen))
        parts, failed = [], []
        for i in track(chosen, "descriptors", total=len(chosen)):
            try:
                descriptors = self._patches(sources[i])[0].descriptors
            except ImageError as error:
                failed.append((name_of(sources[i]), str(error)))
            else:
                parts.append(random.permutation(descriptors)[:quota])
        if not parts:
            raise UnreadableImages(failed, len(chosen))
        return np.concatenate(parts), failed

    def inputs(self) -> dict[str, Any]:
        """What the features depend on beside the images."""
        params = {key: value for key, value in self.get_params().items() if key != "random_state"}
        return {"encoder": "LLC", **params, "words": Digest(np.float32(self.words_))}
