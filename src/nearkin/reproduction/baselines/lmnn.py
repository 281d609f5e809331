"""Large margin nearest neighbours (Weinberger and Saul, JMLR 2009).

Minimises, over L with ``d(x, z) = |L(x - z)|²``,

    (1-μ) Σ_{i, j∈T_i} d(i, j)  +  μ Σ_{i, j∈T_i} Σ_{l: y_l≠y_i} [1 + d(i, j) - d(i, l)]_+

where T_i are the k nearest rows of i's own class, fixed. All rows are searched for impostors (rows
inside the margin) at regular intervals; in between only the impostors found are used.
"""

import warnings
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from nearkin.native.listed_scores import pair_squared_distances
from nearkin.neighbors import nearest
from nearkin.reproduction.baselines._early_stopping import Best, HeldOut, metric_quality
from nearkin.reproduction.baselines._metric import LearnedMetric
from nearkin.reproduction.baselines._training_rows import generator, labelled_rows, limited_rows
from nearkin.validation import expect
from nearkin.validation.parameters import Table, check_parameters

Array = NDArray[np.float32]
Pairs = NDArray[np.int64]

_SEARCH_CELLS = 1 << 24
_SHRINK, _GROW = 0.5, 1.05
_PATIENCE = 3


class LMNN(LearnedMetric, BaseEstimator):
    """Learn a Mahalanobis metric that keeps other classes away from each row's own neighbours.

    Parameters
    ----------
    n_neighbors : int
        Target neighbours per row, k.
    weight : float
        μ, the weight of pushing impostors away; 1-μ is that of pulling targets in.
    max_iter : int
    tol : float
        Stop when the objective falls by less than this share over five iterations.
    refresh : int
        Iterations between full searches for impostors.
    max_impostors : int
        Maximum number of pairs (row, impostor); the nearest are kept, with a warning.
    max_rows : int, optional
        If `X` has more rows, a stratified sample of this size is used, with a warning: every
        search for impostors takes time quadratic in the rows.
    early_stopping : bool
        Hold out a tenth of the rows (at most 2,000), classify them by their neighbours before each
        search for impostors, keep the best L and stop after three searches without improvement.
    random_state : int, RandomState instance or None
        Draws those rows.
    verbose : int

    Attributes
    ----------
    components_ : (D, D) array L
    matrix_ : (D, D) array LᵀL
    objective_ : list of float, one per iteration
    n_iter_ : int
    n_rows_ : int
        Rows learned from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LMNN(max_iter=20).fit(X, y)
    >>> model.objective_[-1] < model.objective_[0]
    True
    """

    PARAMETERS: ClassVar[Table] = {
        "n_neighbors": expect.whole(1),
        "weight": expect.number(0, 1),
        "max_iter": expect.whole(1),
        "tol": expect.number(0),
        "refresh": expect.whole(1),
        "max_impostors": expect.whole(1),
        "max_rows": expect.optional(expect.whole(2)),
        "early_stopping": expect.flag,
        "random_state": expect.seed,
        "verbose": expect.verbosity,
    }

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        weight: float = 0.5,
        max_iter: int = 200,
        tol: float = 1e-4,
        refresh: int = 10,
        max_impostors: int = 20_000_000,
        max_rows: int | None = 20_000,
        early_stopping: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weight = weight
        self.max_iter = max_iter
        self.tol = tol
        self.refresh = refresh
        self.max_impostors = max_impostors
        self.max_rows = max_rows
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn L by gradient descent from the identity, scaled to mean target distance one."""
        check_parameters(self)
        rows, labels = limited_rows(self, *labelled_rows(self, X, y)[:2])
        held = HeldOut(rows, labels, generator(self.random_state)) if self.early_stopping else None
        if held is not None and len(held.queries):
            rows, labels = rows[held.learn], labels[held.learn]
        self._descend(rows, labels, target_pairs(rows, labels, self.n_neighbors), held)
        return self

    def _descend(
        self, rows: Array, labels: NDArray[np.int64], targets: Pairs, held: HeldOut | None
    ) -> None:
        # Scales target distances to the margin: else no row, or every row, is an impostor.
        reach = float(_squared(rows, targets).mean()) if len(targets) else 1.0
        L = np.eye(rows.shape[1], dtype=np.float32) / np.float32(np.sqrt(reach) or 1.0)
        self.objective_: list[float] = []
        step, value, gradient = 0.0, np.inf, L
        impostors = np.empty((0, 2), np.int64)
        best = Best(_PATIENCE)
        for iteration in range(self.max_iter):
            if iteration % self.refresh == 0:
                if held is not None and best.offer(metric_quality(held, L), L):
                    break
                impostors = find_impostors(rows @ L.T, labels, targets, self.max_impostors)
                value, gradient = self._value(rows, L, targets, impostors)
                step = step or 0.1 / max(float(np.abs(gradient).max()), 1e-30)
            candidate = L - np.float32(step) * gradient
            new, new_gradient = self._value(rows, candidate, targets, impostors)
            if new < value:
                L, value, gradient, step = candidate, new, new_gradient, step * _GROW
            else:
                step *= _SHRINK
            self.objective_.append(value)
            if self.verbose:
                print(
                    f"iteration {iteration + 1}  objective {value:.6g}  impostors {len(impostors)}"
                )
            if self._converged(iteration):
                break
        if held is not None:
            best.offer(metric_quality(held, L), L)
            L = best.state
        self._keep(L)
        self.n_iter_ = len(self.objective_)

    def _converged(self, iteration: int) -> bool:
        """Whether to stop; decided only right before a search for impostors, so none is missed."""
        if iteration < 2 * self.refresh or (iteration + 1) % self.refresh:
            return False
        before, now = self.objective_[-6], self.objective_[-1]
        return before - now <= self.tol * before

    def _value(
        self, rows: Array, L: Array, targets: Pairs, impostors: Pairs
    ) -> tuple[float, Array]:
        return value_and_gradient(rows, L, targets, impostors, self.weight)


def target_pairs(rows: Array, labels: NDArray[np.int64], k: int) -> Pairs:
    """Pairs (i, j): j is among the k nearest rows of i's class; small classes give fewer."""
    pairs = [np.empty((0, 2), np.int64)]
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            near = nearest(rows[members], min(k, len(members) - 1), index="exact")[1]
            first = np.repeat(members, near.shape[1])
            pairs.append(np.stack([first, members[near.ravel()]], axis=1))
    return np.concatenate(pairs)


