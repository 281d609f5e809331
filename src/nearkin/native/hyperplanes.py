"""Distances of queries to local hyperplanes: those through their nearest rows of each class.

K-local hyperplane distances (Vincent and Bengio, 2001), with a ridge: a class of many rows close by
counts as if it also had the rows between them.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin.native.listed_scores import pair_squared_distances
from nearkin.native.threads import in_threads
from nearkin.native.vectors import dot, jit, read_only

# Rows that span a hyperplane, and how much their weights are shrunk towards equal ones, in units of
# the mean squared distance. Held-out rows of MNIST, Fashion-MNIST, USPS, letter, covtype and
# Banking77: 10 to 30 rows and .3 to 1 differ little.
MOST_ROWS = 15
RIDGE = 1.0


def hyperplane_distances(
    Q: NDArray[np.float32],
    Z: NDArray[np.float32],
    indices: NDArray[np.int32],
    labels: NDArray[np.integer],
    n_classes: int,
) -> NDArray[np.float32]:
    """Squared distance of each query to the hyperplane of each class.

    The hyperplane is through the `MOST_ROWS` nearest rows of the class among those that `indices`
    lists for the query; the point on it is their mean with weights that sum to one, near the query
    and of little variation: ``w ∝ (G + r·I)⁻¹·1`` with the Gram matrix G of the differences to the
    query and r `RIDGE` times its mean diagonal.

    Parameters
    ----------
    Q, Z : (m, D) and (n, D) arrays
    indices : (m, k) array
        Rows of Z; ``-1`` stands for none.
    labels : (n,) array
        Classes of the rows of Z, from 0 to `n_classes` − 1.

    Returns
    -------
    (m, n_classes) array
        Infinite for classes without a listed row.
    """
    squares = pair_squared_distances(Q, Z, indices)  # which checks shapes and row numbers
    if labels.shape != Z.shape[:1]:
        raise ValueError(f"Z and labels have shapes {Z.shape} and {labels.shape}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_classes:
        raise ValueError(f"labels holds {labels.min()} to {labels.max()} for {n_classes} classes")
    out = np.full((len(Q), n_classes), np.inf, np.float32)
    own = labels.astype(np.int32, copy=False)
    arrays = read_only(Q), read_only(Z), read_only(indices), squares, read_only(own), out
    in_threads(partial(_distances, *arrays), len(Q))
    return out


@jit
def _distances(Q, Z, indices, squares, labels, out, lo, hi):  # type: ignore[no-untyped-def]
    width = indices.shape[1]
    members = np.empty(MOST_ROWS, np.int64)
    differences = np.empty((MOST_ROWS, Q.shape[1]), np.float32)
    gram = np.empty((MOST_ROWS, MOST_ROWS), np.float64)
    for i in range(lo, hi):
        order = np.argsort(squares[i], kind="mergesort")
        for place in range(width):
            j = indices[i, order[place]]
            if j < 0 or out[i, labels[j]] < np.inf:  # its class is done
                continue
            count = _nearest_of_class(indices[i], order, place, labels, members)
            _differences(Q[i], Z, members, count, differences, gram)
            out[i, labels[j]] = _to_hyperplane(gram, count)


@jit
def _nearest_of_class(indices, order, place, labels, members):  # type: ignore[no-untyped-def]
    """Fill `members` with the nearest rows of the class of the row at `place`; their number."""
    wanted, count = labels[indices[order[place]]], 0
    for p in range(place, len(order)):
        j = indices[order[p]]
        if j >= 0 and labels[j] == wanted:
            members[count] = j
            count += 1
            if count == len(members):
                break
    return count


@jit
def _differences(q, Z, members, count, differences, gram):  # type: ignore[no-untyped-def]
    """Fill the differences of the members to the query, and their Gram matrix."""
    for a in range(count):
        row, out = Z[members[a]], differences[a]
        for d in range(len(q)):
            out[d] = row[d] - q[d]
        for b in range(a + 1):
            gram[a, b] = gram[b, a] = np.float64(dot(out, differences[b]))


@jit
def _to_hyperplane(gram, count):  # type: ignore[no-untyped-def]
    """Squared distance by a Cholesky factorisation, in place, of the Gram matrix with its ridge."""
    ridge = 0.0
    for a in range(count):
        ridge += RIDGE * gram[a, a] / count
    if not ridge < np.inf:  # beyond float32: too far to vote
        return np.float32(np.inf)
    if count == 1 or ridge == 0:
        return np.float32(gram[0, 0])
    half = np.empty(count)  # L⁻¹·1
    for a in range(count):
        gram[a, a] += ridge
        for b in range(a + 1):
            value = gram[a, b]
            for c in range(b):
                value -= gram[a, c] * gram[b, c]
            gram[a, b] = np.sqrt(value) if a == b else value / gram[b, b]
        value = 1.0
        for c in range(a):
            value -= gram[a, c] * half[c]
        half[a] = value / gram[a, a]
    total, squares = 0.0, 0.0
    for a in range(count - 1, -1, -1):  # L⁻ᵀ, from the last weight to the first
        for c in range(a + 1, count):
            half[a] -= gram[c, a] * half[c]
        half[a] /= gram[a, a]
        total += half[a]
        squares += half[a] * half[a]
    return np.float32(max(0.0, (total - ridge * squares) / (total * total)))
