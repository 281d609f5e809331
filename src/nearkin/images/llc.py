"""The LLC estimator: images to the paper's feature vectors."""

import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nearkin.images.codebook import Codebook, check_coding
from nearkin.images.coding import codes, max_pool, nearest_words, pyramid_cells
from nearkin.images.extraction import Failed, UnreadableImages, extract, name_of
from nearkin.images.folder import ImageFolder, sources_of
from nearkin.images.reading import ImageError, Source, read_grey
from nearkin.images.sift import DenseSIFT, Patches
from nearkin.io.fingerprint import Digest
from nearkin.io.progress_bar import track
from nearkin.io.run_folder import RunFolder
from nearkin.validation.parameters import check_number

Floats = NDArray[np.float32]

# What the codebook is learned from: enough for 2,048 words, and half a minute.
SAMPLE_IMAGES = 2_000
SAMPLE_DESCRIPTORS = 200_000
# Images a worker takes at a time: at most this many are lost when it is killed.
CHUNK = 16


class LLC(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Locality-constrained linear coding of dense SIFT, max-pooled over a spatial pyramid.

    The defaults are the paper's setting: 2,048 words, 1×1, 2×2 and 4×4 cells, 43,008 dimensions,
    unit length. Blank patches are left out; an image of nothing else gets the zero vector.

    Parameters
    ----------
    n_words : int
        Size of the codebook.
    n_neighbors : int
        Nearest words that a descriptor is written with.
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

    def __init__(
        self,
        n_words: int = 2048,
        n_neighbors: int = 5,
        pyramid: tuple[int, ...] = (1, 2, 4),
        patch_sizes: tuple[int, ...] = (16, 24, 32),
        step: int = 8,
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
        self._check()
        sources = sources_of(images)
        descriptors, self.failed_ = self._sample(sources)
        if self.failed_:
            warnings.warn(str(UnreadableImages(self.failed_, len(sources))), stacklevel=2)
        codebook = Codebook(self.n_words, self.n_neighbors, self.beta, self.random_state)
        self.words_ = codebook.fit(descriptors).words_
        return self

    def transform(
        self,
        images: ImageFolder | Sequence[Source],
        *,
        out: str | os.PathLike[str] | None = None,
        folder: str | os.PathLike[str] | RunFolder | None = None,
        dtype: str = "float32",
        n_jobs: int | None = None,
        on_error: str = "raise",
    ) -> NDArray[Any]:
        """Features of images, a row each.

        Parameters
        ----------
        images : ImageFolder, or sequence of paths or of the bytes of image files
            What to describe.
        out : path ending in ``.npy``, or None
            File to write to, returned as a memory map; None keeps the features in memory.
        folder : path or nearkin.RunFolder, optional
            Keeps the features instead, for work that is too costly to lose: an interrupted call,
            repeated, resumes, and what is finished is found again.
        dtype : "float32" or "float16"
            Type of the features.
        n_jobs : int or None
            Processes. The features do not depend on it.
        on_error : "raise" or "skip"
            What to do, after everything else is done, about images that cannot be read: raise one
            `UnreadableImages` that lists them, or warn, leave their rows zero and list them in
            `failed_`. A later call with the same `folder` tries them again.

        Returns
        -------
        array of shape (n_images, n_words · cells)
        """
        check_is_fitted(self, "words_")
        sources = sources_of(images)
        features, self.failed_ = extract(
            self,
            sources,
            self._settings(),
            (CHUNK, self.n_features_out_),
            out=out,
            folder=folder,
            dtype=dtype,
            n_jobs=n_jobs,
            on_error=on_error,
        )
        return features

    @property
    def n_features_out_(self) -> int:
        """Length of a feature vector."""
        return len(self.words_) * sum(grid * grid for grid in self.pyramid)

    def encode(self, sources: Sequence[Source]) -> tuple[Floats, dict[int, str]]:
        """Features of a few images in this process, and why some have none."""
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

    def _settings(self) -> dict[str, Any]:
        """What the features depend on."""
        params = {key: value for key, value in self.get_params().items() if key != "random_state"}
        return {"encoder": "LLC", **params, "words": Digest(np.float32(self.words_))}

    def _check(self) -> None:
        check_coding(self.n_words, self.n_neighbors, self.beta)
        pyramid = np.asarray(self.pyramid)
        if pyramid.ndim != 1 or pyramid.dtype.kind not in "iu" or pyramid.min() < 1:
            raise ValueError(f"pyramid={self.pyramid!r}: expected grid sides such as (1, 2, 4)")
        check_number("max_side", self.max_side, 1, whole=True)
