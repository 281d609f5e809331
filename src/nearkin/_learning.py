"""One epoch of SL-NE: blocks of rows, three matrix products and one compiled walk for each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nearkin._blas import multiply_into
from nearkin._kernel import walk
from nearkin._partition import cells_of
from nearkin._projection import Projection
from nearkin._rounded import no_rows, rounded
from nearkin._rules import RANDOM_RULES, RULES
from nearkin._team import together
from nearkin._threads import in_threads, n_threads
from nearkin.neighborhoods import Neighborhoods

# Measured (benchmarks/learner.py): larger blocks spread the traffic over M, larger strides the
# cost of entering compiled code, against more corrections per row.
BLOCK, STRIDE = 256, 64
MOST = 0.8  # of a block's rows; where fewer took a step, copying these out is worth it
# Neighbours, and numbers, that one more thread must have to itself; with fewer, meeting costs more
# than it saves.
WORTH_A_MEMBER = 100, 20_000

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Settings:
    """What one run of Algorithm 1 needs to know, in the units of the data."""

    rule: str
    margin: float
    step_size: float
    temperature: float
    batch_size: int
    shuffle: bool | str
    normalize: bool
    projection: Projection
    rounded: bool
    seed: int


@dataclass
class Place:
    """Where an epoch stands between two blocks; with M, all that is needed to go on from there."""

    row: int = 0  # of the epoch's usable rows
    violations: int = 0
    loss: float = 0.0
    since: int = 0  # rows since the last projection


@dataclass
class Learner:
    """M and the counter t of Algorithm 1; `epoch` moves both on.

    `taken` is t − 1, the visits so far; left out, every epoch so far visited every row. `visits`
    are the rows that an epoch visits, if not all. `between` is called after each block, when M
    is whole.
    """

    X: Array
    hoods: Neighborhoods
    settings: Settings
    matrix: Array
    epochs: int = 0
    offsets: Array = field(default_factory=lambda: np.empty(0, np.float32))
    taken: int | None = None
    visits: NDArray[np.int64] | None = None
    place: Place = field(default_factory=Place)
    between: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        D = self.X.shape[1]
        rows = BLOCK if self.settings.batch_size == 1 else self.settings.batch_size
        self.block = min(rows, len(self.X))
        self.Q, self.V = (np.empty((self.block, D), np.float32) for _ in range(2))
        self.w = np.empty(self.block, np.float32)
        self.rounded = rounded(self.X) if self.settings.rounded else no_rows()
        self.kept_norm = float(np.linalg.norm(self.matrix))
        self.longest = int(self.hoods.degrees.max(initial=0))
        edges = self.hoods.degrees[self.hoods.usable]
        degree = float(edges.mean()) if len(edges) else 0.0
        neighbours, numbers = WORTH_A_MEMBER
        self.most_members = int(min(degree / neighbours, degree * D / numbers))

    def epoch(self) -> tuple[float, float]:
        """Visit every usable row once; return the share that violated and the mean loss."""
        rows, steps, draws = self._schedule()
        at = self.place
        while at.row < len(rows):
            part = slice(at.row, at.row + self.block)
            v, lost = self._take(rows[part], steps[part], draws[part])
            at.row, at.violations, at.loss = part.stop, at.violations + v, at.loss + lost
            at.since += self.block
            if self.settings.projection.due(at.since, self.X.shape[1]):
                self._project()
                at.since = 0
            self.between()
        self._project()
        self.taken = self.t0 + self.n_visits if self.taken is not None else None
        self.epochs += 1
        self.place = Place()
        n = max(1, len(rows))
        return at.violations / n, at.loss / n

    @property
    def n_visits(self) -> int:
        """Rows that an epoch counts, also those it skips."""
        return len(self.X) if self.visits is None else len(self.visits)

    @property
    def t0(self) -> int:
        """Visits before the epoch: t − 1 of Algorithm 1."""
        return self.epochs * self.n_visits if self.taken is None else self.taken

    @cached_property
    def cells(self) -> NDArray[np.int32]:
        """Which rows lie together."""
        return cells_of(self.X) if self.hoods.cells is None else self.hoods.cells

    def _schedule(self) -> tuple[NDArray[np.int64], Array, NDArray[np.float64]]:
        """Order of the rows, their step sizes and random numbers.

        Each epoch has a generator of its own, so that epoch e can be repeated without the others.
        """
        n, s = self.n_visits, self.settings
        rng = np.random.default_rng([s.seed, self.epochs])
        visits = np.arange(n) if self.visits is None else self.visits
        order = rng.permutation(visits) if s.shuffle else visits
        if s.shuffle == "local":  # cells in random order, rows in random order within
            rank = rng.permutation(int(self.cells.max()) + 1)
            order = order[np.argsort(rank[self.cells[order]], kind="stable")]
        t = np.arange(n) + self.t0  # counts every row, also skipped ones
        steps = (s.step_size / np.sqrt(t / len(self.X) + 1)).astype(np.float32)
        draws = rng.random(n) if s.rule in RANDOM_RULES else np.zeros(n)
        usable = self.hoods.usable[order]
        return order[usable], steps[usable], draws[usable]

    def _take(self, rows: NDArray[np.int64], steps: Array, draws: NDArray[np.float64]):  # type: ignore[no-untyped-def]
        """Take the steps of one block; return the number of violations and the summed loss."""
        s, n = self.settings, len(rows)
        XB = self.X[rows]
        Q, V, w = self.Q[:n], self.V[:n], self.w[:n]
        multiply_into(Q, XB, self.matrix)
        exact = s.batch_size == 1
        G = np.empty((n, n) if exact else (0, 0), np.float32)
        if exact:
            multiply_into(G, XB, XB, right_transposed=True, panel=BLOCK // 2)
        scalars = RULES[s.rule], s.margin, s.temperature, self.kept_norm
        flags = exact, s.projection.symmetric, s.normalize

        def visit(lo: int, hi: int, alpha: float, norm2: float, size: int):  # type: ignore[no-untyped-def]
            scores = np.empty(self.longest, np.float32)
            return together(lambda member: walk(
                self.X, self.rounded, self.hoods.arrays, self.offsets, rows, XB, Q, G, V, w,
                scores, steps, draws, lo, hi, alpha, norm2, scalars, flags, member,
            ), size)  # fmt: skip

        if exact:
            violations, loss, alpha = self._in_order(visit, XB, G, n)
        else:
            parts = in_threads(lambda lo, hi: visit(lo, hi, 1.0, 1.0, 1), n)
            violations, loss = (sum(column) for column in list(zip(*parts))[:2])
            alpha = 1.0
        self._update(XB, V, w, alpha)
        if s.normalize and not exact:
            self._rescale()
        return violations, loss

    def _in_order(self, visit, XB: Array, G: Array, n: int) -> tuple[int, float, float]:  # type: ignore[no-untyped-def]
        """Algorithm 1 exactly: strides of rows, each caught up with the ones before it."""
        violations, loss, alpha, norm2 = 0, 0.0, 1.0, self.kept_norm**2
        size = max(1, min(n_threads(), self.most_members))
        for lo in range(0, n, STRIDE):
            hi = min(lo + STRIDE, n)
            if lo:
                self._catch_up(XB, G, lo, hi)
            v, lost, alpha, norm2 = visit(lo, hi, alpha, norm2, size)
            violations, loss = violations + v, loss + lost
        return violations, loss, alpha

    def _catch_up(self, XB: Array, G: Array, lo: int, hi: int) -> None:
        """Add to Q[lo:hi] what the block's steps before `lo` changed."""
        Q, V, w = self.Q[lo:hi], self.V[:lo], self.w[:lo]
        if not self.settings.projection.symmetric:
            multiply_into(Q, G[lo:hi, :lo] * w, V, keep=1)
            return
        along_v = np.empty((hi - lo, lo), np.float32)
        multiply_into(along_v, XB[lo:hi], V, right_transposed=True)
        multiply_into(Q, G[lo:hi, :lo] * w, V, scale=0.5, keep=1)
        multiply_into(Q, along_v * w, XB[:lo], scale=0.5, keep=1)

    def _update(self, XB: Array, V: Array, w: Array, alpha: float) -> None:
        """``M ← α (M + X_Bᵀ diag(w) V)``, symmetrised if asked, without a D×D temporary."""
        stepped = w != 0
        if stepped.mean() < MOST:
            XB, V, w = XB[stepped], V[stepped], w[stepped]
        weighted, M = XB * w[:, None], self.matrix
        if not self.settings.projection.symmetric:
            multiply_into(M, weighted, V, scale=alpha, keep=alpha, left_transposed=True)
            return
        multiply_into(M, weighted, V, scale=alpha / 2, keep=alpha, left_transposed=True)
        multiply_into(M, V, weighted, scale=alpha / 2, keep=1, left_transposed=True)

    def _project(self) -> None:
        self.settings.projection.apply(self.matrix)
        if self.settings.normalize:
            self._rescale()

    def _rescale(self) -> None:
        norm = np.linalg.norm(self.matrix)
        if norm > 0:
            self.matrix *= np.float32(self.kept_norm / norm)
