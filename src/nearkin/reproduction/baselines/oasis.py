"""OASIS (Chechik, Sharma, Shalit and Bengio, JMLR 2010): online learning of a bilinear similarity.

A step draws a row x, another row x⁺ of its class and a row x⁻ of another class, all at random.
With V = x (x⁺ - x⁻)ᵀ and the loss l = [1 - xᵀM(x⁺ - x⁻)]_+ it makes the smallest passive-aggressive
update:

    M ← M + τV,     τ = min(C, l / |V|²),     |V|² = |x|² |x⁺ - x⁻|².

The drawn rows do not depend on M, so a block of steps needs M only for the products ``xᵀMv``;
earlier steps of the block add Σ τ_a (x_a·x_b)(v_a·v_b) to them. The result is that of sequential
steps.
"""

from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from nearkin.native.blas import multiply_into, serial_blas
from nearkin.native.listed_scores import pair_scores
from nearkin.native.vectors import jit
from nearkin.reproduction.baselines._early_stopping import Best, HeldOut, Quality
from nearkin.reproduction.baselines._training_rows import generator, labelled_rows, rms_length
from nearkin.similarity import BilinearSimilarity
from nearkin.validation import expect
from nearkin.validation.parameters import Table, check_parameters

Array = NDArray[np.float32]
Labels = NDArray[np.int64]

GRID = (0.1, 0.01, 0.001, 0.0001)
BLOCK = 128
EVALUATE_EVERY = 2_000  # steps


class OASIS(BilinearSimilarity, BaseEstimator):
    """Learn M from random triplets of all rows, with passive-aggressive steps.

    Rows are scaled to mean squared length one, so that the margin and C are comparable between data
    sets. A tenth of the rows (at most 2,000) is held out; every 2,000 steps they are classified by
    their neighbours. The best M is kept; eight evaluations without improvement stop learning.

    Parameters
    ----------
    C : float or "auto"
        Largest step. ``auto`` learns with each of 0.1, 0.01, 0.001 and 0.0001 and keeps the M that
        classifies the held-out rows best.
    max_steps : int
    random_state : int, RandomState instance or None

    Attributes
    ----------
    matrix_ : (D, D) float32 array
    C_ : float
    n_steps_ : int
        Steps behind `matrix_`.
    trials_ : dict
        Accuracy on the held-out rows for each C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearkin import Preprocess, SoftVotingKNN
    >>> X, y = load_iris(return_X_y=True)
    >>> X = Preprocess().fit_transform(X)
    >>> model = SoftVotingKNN(OASIS(max_steps=5_000), random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.8)
    True
    """

    PARAMETERS: ClassVar[Table] = {
        "C": expect.either(expect.number(above=0), expect.choice("auto")),
        "max_steps": expect.whole(1),
        "random_state": expect.seed,
    }

    def __init__(
        self,
        *,
        C: float | str = "auto",
        max_steps: int = 100_000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.C = C
        self.max_steps = max_steps
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn `matrix_` by online steps from the identity."""
        check_parameters(self)
        rows, labels, _ = labelled_rows(self, X, y)
        rng = generator(self.random_state)
        held = HeldOut(rows, labels, rng)
        scale = np.float32(1 / rms_length(rows))
        seed = int(rng.integers(2**31))
        tried = GRID if isinstance(self.C, str) else (float(self.C),)
        self.trials_: dict[float, float] = {}
        best: Best | None = None
        for C in tried:
            kept = self._learn(rows, labels, held, scale, C, np.random.default_rng(seed))
            self.trials_[C] = kept.quality[0]
            if best is None or kept.quality > best.quality:
                best, self.C_ = kept, C
        assert best is not None
        self.matrix_, self.n_steps_ = best.state
        return self

    def _learn(
        self,
        rows: Array,
        labels: Labels,
        held: HeldOut,
        scale: np.float32,
        C: float,
        rng: np.random.Generator,
    ) -> Best:
        M = np.eye(rows.shape[1], dtype=np.float32)
        draw = Triplets(labels, held.learn)
        best, done = Best(), 0
        with serial_blas():
            while not best.offer(_quality(held, M), (M.copy(), done)) and done < self.max_steps:
                until = min(self.max_steps, done + EVALUATE_EVERY)
                while done < until:
                    x, near, far = draw(min(BLOCK, until - done), rng)
                    take_steps(M, rows[x] * scale, (rows[near] - rows[far]) * scale, C)
                    done += len(x)
        return best


class Triplets:
    """Random triplets: a row, another row of its class, a row of another class."""

    def __init__(self, labels: Labels, learn: Labels) -> None:
        self.order = learn[np.argsort(labels[learn], kind="stable")]  # by class
        self.counts = np.bincount(labels[self.order], minlength=int(labels.max()) + 1)
        self.starts = np.cumsum(self.counts) - self.counts
        self.labels = labels[self.order]
        self.places = np.flatnonzero(self.counts[self.labels] > 1)  # rows with another of its class
        if not len(self.places):
            self.places = np.arange(len(self.order))

    def __call__(self, n: int, rng: np.random.Generator) -> tuple[Labels, Labels, Labels]:
        """Draw `n` triplets of row indices."""
        x = rng.choice(self.places, n)
        start, count = self.starts[self.labels[x]], self.counts[self.labels[x]]
        other = np.maximum(count - 1, 1)
        near = start + (x - start + 1 + rng.integers(other)) % count  # never x itself
        far = rng.integers(len(self.order) - count)
        far = np.where(far < start, far, far + count)  # leave the class out
        return self.order[x], self.order[near], self.order[far]


class Steps(NamedTuple):
    """Step sizes and losses of a block of steps."""

    taus: Array
    losses: Array


def take_steps(M: Array, X: Array, V: Array, C: float) -> Steps:
    """Passive-aggressive steps on ``x Mᵀ v`` for each row of `X` and `V` in turn; changes `M`."""
    X, V = np.ascontiguousarray(X, np.float32), np.ascontiguousarray(V, np.float32)
    products = np.empty_like(X)
    multiply_into(products, X, M)
    margins = np.einsum("nd,nd->n", products, V)
    later = (X @ X.T) * (V @ V.T)
    taus, losses = np.zeros(len(X), np.float32), np.zeros(len(X), np.float32)
    _sizes(margins, later, C, taus, losses)
    multiply_into(M, X, V * taus[:, None], keep=1.0, left_transposed=True)
    return Steps(taus, losses)


@jit
def _sizes(margins, later, C, taus, losses):  # type: ignore[no-untyped-def]
    """Step sizes of a block, each given the steps before it."""
    for b in range(len(margins)):
        margin = margins[b]
        for a in range(b):
            margin += later[b, a] * taus[a]
        losses[b] = max(0.0, 1 - margin)
        taus[b] = min(C, losses[b] / max(later[b, b], 1e-30))


def _quality(held: HeldOut, M: Array) -> Quality | None:
    return held.quality(lambda queries, stored, lists: pair_scores(queries @ M, stored, lists))
