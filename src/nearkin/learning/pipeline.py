"""Matrix products while rows are visited: some threads visit a block, the others look ahead.

While block B is visited, the others bring M up to date with the block before and multiply it with
the rows of the block to come; those who are through with their visits lend them a hand. What that
product lacks, the steps of B, is added before the block's own visits, like those within a block,

    Q' += (X_B' X_Bᵀ) diag(w) V,

so that every row still sees all steps before its own: Algorithm 1, exactly. A stretch of many
blocks is one call of compiled code, in which threads meet after every block.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearkin.learning.step import walk
from nearkin.native.barrier import Member, meet, meeting_place, share, together
from nearkin.native.gemm import add_product, multiply, pack, unpack
from nearkin.native.intrinsics import TILE_COLUMNS, TILE_ROWS, claim
from nearkin.native.vectors import ask_for, copy, jit

# A multiple of both sides of a tile. Measured: larger blocks mean more corrections a row.
BLOCK = 48

Array = NDArray[np.float32]


class Room(NamedTuple):
    """What a stretch works in. Of what belongs to a block there are as many as are in use at once.

    `panels` are M; `slices` a block's rows, `columns` the same as right factors. `G` and `across`
    are their products with each other and with the rows of the block before. `V` are the directions
    of a block's steps; `took`, `weighted` and `along` its rows that took one, these rows times the
    weights `w`, and the directions, packed. `shares` are the weights of steps in a correction.
    """

    panels: Array
    slices: Array
    columns: Array
    G: Array
    across: Array
    Q: Array
    V: Array
    w: Array
    took: NDArray[np.int64]
    weighted: Array
    along: Array
    shares: Array


def make_room(dims: int) -> Room:
    """Room for stretches of rows of so many dimensions."""
    panels, parts, of_rows = -(-dims // TILE_COLUMNS), BLOCK // TILE_COLUMNS, -(-dims // TILE_ROWS)
    slices, width = BLOCK // TILE_ROWS, panels * TILE_COLUMNS
    shapes = {
        "panels": (panels, of_rows * TILE_ROWS, TILE_COLUMNS),
        "slices": (3, slices, dims, TILE_ROWS),
        "columns": (3, parts, dims, TILE_COLUMNS),
        "G": (2, BLOCK, BLOCK),
        "across": (2, BLOCK, BLOCK),
        "Q": (2, BLOCK, width),
        "V": (BLOCK, width),
        "w": (2, BLOCK),
        "weighted": (2, of_rows, BLOCK, TILE_ROWS),
        "along": (2, panels, BLOCK, TILE_COLUMNS),
        "shares": (slices, BLOCK, TILE_ROWS),
    }
    made = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return Room(took=np.zeros((2, BLOCK + 1), np.int64), **made)


def take_ahead(
    M: Array, room: Room, given: tuple[Any, ...], visits: tuple[Any, ...], threads: int,
    visitors: int,
) -> tuple[int, float]:  # fmt: skip
    """Take the steps of some rows; return the number of violations and the summed loss.

    `given` and `visits` are what `_walk.walk` wants to know of all rows (X, rounded, graph,
    offsets, scores, settings) and of those to visit (rows, steps, draws). `M` is whole at the end.
    """
    pack(M, room.panels)
    claims = np.zeros(-(-len(visits[0]) // BLOCK) + 3, np.int64)
    met = meeting_place(visitors)

    def work(member: Member) -> tuple[int, float]:
        visitor = Member(member.number, min(visitors, member.size), met)
        try:
            return _stretch(room, given, visits, claims, member, visitor)
        except BaseException:
            met[visitor.size] = 1  # nobody waits for us
            raise

    result = together(work, threads)
    unpack(M, room.panels)
    return result


@jit
def _stretch(room, given, visits, claims, member, visitor):  # type: ignore[no-untyped-def]
    """Stage s visits block s, adds the steps of s − 1 to M, and prepares s + 1 and s + 2."""
    blocks = len(claims) - 3
    violations, loss = 0, 0.0
    for stage in range(-2, blocks + 1):
        if 0 <= stage < blocks and visitor.number < visitor.size:
            more, lost = _visit(room, stage, given, visits, visitor)
            violations, loss = violations + more, loss + lost
        _multiply(room, stage, blocks, given[0], visits[0], claims)
        meet(member)
    return violations, loss


@jit
def _visit(room, stage, given, visits, visitor):  # type: ignore[no-untyped-def]
    """Visit a block's rows, once they know of the steps of the block before."""
    X, rounded, graph, offsets, scores, settings = given
    rows, steps, draws = visits
    lo, hi = stage * BLOCK, min((stage + 1) * BLOCK, len(rows))
    now = stage % 2
    if stage > 0:
        _catch_up(room, now, visitor)
    violations, loss, _, _, _ = walk(
        X, rounded, graph, offsets, rows[lo:hi], room.V, room.Q[now], room.G[now], room.V,
        room.w[now], scores, steps[lo:hi], draws[lo:hi], 0, hi - lo, 1.0, 1.0, settings,
        (False, False), visitor,
    )  # fmt: skip
    meet(visitor)
    if visitor.number == 0:
        _keep_steps(room, now, X, rows[lo:hi])
    return violations, loss


