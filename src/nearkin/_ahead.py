"""Matrix products while rows are visited: one thread begins to, the others look ahead first.

One thread begins to visit the rows of a block. Meanwhile the others bring M up to date with the
block before and multiply it with the rows of the block to come; then they join in the visits. That
block then lacks the steps of the one in between, which are added like those within a block,

    Q' += (X_B' X_Bᵀ) diag(w) V,

so that every row still sees all steps before its own: Algorithm 1, exactly.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nearkin._blas import multiply_into
from nearkin._block import Block
from nearkin._threads import meanwhile

PANEL = 256  # columns of M a task; its part of M stays in the cache from update to product

Array = NDArray[np.float32]
Steps = tuple[Array, Array]  # rows times the weights of their steps, and the directions
Visit = Callable[[Block, Callable[[], int]], tuple[int, float, float]]


def take_ahead(M: Array, blocks: Iterator[Block], visit: Visit) -> tuple[int, float]:
    """Visit the blocks in order; return the violations and the loss. `M` is whole at the end.

    A visit is given the block and a function that tells how many threads are free to make it.
    """
    violations, loss = 0, 0.0
    block, coming = next(blocks, None), next(blocks, None)
    steps: Steps | None = None  # of the block before
    if block is not None:
        multiply_into(block.Q, block.XB, M)
        block.fill_products()
    while block is not None:
        visited = partial(_visited, block, blocks, visit)
        (v, lost, _), after, taken = meanwhile(visited, _tasks(M, steps, block, coming))
        violations, loss = violations + v, loss + lost
        steps, block, coming = taken, coming, after
    if steps is not None:
        multiply_into(M, *steps, keep=1, left_transposed=True)
    return violations, loss


def _visited(
    block: Block, blocks: Iterator[Block], visit: Visit, threads: Callable[[], int]
) -> tuple[tuple[int, float, float], Block | None, Steps]:
    """Visit a block, and prepare what can be while others are at their products."""
    result = visit(block, threads)
    block.forget()
    return result, next(blocks, None), block.stepped()


def _tasks(
    M: Array, steps: Steps | None, block: Block, coming: Block | None
) -> list[Callable[[], object]]:
    """The products that can be done while a block is being visited."""

    def panel(lo: int) -> None:
        part = M[:, lo : lo + PANEL]
        if steps is not None:
            weighted, V = steps
            multiply_into(part, weighted, V[:, lo : lo + PANEL], keep=1, left_transposed=True)
        if coming is not None:
            multiply_into(coming.Q[:, lo : lo + PANEL], coming.XB, part)

    tasks: list[Callable[[], object]] = [partial(panel, lo) for lo in range(0, len(M), PANEL)]
    if coming is not None:
        tasks += [coming.fill_products, partial(coming.follow, block)]
    return tasks
