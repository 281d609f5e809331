"""Algorithm 1, epoch by epoch: blocks of rows, three matrix products and one compiled pass each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.averaging import ITERATES_AN_EPOCH, MIN_BLOCKS, IterateMean
from nearkin.learning.blocks import BLOCK, Block
from nearkin.learning.constraints import Constraint, rescale
from nearkin.learning.sampling import SamplingRule
from nearkin.learning.state import Progress
from nearkin.learning.step import block_step
from nearkin.learning.step_size import step_sizes
from nearkin.learning.superblocks import BLOCK as PIPELINE_BLOCK
from nearkin.learning.superblocks import Workspace, make_workspace, run_superblock
from nearkin.native.barrier import run_team
from nearkin.native.blas import multiply_into
from nearkin.native.quantize import no_quantized_rows, quantize_rows
from nearkin.native.threads import n_threads
from nearkin.native.vectors import read_only
from nearkin.neighborhoods import Neighborhoods
from nearkin.neighbors.kmeans import cells_of
from nearkin.validation.arrays import TINY

if TYPE_CHECKING:
    from nearkin.learning.execution import Order

# The products of the pipelined driver take one thread about as long as reading half of D² bytes of
# neighbours. After a superblock, of fewer blocks where their products would take seconds, M is
# complete again.
PIPELINE_PRODUCTS, SUPERBLOCK, SUPERBLOCK_SIZE = 0.5, 128, 1e9
# Neighbours, and numbers, that one more thread must have to itself; with fewer, waiting at barriers
# costs more than it saves.
NEIGHBORS_A_THREAD, NUMBERS_A_THREAD = 100, 20_000

Array = NDArray[np.float32]


def superblock_blocks(dims: int) -> int:
    """Blocks of a superblock."""
    return max(8, min(SUPERBLOCK, int(SUPERBLOCK_SIZE / dims**2)))


@dataclass(frozen=True)
class Hyperparameters:
    """What one run of Algorithm 1 needs to know, in the units of the data."""

    rule: SamplingRule
    step_size: float
    constraint: Constraint
    order: "Order"
    quantize: bool
    average: bool
    seed: int


@dataclass
class Trainer:
    """M and the counter t of Algorithm 1; `epoch` advances both.

    `taken` is t − 1, the visits so far; left out, every epoch so far visited every row. `visits`
    are the rows that an epoch visits, if not all, and `weights` of rows scale their steps.
    `between` is called where M is complete: after each block, or each superblock.
    """

    X: Array
    hoods: Neighborhoods
    settings: Hyperparameters
    matrix: Array
    epochs: int = 0
    offsets: Array = field(default_factory=lambda: np.empty(0, np.float32))
    taken: int | None = None
    visits: NDArray[np.int64] | None = None
    progress: Progress = field(default_factory=Progress)
    mean: IterateMean = field(default_factory=IterateMean)
    weights: Array | None = None
    between: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        s, D = self.settings, self.X.shape[1]
        self.X = read_only(self.X)
        if self.hoods.offsets is not None:
            # Writable as those of joint refinement, so that both share one compiled version.
            self.offsets = np.require(self.hoods.offsets, requirements=["W", "E"])
        self.quantized = quantize_rows(self.X) if s.quantize else no_quantized_rows()
        self.initial_norm = float(np.linalg.norm(self.matrix))
        self.longest = int(self.hoods.degrees.max(initial=0))
        edges = self.hoods.degrees[self.hoods.usable]
        degree = float(edges.mean()) if len(edges) else 0.0
        self.max_threads = int(min(degree / NEIGHBORS_A_THREAD, degree * D / NUMBERS_A_THREAD))
        self.reading = degree * (1 if s.quantize else 4) / D
        # 1.1 to 2.4 times as fast as block by block (benchmarks/drivers.py), but it cannot project.
        self.pipelined = not s.constraint.per_step
        block = min(BLOCK, len(self.X))
        self.superblock = PIPELINE_BLOCK * superblock_blocks(D) if self.pipelined else block
        if s.average:
            blocks = len(self.X) // (PIPELINE_BLOCK * ITERATES_AN_EPOCH)
            self.superblock = min(self.superblock, PIPELINE_BLOCK * max(MIN_BLOCKS, blocks))

    @property
    def learned(self) -> Array:
        """The result so far: the last iterate, or their mean."""
        return self.matrix if self.mean.matrix is None else self.mean.matrix

    def epoch(self) -> tuple[float, float]:
        """Visit every usable row once; return the share that violated and the mean loss."""
        rows, steps, draws = self.schedule()
        at = self.progress
        while at.row < len(rows):
            part = slice(at.row, at.row + self.superblock)
            v, lost = self.take(rows[part], steps[part], draws[part])
            at.row, at.violations, at.loss = part.stop, at.violations + v, at.loss + lost
            at.since += self.superblock
            if self.settings.constraint.due(at.since, self.X.shape[1]):
                self.project(self.matrix)
                at.since = 0
            if self.settings.average:
                self.mean.add(self.matrix)
            self.between()
        self.project(self.matrix)
        if self.mean.matrix is not None:  # of matrices of low rank, or of one norm, it has neither
            self.project(self.mean.matrix)
        self.taken = self.t0 + self.n_visits if self.taken is not None else None
        self.epochs += 1
        self.progress = Progress()
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
        """The k-means cell of each row."""
        return cells_of(self.X) if self.hoods.cells is None else self.hoods.cells

    def schedule(self) -> tuple[NDArray[np.int64], Array, NDArray[np.float64]]:
        """Order of the epoch's rows, their step sizes and random numbers.

        Each epoch has a generator of its own, so that epoch e can be repeated without the others.
        """
        n, s = self.n_visits, self.settings
        rng = np.random.default_rng([s.seed, self.epochs])
        visits = np.arange(n) if self.visits is None else self.visits
        order = visits if s.order == "given" else rng.permutation(visits)
        if s.order == "local":  # cells in random order, rows in random order within
            rank = rng.permutation(int(self.cells.max()) + 1)
            order = order[np.argsort(rank[self.cells[order]], kind="stable")]
        t = np.arange(1, n + 1) + self.t0  # counts every row, also skipped ones
        steps = step_sizes(s.step_size, t, len(self.X))
        if self.weights is not None:
            steps *= self.weights[order]
        draws = rng.random(n) if s.rule.random else np.zeros(n)
        usable = self.hoods.usable[order]
        return order[usable], steps[usable], draws[usable]

    def take(
        self, rows: NDArray[np.int64], steps: Array, draws: NDArray[np.float64]
    ) -> tuple[int, float]:
        """Take the steps of some rows; return the number of violations and the summed loss."""
        if self.pipelined:
            given = self._kernel_inputs(np.empty(self.longest, np.float32))
            visits, threads = (rows, steps, draws), n_threads()
            return run_superblock(
                self.matrix, self.workspace, given, visits, threads, self.visitors(threads)
            )
        violations, loss, lo = 0, 0.0, 0
        while lo < len(rows):
            part = slice(lo, lo + BLOCK)
            block = Block(self.X[rows[part]], rows[part], steps[part], draws[part])
            v, lost = self._take_block(block)
            violations, loss, lo = violations + v, loss + lost, lo + len(block)
        return violations, loss

    @cached_property
    def workspace(self) -> Workspace:
        """Buffers of the pipelined driver."""
        return make_workspace(self.X.shape[1])

    def visitors(self, threads: int) -> int:
        """How many of the threads visit rows while the others compute the products."""
        share = self.reading / (self.reading + PIPELINE_PRODUCTS)
        return max(1, min(round(threads * share), self.max_threads, threads))

    def _take_block(self, block: Block) -> tuple[int, float]:
        """Take the steps of a block's rows, or of the first of them; it is truncated to those."""
        block.fill_products(self.matrix)
        violations, loss, alpha = self._in_order(block)
        self._update(block, alpha)
        if self.settings.constraint.normalize and alpha == 1.0:  # not known from step to step
            rescale(self.matrix, self.initial_norm)
        return violations, loss

    def _visit(  # type: ignore[no-untyped-def]
        self, block: Block, lo: int, hi: int, alpha: float, norm2: float, size: int
    ):
        """Visit rows of a block with a team of so many threads."""
        scores = np.empty(self.longest, np.float32)
        flags = self.settings.constraint.is_symmetric, self.settings.constraint.normalize
        *data, scores, scalars = self._kernel_inputs(scores)
        return run_team(lambda thread: block_step(
            *data, block.rows, block.XB, block.Q, block.G, block.V, block.w, scores, block.steps,
            block.draws, lo, hi, alpha, norm2, scalars, flags, thread,
        ), size)  # fmt: skip

    def _kernel_inputs(self, scores: Array) -> tuple[Any, ...]:
        """All rows and their graph, the buffer for scores, and the scalars of the rule."""
        rule = self.settings.rule
        scalars = rule.function(), rule.parameter, self.initial_norm
        return self.X, self.quantized, self.hoods.arrays, self.offsets, scores, scalars

    def _in_order(self, block: Block) -> tuple[int, float, float]:
        """Algorithm 1 exactly: sub-blocks of rows, each corrected by the steps before it."""
        violations, loss, alpha, norm2 = 0, 0.0, 1.0, 1.0
        constraint = self.settings.constraint
        if constraint.normalize:  # a small error grows, where steps make M smaller
            norm = float(np.linalg.norm(self.matrix))
            alpha, norm2 = self.initial_norm / max(norm, TINY), norm**2
        size = max(1, min(n_threads(), self.max_threads))
        for lo, hi in block.sub_blocks:
            block.apply_corrections(lo, hi, constraint.is_symmetric)
            v, lost, alpha, norm2, end = self._visit(block, lo, hi, alpha, norm2, size)
            violations, loss = violations + v, loss + lost
            if end < hi:
                block.truncate(end)
                return violations, loss, 1.0
        return violations, loss, alpha

    def _update(self, block: Block, alpha: float) -> None:
        """``M ← α (M + X_Bᵀ diag(w) V)``, symmetrised if asked, without a D×D temporary."""
        (weighted, V), M = block.steps_taken(), self.matrix
        if not self.settings.constraint.is_symmetric:
            multiply_into(M, weighted, V, scale=alpha, keep=alpha, left_transposed=True)
            return
        multiply_into(M, weighted, V, scale=alpha / 2, keep=alpha, left_transposed=True)
        multiply_into(M, V, weighted, scale=alpha / 2, keep=1, left_transposed=True)

    def project(self, matrix: Array) -> None:
        """Restore what the constraint promises of a matrix, if it is still finite."""
        self.settings.constraint.restore(matrix, self.initial_norm)
