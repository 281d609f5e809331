"""Dense SIFT: gradient histograms of square patches on a regular grid, at several sizes."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from nearkin.images.reading import ImageError
from nearkin.native.jit import compiled
from nearkin.validation import expect
from nearkin.validation.arrays import LARGEST
from nearkin.validation.parameters import Table, check_parameters, shown

Floats = NDArray[np.float32]

ORIENTATIONS = 8
BINS = 4  # a patch is 4×4 spatial bins
LENGTH = BINS * BINS * ORIENTATIONS
# The window's standard deviation, in bins, as in Lowe's SIFT: half the patch.
WINDOW = 2.0
CLIP = 0.2
# Mean gradient (of images in [0, 1]) per pixel of the window below which a patch is blank.
BLANK = 0.005
# arctan(r)·4/π = r · (A0 + A1 r² + … + A5 r¹⁰) on [0, 1], a minimax fit.
ARCTAN = tuple(
    np.float32(a)
    for a in (1.2732105, -0.42350846, 0.24642281, -0.14823775, 0.06703163, -0.01492088)
)


class Patches(NamedTuple):
    """Descriptors (n×128, unit length or all zero) and the centres (n×2, y and x in pixels)."""

    descriptors: Floats
    centres: Floats


def _side(value: Any) -> str | None:
    fits = expect.whole(2 * BINS)(value) is None and value % BINS == 0
    return None if fits else "a multiple of 4"


patch_sizes = expect.each(_side, "multiples of 4, of at least 8 pixels, such as (16, 24, 32)")


class DenseSIFT(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """SIFT descriptors of patches on a regular grid.

    A descriptor is 4×4 spatial bins of 8 gradient orientations. Pixels vote for the two nearest
    orientations and the nearest bins linearly, weighted with a Gaussian window; the vector is
    normalised to unit length, clipped at 0.2 and normalised again. Patches with almost no gradient
    get the zero vector.

    Parameters
    ----------
    step : int
        Pixels from one patch to the next, in both directions.
    patch_sizes : sequence of int
        Sides of the patches in pixels, multiples of 4. Every patch lies within the image.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.zeros((32, 40))
    >>> image[:, 20:] = 1.0
    >>> patches = DenseSIFT(step=8, patch_sizes=(16,)).describe(image)
    >>> patches.descriptors.shape, patches.centres[0].tolist()
    ((12, 128), [8.0, 8.0])
    """

    PARAMETERS: ClassVar[Table] = {"step": expect.whole(1), "patch_sizes": patch_sizes}

    def __init__(self, step: int = 6, patch_sizes: tuple[int, ...] = (16, 24, 32, 48)) -> None:
        self.step = step
        self.patch_sizes = patch_sizes

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the settings; nothing is learned."""
        check_parameters(self)
        return self

    def transform(self, X: list[ArrayLike]) -> list[Floats]:
        """Descriptors of each grey image: a list of n×128 arrays."""
        if not isinstance(X, list | tuple | np.ndarray):
            raise TypeError(f"X={shown(X)} must be a list of grey images, each height × width")
        return [self.describe(image).descriptors for image in X]

    def describe(self, image: ArrayLike) -> Patches:
        """Describe one grey image, H×W, of bytes or of floats in [0, 1]."""
        check_parameters(self)
        grey = _as_grey(image)
        sizes = [int(size) for size in self.patch_sizes]  # uint8 would overflow in sums
        if min(grey.shape) < min(sizes):
            raise ImageError(
                f"{grey.shape[1]}×{grey.shape[0]} pixels, smaller than the smallest patch "
                f"({min(sizes)} pixels)"
            )
        votes = _orientation_votes(np.ascontiguousarray(grey.T))
        parts = [self._describe_size(votes, size // BINS) for size in sizes]
        return Patches(*(np.concatenate(column) for column in zip(*parts)))

    def _describe_size(self, votes: Floats, bin_size: int) -> tuple[Floats, Floats]:
        width, height = votes.shape[:2]
        lefts, tops = (_grid(side, BINS * bin_size, int(self.step)) for side in (width, height))
        kernels = _bin_kernels(bin_size)
        # The kernel is separable: columns first, then, transposed, rows.
        along = _pool(votes.reshape(width, -1), lefts, bin_size, kernels)
        transposed = along.reshape(-1, height, ORIENTATIONS).swapaxes(0, 1).reshape(height, -1)
        both = _pool(transposed, tops, bin_size, kernels)
        bins = both.reshape(len(tops), BINS, len(lefts), BINS * ORIENTATIONS).swapaxes(1, 2)
        histograms = bins.reshape(-1, LENGTH)
        _normalise(histograms, np.float32(BLANK * (kernels.sum(axis=1) ** 2).sum()))
        half = BINS * bin_size / 2
        centres = np.stack(np.meshgrid(tops + half, lefts + half, indexing="ij"), axis=-1)
        return histograms, centres.reshape(-1, 2).astype(np.float32)


def _as_grey(image: ArrayLike) -> Floats:
    grey = np.asarray(image)
    if grey.ndim != 2 or grey.size == 0:
        raise ValueError(f"image has shape {grey.shape}: expected a grey image, height × width")
    if grey.dtype == np.uint8:
        return grey.astype(np.float32) * np.float32(1 / 255)
    if grey.dtype.kind not in "fb":
        raise ValueError(f"image has type {grey.dtype}: expected bytes, or floats in [0, 1]")
    low, high = float(grey.min()), float(grey.max())
    if not max(-low, high) <= LARGEST:  # of whose gradients float32 does not hold the squares
        raise ValueError(f"image has values from {low:g} to {high:g}: expected floats in [0, 1]")
    return grey.astype(np.float32)


def _grid(length: int, patch: int, step: int) -> NDArray[np.int64]:
    """First pixels of the patches along one side; what is left over is shared by both ends."""
    if length < patch:
        return np.empty(0, dtype=np.int64)
    return np.arange((length - patch) % step // 2, length - patch + 1, step)


def _bin_kernels(bin_size: int) -> Floats:
    """For each of the 4 bins, the weights of the pixels around its centre: triangle × Gaussian."""
    offsets = np.arange(1 - bin_size, bin_size)
    triangle = 1 - np.abs(offsets) / bin_size
    centres = bin_size * (np.arange(BINS) - (BINS - 1) / 2)
    distance = (centres[:, None] + offsets) / (bin_size * WINDOW)
    return (triangle * np.exp(-0.5 * distance**2)).astype(np.float32)


@compiled(fastmath=True)
def _orientation_votes(columns: Floats) -> Floats:  # pragma: no cover
    """W×H×8: each pixel's gradient, split linearly over its two nearest orientations.

    Takes and gives columns first, so that `_pool` runs over long contiguous vectors.
    """
    width, height = columns.shape
    votes = np.zeros((width, height, ORIENTATIONS), dtype=np.float32)
    size = np.empty(height, dtype=np.float32)
    angle = np.empty(height, dtype=np.float32)
    dy = np.empty(height, dtype=np.float32)
    for x in range(width):
        column = columns[x]
        dy[1:-1] = (column[2:] - column[:-2]) * np.float32(0.5)
        dy[0] = column[1] - column[0]
        dy[-1] = column[-1] - column[-2]
        left, right = columns[max(x - 1, 0)], columns[min(x + 1, width - 1)]
        scale = np.float32(0.5) if 0 < x < width - 1 else np.float32(1)
        for y in range(height):
            dx = (right[y] - left[y]) * scale
            size[y] = np.sqrt(dx * dx + dy[y] * dy[y])
            angle[y] = _eighths(dy[y], dx)
        for y in range(height):
            first = int(angle[y])
            share = (angle[y] - np.float32(first)) * size[y]
            votes[x, y, first % ORIENTATIONS] = size[y] - share
            votes[x, y, (first + 1) % ORIENTATIONS] = share
    return votes


@compiled(fastmath=True, inline="always")
def _eighths(dy: np.float32, dx: np.float32) -> np.float32:  # pragma: no cover
    """arctan2 in eighths of a turn, 0 to 8, error 2e-6; the library's does not vectorise."""
    across, up = abs(dx), abs(dy)
    ratio = min(across, up) / max(max(across, up), np.float32(1e-30))
    square = ratio * ratio
    value = ARCTAN[5]
    for term in (4, 3, 2, 1, 0):
        value = value * square + ARCTAN[term]
    value = value * ratio
    value = value if up <= across else np.float32(2) - value
    value = value if dx >= 0 else np.float32(4) - value
    return value if dy >= 0 else np.float32(8) - value


@compiled(fastmath=True)
def _pool(
    votes: Floats, firsts: NDArray[np.int64], bin_size: int, kernels: Floats
) -> Floats:  # pragma: no cover
    """Gather the first axis of `votes` (pixels × anything) into bins: (patches·4) × anything."""
    length, width = votes.shape
    out = np.zeros((len(firsts) * BINS, width), dtype=np.float32)
    for p in range(len(firsts)):
        for b in range(BINS):
            start = firsts[p] + bin_size // 2 + (b - 1) * bin_size + 1
            for t in range(max(0, -start), min(2 * bin_size - 1, length - start)):
                weight = kernels[b, t]
                for j in range(width):
                    out[p * BINS + b, j] += weight * votes[start + t, j]
    return out


@compiled(fastmath=True)
def _normalise(histograms: Floats, blank: np.float32) -> None:  # pragma: no cover
    """Unit length, clip, unit length, in place; histograms shorter than `blank` become zero."""
    for i in range(len(histograms)):
        row = histograms[i]
        length = np.sqrt(np.dot(row, row))
        if length <= blank:
            row[:] = 0
            continue
        total = np.float32(0)
        for j in range(len(row)):
            row[j] = min(row[j] / length, np.float32(CLIP))
            total += row[j] * row[j]
        row *= np.float32(1) / np.sqrt(total)
