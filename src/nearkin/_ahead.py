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
Visit = Callable[[Block, Callable[[], int]], tuple[int, float, float]]


def take_ahead(M: Array, blocks: Iterator[Block], visit: Visit) -> tuple[int, float]:
    """Visit the blocks in order; return the violations and the loss. `M` is whole at the end.

    A visit is given the block and a function that tells how many threads are free to make it.
    """
    violations, loss = 0, 0.0
    before, block = None, next(blocks, None)
    if block is not None:
        multiply_into(block.Q, block.XB, M)
        block.fill_products()
    while block is not None:
        coming = next(blocks, None)
        tasks = _tasks(M, before, coming)
        if coming is not None:
            across = np.empty((len(coming), len(block)), np.float32)
            tasks.append(partial(coming.products_with, block, across))
        v, lost, _ = meanwhile(partial(visit, block), tasks)
        violations, loss = violations + v, loss + lost
        if coming is not None:
            block.add_steps(coming, across)
        before, block = block, coming
    if before is not None:
        multiply_into(M, *before.stepped(), keep=1, left_transposed=True)
    return violations, loss


def _tasks(M: Array, before: Block | None, coming: Block | None) -> list[Callable[[], object]]:
    """The products that can be done while the block between the two is being visited."""
    weighted, V = before.stepped() if before is not None else (None, None)

    def panel(lo: int) -> None:
        part = M[:, lo : lo + PANEL]
        if weighted is not None and V is not None:
            multiply_into(part, weighted, V[:, lo : lo + PANEL], keep=1, left_transposed=True)
        if coming is not None:
            multiply_into(coming.Q[:, lo : lo + PANEL], coming.XB, part)

    tasks: list[Callable[[], object]] = [partial(panel, lo) for lo in range(0, len(M), PANEL)]
    if coming is not None:
        tasks.append(coming.fill_products)
    return tasks
