"""Superblocks: matrix products of the next block while the rows of the present one are visited.

While some threads visit the rows of block B, the others add the steps of the block before to M and
multiply it with the rows of the block after; threads that finish their visits join them. That
product lacks the steps of B, which are added as a correction before the block's own visits,

    Q' += (X_B' X_Bᵀ) diag(w) V,

so that every row still sees all steps before its own: Algorithm 1, exactly. A superblock of many
blocks is one call of compiled code, with a barrier after every block.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.step import block_step
from nearkin.native.barrier import (
    TeamThread,
    abort_barrier,
    barrier_state,
    barrier_wait,
    run_team,
    thread_range,
)
from nearkin.native.gemm import (
    TILE_COLUMNS,
    TILE_ROWS,
    add_product,
    multiply,
    pack,
    pack_rows,
    unpack,
)
from nearkin.native.intrinsics import fetch_add
from nearkin.native.vectors import copy, jit

# A multiple of both sides of a tile. Measured: larger blocks need more corrections per row.
BLOCK = 48

Array = NDArray[np.float32]


class Workspace(NamedTuple):
    """Buffers of a superblock; a leading axis of 2 or 3 is for the blocks in use at once.

    Attributes
    ----------
    M_panels : M, packed
    slices, columns : a block's rows, packed as left and as right factor
    G, cross : their products with each other, and with the rows of the block before
    Q, V, w : products with M, directions and weights of the steps (see `blocks.Block`)
    stepped : positions of the rows that took a step; the last entry is their number
    weighted, directions : these rows times `w`, and their rows of `V`, packed
    coefficients : of the steps in a correction, packed
    """

    M_panels: Array
    slices: Array
    columns: Array
    G: Array
    cross: Array
    Q: Array
    V: Array
    w: Array
    stepped: NDArray[np.int64]
    weighted: Array
    directions: Array
    coefficients: Array


def make_workspace(dims: int) -> Workspace:
    """Allocate the workspace for rows of `dims` columns."""
    panels, row_slices = -(-dims // TILE_COLUMNS), -(-dims // TILE_ROWS)
    slices, width = BLOCK // TILE_ROWS, panels * TILE_COLUMNS
    shapes = {
        "M_panels": (panels, row_slices * TILE_ROWS, TILE_COLUMNS),
        "slices": (3, slices, dims, TILE_ROWS),
        "columns": (3, BLOCK // TILE_COLUMNS, dims, TILE_COLUMNS),
        "G": (2, BLOCK, BLOCK),
        "cross": (2, BLOCK, BLOCK),
        "Q": (2, BLOCK, width),
        "V": (BLOCK, width),
        "w": (2, BLOCK),
        "weighted": (2, row_slices, BLOCK, TILE_ROWS),
        "directions": (2, panels, BLOCK, TILE_COLUMNS),
        "coefficients": (slices, BLOCK, TILE_ROWS),
    }
    buffers = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return Workspace(stepped=np.zeros((2, BLOCK + 1), np.int64), **buffers)


def run_superblock(
    M: Array, space: Workspace, data: tuple[Any, ...], visits: tuple[Any, ...], threads: int,
    visitors: int,
) -> tuple[int, float]:  # fmt: skip
    """Take the steps of some rows; return the number of violations and the summed loss.

    Parameters
    ----------
    M : updated in place
    data : (X, quantized, graph, offsets, scores, settings), see `step.block_step`
    visits : (rows, steps, draws) of the rows to visit
    threads, visitors : size of the team, and how many of it visit rows
    """
    pack(M, space.M_panels)
    tasks = np.zeros(-(-len(visits[0]) // BLOCK) + 3, np.int64)
    arrivals = barrier_state(visitors)

    def work(thread: TeamThread) -> tuple[int, float]:
        visitor = TeamThread(thread.id, min(visitors, thread.size), arrivals)
        try:
            return _run_stages(space, data, visits, tasks, thread, visitor)
        except BaseException:
            abort_barrier(visitor)
            raise

    result = run_team(work, threads)
    unpack(M, space.M_panels)
    return result


@jit
def _run_stages(space, data, visits, tasks, thread, visitor):  # type: ignore[no-untyped-def]
    """Stage s visits block s, adds the steps of s − 1 to M, and prepares s + 1 and s + 2."""
    blocks = len(tasks) - 3
    violations, loss = 0, 0.0
    for stage in range(-2, blocks + 1):
        if 0 <= stage < blocks and visitor.id < visitor.size:
            more, lost = _visit(space, stage, data, visits, visitor)
            violations, loss = violations + more, loss + lost
        _multiply(space, stage, blocks, data[0], visits[0], tasks)
        barrier_wait(thread)
    return violations, loss


@jit
def _visit(space, stage, data, visits, visitor):  # type: ignore[no-untyped-def]
    """Visit the rows of a block, after the corrections for the block before."""
    X, quantized, graph, offsets, scores, settings = data
    rows, steps, draws = visits
    lo, hi = stage * BLOCK, min((stage + 1) * BLOCK, len(rows))
    now = stage % 2
    if stage > 0:
        _apply_corrections(space, now, visitor)
    violations, loss, _, _, _ = block_step(
        X, quantized, graph, offsets, rows[lo:hi], space.V, space.Q[now], space.G[now], space.V,
        space.w[now], scores, steps[lo:hi], draws[lo:hi], 0, hi - lo, 1.0, 1.0, settings,
        (False, False), visitor,
    )  # fmt: skip
    barrier_wait(visitor)
    if visitor.id == 0:
        _pack_steps(space, now, X, rows[lo:hi])
    return violations, loss


@jit
def _apply_corrections(space, now, visitor):  # type: ignore[no-untyped-def]
    """Add the steps of the block before to the block's Q."""
    cross, stepped, w = space.cross[now], space.stepped[1 - now], space.w[1 - now]
    steps = stepped[BLOCK]
    first, last = thread_range(visitor, len(space.coefficients))
    for s in range(first, last):
        for n in range(steps):
            for r in range(TILE_ROWS):
                value = cross[s * TILE_ROWS + r, stepped[n]] * w[stepped[n]]
                space.coefficients[s, n, r] = value
        for p in range(len(space.M_panels)):
            directions = space.directions[1 - now]
            multiply(space.Q[now], space.coefficients, directions, s, s + 1, p, steps, True)
    barrier_wait(visitor)


