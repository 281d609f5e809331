"""Matrices packed so that their products are made in registers, tile by tile.

BLAS packs both factors of a product in every call. Here a matrix is packed once and multiplied
often: M stays packed while thousands of rows take their steps.

* `slices`, the left factor: ``slices[s, k, r] = A[s·TILE_ROWS + r, k]``.
* `panels`, the right factor: ``panels[p, k, c] = B[k, p·TILE_COLUMNS + c]``.

What is left of the last slice or panel is zero.
"""

from nearkin.native.intrinsics import TILE_COLUMNS, TILE_ROWS, tile
from nearkin.native.vectors import jit


@jit
def multiply(out, slices, panels, first, last, panel, depth, keep):  # type: ignore[no-untyped-def]
    """Fill, or add to, the panel's columns of ``out``, in the rows of the slices ``first:last``.

    Of slices and panels, `depth` numbers are used. Rows of `out` are as long as whole panels.
    """
    stride, of_slice = out.shape[1], slices.shape[1] * TILE_ROWS
    from_panel = panel * panels.shape[1] * TILE_COLUMNS
    for s in range(first, last):
        at = s * TILE_ROWS * stride + panel * TILE_COLUMNS
        tile(out, at, stride, slices, s * of_slice, panels, from_panel, depth, keep)


@jit
def add_product(sums, slices, panels, panel, depth):  # type: ignore[no-untyped-def]
    """Add a product to one panel of a matrix that is itself packed in panels."""
    at, of_slice = panel * sums.shape[1] * TILE_COLUMNS, slices.shape[1] * TILE_ROWS
    from_panel = panel * panels.shape[1] * TILE_COLUMNS
    for s in range(len(slices)):
        tile(sums, at, TILE_COLUMNS, slices, s * of_slice, panels, from_panel, depth, True)
        at += TILE_ROWS * TILE_COLUMNS


@jit
def pack(M, panels):  # type: ignore[no-untyped-def]
    """Fill `panels`, which are zero where they are larger, with a matrix."""
    for p in range(len(panels)):
        lo, hi = p * TILE_COLUMNS, min((p + 1) * TILE_COLUMNS, M.shape[1])
        for k in range(len(M)):
            for c in range(lo, hi):
                panels[p, k, c - lo] = M[k, c]


@jit
def unpack(M, panels):  # type: ignore[no-untyped-def]
    """Fill a matrix with what is in `panels`."""
    for p in range(len(panels)):
        lo, hi = p * TILE_COLUMNS, min((p + 1) * TILE_COLUMNS, M.shape[1])
        for k in range(len(M)):
            for c in range(lo, hi):
                M[k, c] = panels[p, k, c - lo]