@jit
def _catch_up(room, now, visitor):  # type: ignore[no-untyped-def]
    """Add to the block's Q what the steps of the block before changed."""
    across, took, w = room.across[now], room.took[1 - now], room.w[1 - now]
    steps = took[BLOCK]
    first, last = share(visitor, len(room.shares))
    for s in range(first, last):
        for n in range(steps):
            for r in range(TILE_ROWS):
                room.shares[s, n, r] = across[s * TILE_ROWS + r, took[n]] * w[took[n]]
        for p in range(len(room.panels)):
            multiply(room.Q[now], room.shares, room.along[1 - now], s, s + 1, p, steps, True)
    meet(visitor)


@jit
def _keep_steps(room, now, X, rows):  # type: ignore[no-untyped-def]
    """Pack the steps of a block: ``M += weightedᵀ · along``. The last of `took` is their number."""
    took, w, weighted, along = room.took[now], room.w[now], room.weighted[now], room.along[now]
    steps = 0
    for b in range(len(rows)):
        if w[b] != 0:
            took[steps] = b
            _keep_row(X[rows[b]], w[b], weighted, steps)
            for p in range(len(along)):
                copy(along[p, steps], room.V[b, p * TILE_COLUMNS : (p + 1) * TILE_COLUMNS])
            steps += 1
    took[BLOCK] = steps


@jit
def _keep_row(x, scale, slices, k):  # type: ignore[no-untyped-def]
    """Fill place `k` of all slices with a scaled row; the loop over a tile's side is unrolled."""
    for s in range(len(x) // TILE_ROWS):
        for r in range(TILE_ROWS):
            slices[s, k, r] = scale * x[s * TILE_ROWS + r]
    for d in range(len(x) // TILE_ROWS * TILE_ROWS, len(x)):
        slices[-1, k, d % TILE_ROWS] = scale * x[d]


@jit
def _multiply(room, stage, blocks, X, rows, claims):  # type: ignore[no-untyped-def]
    """Do what is left of a stage's products, together with whoever else is at them."""
    panels, slices = len(room.panels), room.slices.shape[1]
    task = claim(claims, stage + 2)
    while task < panels + slices:
        if task < panels:
            _advance(room, stage, blocks, task)
        else:
            _prepare(room, stage, blocks, task - panels, X, rows)
        task = claim(claims, stage + 2)


@jit
def _advance(room, stage, blocks, panel):  # type: ignore[no-untyped-def]
    """Bring a panel of M up to date, and multiply it with the rows to come."""
    before = (stage - 1) % 2
    if stage > 0 and room.took[before, BLOCK] > 0:
        steps = room.took[before, BLOCK]
        add_product(room.panels, room.weighted[before], room.along[before], panel, steps)
    if 0 <= stage + 1 < blocks:
        slices = room.slices[(stage + 1) % 3]
        out = room.Q[(stage + 1) % 2]
        multiply(out, slices, room.panels, 0, len(slices), panel, slices.shape[1], False)


@jit
def _prepare(room, stage, blocks, s, X, rows):  # type: ignore[no-untyped-def]
    """For a slice of rows: products of those to come, and a copy of those after them."""
    coming, depth = stage + 1, room.slices.shape[2]
    if 0 <= coming < blocks:
        slices = room.slices[coming % 3]
        for p in range(room.columns.shape[1]):
            if p * TILE_COLUMNS < (s + 1) * TILE_ROWS:
                own = room.columns[coming % 3]
                multiply(room.G[coming % 2], slices, own, s, s + 1, p, depth, False)
            if stage >= 0:
                others = room.columns[stage % 3]
                multiply(room.across[coming % 2], slices, others, s, s + 1, p, depth, False)
    if stage + 2 < blocks:
        first = (stage + 2) * BLOCK + s * TILE_ROWS
        after = (stage + 2) % 3
        _copy_rows(X, rows[first : first + TILE_ROWS], s, room.slices[after], room.columns[after])


@jit
def _copy_rows(X, rows, s, slices, columns):  # type: ignore[no-untyped-def]
    """Fill a slice, and its columns; where there are fewer rows, the rest is never looked at."""
    for r in range(len(rows)):
        ask_for(X[rows[r]])
    for r in range(len(rows)):
        x = X[rows[r]]
        for d in range(len(x)):
            slices[s, d, r] = x[d]
    panel, first = s * TILE_ROWS // TILE_COLUMNS, s * TILE_ROWS % TILE_COLUMNS
    for d in range(X.shape[1]):
        for r in range(TILE_ROWS):
            columns[panel, d, first + r] = slices[s, d, r]
