"""Locality-constrained linear coding and pooling: the compiled part.

A descriptor x is written as a combination of its k nearest words B, with weights that sum to one:
``min ‖x − Σ c_i B_i‖²  subject to  Σ c_i = 1``. With ``Z_i = B_i − x`` and ``C = Z Zᵀ`` the weights
are ``c ∝ C⁻¹ 1``; C is regularised with ``beta · trace(C)`` on its diagonal (Wang et al., 2010).
"""

import numpy as np
from numpy.typing import NDArray

from nearkin.native.jit import compiled

Floats = NDArray[np.float32]
Indices = NDArray[np.int32]

# Rows multiplied with the codebook at a time: with 2,048 words the product is 2 MB and stays in
# the cache until it has been searched.
BLOCK = 256
STRIDE = 32
# Not minus infinity: fastmath assumes that there is none.
LOWEST = np.finfo(np.float32).min


def nearest_words(descriptors: Floats, words: Floats, k: int) -> Indices:
    """n×k: the k nearest words of each descriptor, nearest first."""
    half_norms = np.float32(0.5) * np.einsum("ij,ij->i", words, words)
    found = np.zeros((len(descriptors), k), dtype=np.int32)  # a word, whatever the numbers are
    products = np.empty((min(BLOCK, len(descriptors)), len(words)), dtype=np.float32)
    for start in range(0, len(descriptors), BLOCK):
        block = descriptors[start : start + BLOCK]
        scores = np.matmul(block, words.T, out=products[: len(block)])
        _best(scores, half_norms, found[start : start + BLOCK])
    return found


@compiled(fastmath=True)
def _best(scores: Floats, half_norms: Floats, found: Indices) -> None:  # pragma: no cover
    """The k largest ``x·w − ‖w‖²/2`` per row, i.e. the nearest words; overwrites `scores`."""
    n_words, k = len(half_norms), found.shape[1]
    tops = np.empty((n_words + STRIDE - 1) // STRIDE, dtype=np.float32)
    best = np.empty(k, dtype=np.float32)
    for i in range(len(scores)):
        row = scores[i]
        for j in range(n_words):
            row[j] -= half_norms[j]
        # The k-th largest of the strides' maxima is a floor: most strides hold nothing above it.
        best[:] = LOWEST
        for s in range(len(tops)):
            stride = row[s * STRIDE : (s + 1) * STRIDE]
            top = stride[0]
            for j in range(len(stride)):
                top = max(top, stride[j])
            tops[s] = top
            if top > best[k - 1]:
                _insert(top, s, best, found[i])
        floor = best[k - 1]
        best[:] = LOWEST
        for s in range(len(tops)):
            if tops[s] >= floor:
                for j in range(s * STRIDE, min((s + 1) * STRIDE, n_words)):
                    if row[j] >= floor and row[j] > best[k - 1]:
                        _insert(row[j], j, best, found[i])


@compiled(fastmath=False)
def _insert(
    score: np.float32, index: int, best: Floats, found: Indices
) -> None:  # pragma: no cover
    """Sort a score above the last of `best` into it."""
    place = len(best) - 1
    while place > 0 and score > best[place - 1]:
        best[place] = best[place - 1]
        found[place] = found[place - 1]
        place -= 1
    best[place] = score
    found[place] = index


@compiled(fastmath=True)
def codes(
    descriptors: Floats, words: Floats, nearest: Indices, beta: float
) -> Floats:  # pragma: no cover
    """n×k: the weights of the nearest words; each row sums to one."""
    n, k = nearest.shape
    dim = descriptors.shape[1]
    out = np.empty((n, k), dtype=np.float32)
    shifted = np.empty((k, dim), dtype=np.float32)
    # The k×k system in double precision: the cost is negligible and C may be close to singular.
    gram = np.empty((k, k), dtype=np.float64)
    weights = np.empty(k, dtype=np.float64)
    for i in range(n):
        for a in range(k):
            word = words[nearest[i, a]]
            for j in range(dim):
                shifted[a, j] = word[j] - descriptors[i, j]
        trace = 0.0
        for a in range(k):
            for b in range(a + 1):
                total = np.float32(0)
                for j in range(dim):
                    total += shifted[a, j] * shifted[b, j]
                gram[a, b] = total
            trace += gram[a, a]
        ridge = beta * trace if trace > 0 else 1.0
        for a in range(k):
            gram[a, a] += ridge
        _solve_ones(gram, weights)
        total_weight = weights.sum()
        for a in range(k):
            out[i, a] = weights[a] / total_weight
    return out


@compiled(fastmath=False)
def _solve_ones(gram: NDArray[np.float64], out: NDArray[np.float64]) -> None:  # pragma: no cover
    """Solve ``gram · out = 1`` by Cholesky; the lower triangle is overwritten with the factor."""
    k = len(out)
    for a in range(k):
        for b in range(a + 1):
            total = gram[a, b]
            for c in range(b):
                total -= gram[a, c] * gram[b, c]
            gram[a, b] = total / gram[b, b] if a > b else np.sqrt(total)
    for a in range(k):
        total = 1.0
        for c in range(a):
            total -= gram[a, c] * out[c]
        out[a] = total / gram[a, a]
    for a in range(k - 1, -1, -1):
        total = out[a]
        for c in range(a + 1, k):
            total -= gram[c, a] * out[c]
        out[a] = total / gram[a, a]


@compiled(fastmath=False)
def max_pool(
    weights: Floats, nearest: Indices, cells: Indices, out: Floats
) -> None:  # pragma: no cover
    """Keep in `out` (cells × words) the largest weight of each word in each cell.

    `cells` is n×levels: the cells of a descriptor, one per level of the pyramid. Words that no
    descriptor of a cell uses have weight zero there, so that the maximum is never negative.
    """
    for i in range(len(weights)):
        for level in range(cells.shape[1]):
            pooled = out[cells[i, level]]
            for a in range(weights.shape[1]):
                word = nearest[i, a]
                pooled[word] = max(pooled[word], weights[i, a])


def pyramid_cells(centres: Floats, shape: tuple[int, int], pyramid: tuple[int, ...]) -> Indices:
    """n×levels: the cell of each centre (y, x) in each g×g grid, numbered through all levels."""
    cells = np.empty((len(centres), len(pyramid)), dtype=np.int32)
    sides = np.array(shape, dtype=np.float32)
    offset = 0
    for level, grid in enumerate(pyramid):
        y, x = (centres * np.float32(grid) / sides).astype(np.int32).T
        cells[:, level] = offset + y * grid + x
        offset += grid * grid
    return cells
