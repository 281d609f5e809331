"""One epoch of SL-NE: blocks of rows, three matrix products and one compiled walk for each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.blocks import BLOCK, Block
from nearkin.learning.constraints import Projection
from nearkin.learning.pipeline import BLOCK as AHEAD_BLOCK
from nearkin.learning.pipeline import Workspace, make_workspace, run_superblock
from nearkin.learning.sampling import EXTREME_RULES, RANDOM_RULES, RULES
from nearkin.learning.step import block_step
from nearkin.native.barrier import run_team
from nearkin.native.blas import multiply_into
from nearkin.native.quantize import no_quantized_rows, quantize_rows
from nearkin.native.threads import n_threads
from nearkin.native.vectors import CACHE_BYTES, read_only
from nearkin.neighborhoods import Neighborhoods
from nearkin.neighbors.partition import cells_of

# Matrix products ahead of the steps (`_ahead`) are worth their corrections from so many dimensions
# on. They take one thread about as long as reading half of D² bytes of neighbours. After a stretch
# of blocks, fewer where their products would take seconds, M is whole again.
AHEAD_DIMS, AHEAD_PRODUCTS, STRETCH, STRETCH_SIZE = 256, 0.5, 128, 1e9
# Neighbours, and numbers, that one more thread must have to itself; with fewer, meeting costs more
# than it saves.
WORTH_A_MEMBER = 100, 20_000

TINY = float(np.finfo(np.float32).tiny)

# Rows a dimension up to which a copy of them in bytes is no larger than eight matrices.
FEW_ROWS = 32

Array = NDArray[np.float32]


def compares_bytes(rounded: bool | str, rule: str, rows: int, dims: int) -> bool:
    """Whether rows are compared by their bytes first; ``"auto"``: where that costs nothing.

    Not the result, since an extreme rule gets the scores it would get anyway, nor more memory than
    a few matrices; and all rows at once would not fit the cache.
    """
    if rounded != "auto":
        return bool(rounded)
    return rule in EXTREME_RULES and 4 * rows * dims > CACHE_BYTES and rows <= FEW_ROWS * dims


def stretch_blocks(dims: int) -> int:
    """Blocks of a stretch."""
    return max(8, min(STRETCH, int(STRETCH_SIZE / dims**2)))


@dataclass(frozen=True)
class Settings:
    """What one run of Algorithm 1 needs to know, in the units of the data."""

    rule: str
    margin: float
    step_size: float
    temperature: float
    shuffle: bool | str
    normalize: bool
    projection: Projection
    rounded: bool
    seed: int


@dataclass
class Place:
    """Where an epoch stands when M is whole; with M, all that is needed to go on from there."""

    row: int = 0  # of the epoch's usable rows
    violations: int = 0
    loss: float = 0.0
    since: int = 0  # rows since the last projection


@dataclass
class Learner:
    """M and the counter t of Algorithm 1; `epoch` moves both on.

    `taken` is t − 1, the visits so far; left out, every epoch so far visited every row. `visits`
    are the rows that an epoch visits, if not all. `between` is called where M is whole:
    after each block, or each stretch of them.
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
        s, D = self.settings, self.X.shape[1]
        self.X = read_only(self.X)
        self.rounded = quantize_rows(self.X) if s.rounded else no_quantized_rows()
        self.kept_norm = float(np.linalg.norm(self.matrix))
        self.longest = int(self.hoods.degrees.max(initial=0))
        edges = self.hoods.degrees[self.hoods.usable]
        degree = float(edges.mean()) if len(edges) else 0.0
        neighbours, numbers = WORTH_A_MEMBER
        self.most_members = int(min(degree / neighbours, degree * D / numbers))
        self.reading = degree * (1 if s.rounded else 4) / D
        self.ahead = self._looks_ahead()
        self.block = min(BLOCK, len(self.X))
        self.stretch = AHEAD_BLOCK * stretch_blocks(D) if self.ahead else self.block

    def _looks_ahead(self) -> bool:
        """Whether products are done while rows are visited; the data tell, not the machine."""
        s, D = self.settings, self.X.shape[1]
        projected = s.normalize or s.projection.symmetric or s.projection.spectral
        return not projected and D >= AHEAD_DIMS

    def epoch(self) -> tuple[float, float]:
        """Visit every usable row once; return the share that violated and the mean loss."""
        rows, steps, draws = self._schedule()
        at = self.place
        while at.row < len(rows):
            part = slice(at.row, at.row + self.stretch)
            v, lost = self.take(rows[part], steps[part], draws[part])
            at.row, at.violations, at.loss = part.stop, at.violations + v, at.loss + lost
            at.since += self.stretch
            if self.settings.projection.due(at.since, self.X.shape[1]):
                self.project()
                at.since = 0
            self.between()
        self.project()
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

    def take(
        self, rows: NDArray[np.int64], steps: Array, draws: NDArray[np.float64]
    ) -> tuple[int, float]:
        """Take the steps of some rows; return the number of violations and the summed loss."""
        if self.ahead:
            given = self._given(np.empty(self.longest, np.float32))
            visits, threads = (rows, steps, draws), n_threads()
            return run_superblock(
                self.matrix, self.workspace, given, visits, threads, self.visitors(threads)
            )
        violations, loss, lo = 0, 0.0, 0
        while lo < len(rows):
            part = slice(lo, lo + self.block)
            block = Block(self.X[rows[part]], rows[part], steps[part], draws[part])
            v, lost = self._take_block(block)
            violations, loss, lo = violations + v, loss + lost, lo + len(block)
        return violations, loss

    @cached_property
    def workspace(self) -> Workspace:
        """Buffers of the superblocks."""
        return make_workspace(self.X.shape[1])

    def visitors(self, threads: int) -> int:
        """How many of the threads visit rows while the others are at the products."""
        share = self.reading / (self.reading + AHEAD_PRODUCTS)
        return max(1, min(round(threads * share), self.most_members, threads))

    def _take_block(self, block: Block) -> tuple[int, float]:
        """Take the steps of a block's rows, or of the first of them; it is cut to those."""
        block.fill_products(self.matrix)
        violations, loss, alpha = self._in_order(block)
        self._update(block, alpha)
        if self.settings.normalize and alpha == 1.0:  # not known from step to step
            self._rescale()
        return violations, loss

    def _visit(  # type: ignore[no-untyped-def]
        self, block: Block, lo: int, hi: int, alpha: float, norm2: float, size: int
    ):
        """Visit rows of a block with a team of so many threads."""
        s, scores = self.settings, np.empty(self.longest, np.float32)
        flags = s.projection.symmetric, s.normalize
        *data, scores, scalars = self._given(scores)
        return run_team(lambda thread: block_step(
            *data, block.rows, block.XB, block.Q, block.G, block.V, block.w, scores, block.steps,
            block.draws, lo, hi, alpha, norm2, scalars, flags, thread,
        ), size)  # fmt: skip

    def _given(self, scores: Array) -> tuple[Any, ...]:
        """What compiled code wants to know of all rows, room for scores, and the settings."""
        s = self.settings
        scalars = RULES[s.rule], s.margin, s.temperature, self.kept_norm
        return self.X, self.rounded, self.hoods.arrays, self.offsets, scores, scalars

    def _in_order(self, block: Block) -> tuple[int, float, float]:
        """Algorithm 1 exactly: strides of rows, each caught up with the ones before it."""
        violations, loss, alpha, norm2 = 0, 0.0, 1.0, 1.0
        if self.settings.normalize:  # what is off by little grows, where steps make M smaller
            norm = float(np.linalg.norm(self.matrix))
            alpha, norm2 = self.kept_norm / max(norm, TINY), norm**2
        size = max(1, min(n_threads(), self.most_members))
        for lo, hi in block.sub_blocks:
            block.apply_corrections(lo, hi, self.settings.projection.symmetric)
            v, lost, alpha, norm2, end = self._visit(block, lo, hi, alpha, norm2, size)
            violations, loss = violations + v, loss + lost
            if end < hi:
                block.truncate(end)
                return violations, loss, 1.0
        return violations, loss, alpha

    def _update(self, block: Block, alpha: float) -> None:
        """``M ← α (M + X_Bᵀ diag(w) V)``, symmetrised if asked, without a D×D temporary."""
        (weighted, V), M = block.steps_taken(), self.matrix
        if not self.settings.projection.symmetric:
            multiply_into(M, weighted, V, scale=alpha, keep=alpha, left_transposed=True)
            return
        multiply_into(M, weighted, V, scale=alpha / 2, keep=alpha, left_transposed=True)
        multiply_into(M, V, weighted, scale=alpha / 2, keep=1, left_transposed=True)

    def project(self) -> None:
        """Restore what the settings promise of M, if it is still a matrix of numbers."""
        if np.isfinite(self.matrix).all():
            self.settings.projection.apply(self.matrix)
            if self.settings.normalize:
                self._rescale()

    def _rescale(self) -> None:
        norm = np.linalg.norm(self.matrix)
        if norm > 0:
            self.matrix *= np.float32(self.kept_norm / norm)
