"""Products and sums of rows, and rows that are asked for before they are read; compiled.

Compiling takes seconds, once on every machine. Two habits keep them few: arrays that are only read
come as `read_only`, so that a map and an array need one version of the code; and parts of arrays
are copied by `copy`, since ``a[:] = b`` brings the text of its error along, which takes two seconds
for itself.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nearkin.native.intrinsics import prefetch
from nearkin.native.jit import compiled

T = TypeVar("T", bound=np.generic)

EARLY = 4_000  # bytes that are on their way while a row is read; measured for rows of 128 to 4,000
CACHE = 8 << 20  # bytes; fewer are at hand without asking

# Reassociation lets dot products vectorise; NaN and infinity must stay what they are.
# Division by zero gives infinity, as in numpy: a run that diverges is told of after its epoch.
jit = compiled(fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy")


def read_only(array: NDArray[T]) -> NDArray[T]:
    """The same numbers, a plain array that cannot be written to."""
    view = np.asarray(array)[:]
    view.flags.writeable = False
    return view


@jit
def dot(a, b):  # type: ignore[no-untyped-def]
    """Inner product in float32, in whatever order vectorises."""
    total = np.float32(0)
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@jit
def add_scaled(out, scale, row):  # type: ignore[no-untyped-def]
    """``out += scale · row``."""
    for d in range(len(out)):
        out[d] += scale * row[d]


@jit
def copy(out, row):  # type: ignore[no-untyped-def]
    """``out[:] = row``."""
    for d in range(len(out)):
        out[d] = row[d]


@jit
def ask_for(row):  # type: ignore[no-untyped-def]
    """Have a row on its way to the cache while the ones before it are being read."""
    for byte in range(0, len(row) * row.itemsize, 64):
        prefetch(row, byte)


@jit
def early(X):  # type: ignore[no-untyped-def]
    """How many rows to ask for before they are read; none where all are at hand."""
    if X.size * X.itemsize <= CACHE:
        return 0
    return EARLY // max(1, X.shape[1] * X.itemsize) + 1
