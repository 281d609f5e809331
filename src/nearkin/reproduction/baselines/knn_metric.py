"""A metric for nearest neighbours, of low rank (Mensink, Verbeek, Perronnin and Csurka, ECCV 2012).

The losses are those of LMNN without its pull,

    Σ_q Σ_{p∈P_q} Σ_{n: y_n≠y_q} [1 + |Wq - Wp|² - |Wq - Wn|²]_+,

but W is a d×D matrix and a step sees a mini-batch only: its rows are the queries q, their targets
P_q come along, and the impostors n are rows of the batch. The targets are the k nearest rows of q's
own class: fixed, by plain distance, or dynamic, under the present W.
"""

from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from nearkin.native.blas import serial_blas
from nearkin.native.listed_scores import pair_squared_distances
from nearkin.native.vectors import jit
from nearkin.reproduction.baselines._early_stopping import HeldOut, metric_quality
from nearkin.reproduction.baselines._low_rank import (
    PARAMETERS,
    Problem,
    principal_start,
    search,
)
from nearkin.reproduction.baselines._metric import LearnedMetric
from nearkin.reproduction.baselines._training_rows import (
    generator,
    labelled_rows,
    limited_rows,
    rms_length,
)
from nearkin.reproduction.baselines.lmnn import target_pairs
from nearkin.validation import expect
from nearkin.validation.parameters import Table, check_parameters

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

STEPS = (10.0, 100.0, 1_000.0)
WIDER = 4  # dynamic targets are chosen among WIDER·k candidates