def find_impostors(Z: Array, labels: NDArray[np.int64], targets: Pairs, most: int) -> Pairs:
    """All pairs (i, l) of different classes with d(i, l) < 1 + the farthest target of i."""
    reach = np.full(len(Z), -np.inf, np.float32)
    np.maximum.at(reach, targets[:, 0], 1 + _squared(Z, targets))
    squares = (Z**2).sum(axis=1)
    found, distances = [np.empty((0, 2), np.int64)], [np.empty(0, np.float32)]
    step = max(1, _SEARCH_CELLS // len(Z))
    for lo in range(0, len(Z), step):
        block = slice(lo, lo + step)
        d = squares[block, None] + squares - 2 * (Z[block] @ Z.T)
        inside = (d < reach[block, None]) & (labels[block, None] != labels)
        i, j = np.nonzero(inside)
        found.append(np.stack([i + lo, j], axis=1))
        distances.append(d[i, j])
    pairs, gaps = np.concatenate(found), np.concatenate(distances)
    if len(pairs) > most:
        warnings.warn(
            f"{len(pairs)} pairs of rows and impostors, but max_impostors={most}: the nearest are "
            "kept; raise max_impostors or fit on fewer rows",
            ConvergenceWarning,
            stacklevel=2,
        )
        pairs = pairs[np.argsort(gaps, kind="stable")[:most]]
    return pairs


def value_and_gradient(
    rows: Array, L: Array, targets: Pairs, impostors: Pairs, weight: float
) -> tuple[float, Array]:
    """The objective over the given impostors, and its gradient with respect to L."""
    n = len(rows)
    Z = rows @ L.T
    near, far = _squared(Z, targets), _squared(Z, impostors)
    # Triplets: every impostor pair (i, l) with every target pair (i, j) of the same i.
    order = np.argsort(targets[:, 0], kind="stable")
    count = np.bincount(targets[:, 0], minlength=n)
    start = np.cumsum(count) - count
    pull = np.full(len(targets), 1 - weight)
    push = np.zeros(len(impostors))
    value = (1 - weight) * float(near.sum(dtype=np.float64))
    first = impostors[:, 0]
    for place in range(int(count.max(initial=0))):
        has = np.flatnonzero(count[first] > place)
        target = order[start[first[has]] + place]
        hinge = 1 + near[target] - far[has]
        active = hinge > 0
        value += weight * float(hinge[active].sum(dtype=np.float64))
        pull += weight * np.bincount(target[active], minlength=len(targets))
        push += weight * np.bincount(has[active], minlength=len(impostors))
    # Σ w (x_i − x_j)(x_i − x_j)ᵀ is XᵀΛX with the symmetric Laplacian Λ of the weights.
    pairs = np.concatenate([targets, impostors])
    laplacian = _laplacian(pairs, np.concatenate([pull, -push]), n)
    return value, (2 * (laplacian @ Z).T @ rows).astype(np.float32)


def _squared(Z: Array, pairs: Pairs) -> Array:
    lists = np.ascontiguousarray(pairs[:, 1:], np.int32)
    out = np.empty(len(pairs), np.float32)
    for lo in range(0, len(pairs), 1 << 16):
        part = slice(lo, lo + (1 << 16))
        out[part] = pair_squared_distances(Z[pairs[part, 0]], Z, lists[part])[:, 0]
    return out


def _laplacian(pairs: Pairs, weights: NDArray[np.float64], n: int) -> sparse.csr_array:
    i, j = pairs.T
    half = sparse.csr_array((weights, (i, j)), shape=(n, n)).astype(np.float32)
    both = half + half.T
    return sparse.diags_array(both.sum(axis=1)) - both