@jit
def _pack_steps(space, now, X, rows):  # type: ignore[no-untyped-def]
    """Pack the steps of a block: ``M += weightedᵀ · directions``."""
    stepped, w = space.stepped[now], space.w[now]
    weighted, directions = space.weighted[now], space.directions[now]
    steps = 0
    for b in range(len(rows)):
        if w[b] != 0:
            stepped[steps] = b
            _pack_scaled(X[rows[b]], w[b], weighted, steps)
            for p in range(len(directions)):
                copy(directions[p, steps], space.V[b, p * TILE_COLUMNS : (p + 1) * TILE_COLUMNS])
            steps += 1
    stepped[BLOCK] = steps


@jit
def _pack_scaled(x, scale, slices, k):  # type: ignore[no-untyped-def]
    """Pack a scaled row as entry `k` of all slices; the loop over a tile's rows is unrolled."""
    for s in range(len(x) // TILE_ROWS):
        for r in range(TILE_ROWS):
            slices[s, k, r] = scale * x[s * TILE_ROWS + r]
    for d in range(len(x) // TILE_ROWS * TILE_ROWS, len(x)):
        slices[-1, k, d % TILE_ROWS] = scale * x[d]


@jit
def _multiply(space, stage, blocks, X, rows, tasks):  # type: ignore[no-untyped-def]
    """Compute the stage's products; threads take tasks from a shared counter."""
    panels, slices = len(space.M_panels), space.slices.shape[1]
    task = fetch_add(tasks, stage + 2)
    while task < panels + slices:
        if task < panels:
            _update_panel(space, stage, blocks, task)
        else:
            _prepare_slice(space, stage, blocks, task - panels, X, rows)
        task = fetch_add(tasks, stage + 2)


@jit
def _update_panel(space, stage, blocks, panel):  # type: ignore[no-untyped-def]
    """Add the last block's steps to a panel of M, and multiply it with the next block's rows."""
    before = (stage - 1) % 2
    if stage > 0 and space.stepped[before, BLOCK] > 0:
        steps = space.stepped[before, BLOCK]
        add_product(space.M_panels, space.weighted[before], space.directions[before], panel, steps)
    if 0 <= stage + 1 < blocks:
        slices = space.slices[(stage + 1) % 3]
        out = space.Q[(stage + 1) % 2]
        multiply(out, slices, space.M_panels, 0, len(slices), panel, slices.shape[1], False)


@jit
def _prepare_slice(space, stage, blocks, s, X, rows):  # type: ignore[no-untyped-def]
    """For a slice of rows: G and cross products of the next block; pack the block after it."""
    coming, depth = stage + 1, space.slices.shape[2]
    if 0 <= coming < blocks:
        slices = space.slices[coming % 3]
        for p in range(space.columns.shape[1]):
            if p * TILE_COLUMNS < (s + 1) * TILE_ROWS:
                own = space.columns[coming % 3]
                multiply(space.G[coming % 2], slices, own, s, s + 1, p, depth, False)
            if stage >= 0:
                others = space.columns[stage % 3]
                multiply(space.cross[coming % 2], slices, others, s, s + 1, p, depth, False)
    if stage + 2 < blocks:
        first = (stage + 2) * BLOCK + s * TILE_ROWS
        after = (stage + 2) % 3
        pack_rows(X, rows[first : first + TILE_ROWS], s, space.slices[after], space.columns[after])