class KNNMetric(LearnedMetric, BaseEstimator):
    """Learn a low-rank Mahalanobis metric from the triplets of mini-batches.

    A tenth of the rows (at most 2,000) is held out to select ``auto`` settings and when to stop.
    Rows are scaled to mean squared length one.

    Parameters
    ----------
    n_neighbors : int
        Targets per row, k.
    targets : {"dynamic", "fixed"}
        The k nearest of the row's class under the present W (among its 4·k plain nearest), or by
        plain distance.
    rank : int or "auto"
        d; ``auto`` is the best of 32, 128 and 512, as far as there are columns.
    step_size : float or "auto"
        ``auto`` is the best of 10, 100 and 1,000, for the mean loss of a triplet.
    batch_size : int
    max_iter : int
        Maximum number of steps. The held-out rows are classified every 25 steps; eight evaluations
        without improvement stop the descent.
    max_rows : int, optional
        If `X` has more rows, a stratified sample of this size is used, with a warning: the search
        for targets takes time quadratic in the rows of a class.
    random_state : int, RandomState instance or None

    Attributes
    ----------
    components_ : (d, D) array W
    matrix_ : (D, D) array WᵀW
    rank_, step_size_, n_iter_ :
        Selected rank and step size, and number of steps.
    n_rows_ : int
        Rows learned from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KNNMetric(rank=2, max_iter=50, random_state=0).fit(X, y)
    >>> model.transform(X).shape
    (150, 2)
    """

    PARAMETERS: ClassVar[Table] = {
        **PARAMETERS,
        "n_neighbors": expect.whole(1),
        "targets": expect.choice("dynamic", "fixed"),
        "max_rows": expect.optional(expect.whole(2)),
    }

    def __init__(
        self,
        n_neighbors: int = 3,
        *,
        targets: str = "dynamic",
        rank: int | str = "auto",
        step_size: float | str = "auto",
        batch_size: int = 256,
        max_iter: int = 1_000,
        max_rows: int | None = 100_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.targets = targets
        self.rank = rank
        self.step_size = step_size
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn W by stochastic gradient descent from the principal directions."""
        check_parameters(self)
        rows, labels = limited_rows(self, *labelled_rows(self, X, y)[:2])
        rng = generator(self.random_state)
        held = HeldOut(rows, labels, rng)
        scale = np.float32(1 / rms_length(rows))
        wider = WIDER if self.targets == "dynamic" else 1
        lists = target_lists(rows, labels, held.learn, wider * self.n_neighbors)

        def loss(W: Array, batch: Labels) -> tuple[float, Array]:
            block = Batch(rows, labels, lists, batch, W * scale, self.n_neighbors)
            value, gradient = block.loss_and_gradient(W * scale)
            return value, gradient * scale

        most = rows.shape[1] if isinstance(self.rank, str) else self.rank
        with serial_blas():
            start = principal_start(rows, labels, min(512, most), rng)
            problem = Problem(
                held.learn, self.batch_size, loss,
                lambda W: metric_quality(held, W), int(rng.integers(2**31)),
            )  # fmt: skip
            found = search(problem, start, self.rank, self.step_size, STEPS, self.max_iter)
        self._keep(found.W * scale)
        self.rank_, self.step_size_, self.n_iter_ = found.rank, found.step_size, found.steps
        return self


def target_lists(rows: Array, labels: Labels, learn: Labels, k: int) -> NDArray[np.int32]:
    """For each row its k nearest of its own class, nearest first, among `learn`; −1 for none."""
    lists = np.full((len(rows), k), -1, np.int32)
    pairs = learn[target_pairs(rows[learn], labels[learn], k)]
    first, counts = np.unique(pairs[:, 0], return_counts=True)
    order = np.argsort(pairs[:, 0], kind="stable")
    places = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    lists[np.repeat(first, counts), places] = pairs[order, 1]
    return lists


class Batch:
    """Rows of a mini-batch, followed by their targets; `pairs` lists (query, target)."""

    def __init__(
        self, rows: Array, labels: Labels, lists: NDArray[np.int32], batch: Labels, W: Array, k: int
    ) -> None:
        chosen = nearest_listed(rows, lists[batch], batch, W, k)
        query, place = np.nonzero(chosen >= 0)
        members = np.concatenate([batch, chosen[query, place]])
        self.rows, self.labels = np.ascontiguousarray(rows[members]), labels[members]
        self.pairs = np.stack([query, len(batch) + np.arange(len(query))], axis=1)

    def loss_and_gradient(self, W: Array) -> tuple[float, Array]:
        """Mean hinge loss of a triplet, and its gradient with respect to W."""
        query, target = self.pairs.T
        n = int(query.max(initial=-1)) + 1
        Z = self.rows @ W.T
        squares = (Z**2).sum(axis=1)
        distances = squares[:n, None] + squares - 2 * (Z[:n] @ Z.T)
        weights = np.zeros_like(distances)
        total, triplets = _hinges(distances, self.labels, query, target, weights)
        share = 1 / max(triplets, 1)
        # Σ w W(x_b − x_r)(x_b − x_r)ᵀ, the rows b of the batch and r of all.
        out = weights.sum(axis=1)[:, None] * Z[:n] - weights @ Z
        back = weights.sum(axis=0)[:, None] * Z - weights.T @ Z[:n]
        gradient = out.T @ self.rows[:n] + back.T @ self.rows
        return total * share, gradient * np.float32(2 * share)


@jit
def _hinges(distances, labels, query, target, weights):  # type: ignore[no-untyped-def]
    """Sum the hinge losses of all triplets and set the pair weights of the gradient."""
    total, triplets = 0.0, 0
    for p in range(len(query)):
        q, active = query[p], 0
        reach = 1 + distances[q, target[p]]
        for r in range(distances.shape[1]):
            if labels[r] != labels[q]:
                triplets += 1
                if distances[q, r] < reach:
                    total += reach - distances[q, r]
                    weights[q, r] -= 1
                    active += 1
        weights[q, target[p]] += active
    return total, triplets


def nearest_listed(
    rows: Array, lists: NDArray[np.int32], batch: Labels, W: Array, k: int
) -> NDArray[np.int32]:
    """The k nearest under W of the rows listed for each row of the batch; −1 for none."""
    if lists.shape[1] == k:
        return lists
    listed = np.unique(lists[lists >= 0])
    if not len(listed):
        return lists[:, :k]
    places = np.where(lists >= 0, np.searchsorted(listed, lists), -1).astype(np.int32)
    distances = pair_squared_distances(rows[batch] @ W.T, rows[listed] @ W.T, places)
    return np.take_along_axis(lists, np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)
