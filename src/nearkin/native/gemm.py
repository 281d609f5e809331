"""Matrix products of packed factors, computed in register tiles.

BLAS packs both factors in every call. Here a matrix is packed once and multiplied often: M stays
packed while thousands of rows take their steps.

* row slices, the left factor: ``slices[s, k, r] = A[s·TILE_ROWS + r, k]``;
* column panels, the right factor: ``panels[p, k, c] = B[k, p·TILE_COLUMNS + c]``.

The last slice or panel is padded with zeros.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearkin.native.intrinsics import INT64, call_llvm, splat
from nearkin.native.jit import target_features
from nearkin.native.vectors import jit, prefetch_row


def _tile_shape(features: frozenset[str]) -> tuple[int, int, int]:
    """Lanes of a vector, rows and vectors of a tile, so that its sums fill most registers."""
    if "avx512f" in features:
        return 16, 8, 3
    return (8, 4, 3) if "avx" in features else (4, 6, 3)


_LANES, TILE_ROWS, _VECTORS = _tile_shape(target_features())
TILE_COLUMNS = _LANES * _VECTORS


@jit
def multiply(out, slices, panels, first, last, panel, depth, keep):  # type: ignore[no-untyped-def]
    """Compute one panel of columns of a product, in the rows of the slices ``first:last``.

    Only the first `depth` entries of slices and panels are used. Rows of `out` span whole panels.
    With `keep`, the product is added to `out`.
    """
    stride, slice_size = out.shape[1], slices.shape[1] * TILE_ROWS
    from_panel = panel * panels.shape[1] * TILE_COLUMNS
    for s in range(first, last):
        at = s * TILE_ROWS * stride + panel * TILE_COLUMNS
        multiply_tile(out, at, stride, slices, s * slice_size, panels, from_panel, depth, keep)


@jit
def add_product(sums, slices, panels, panel, depth):  # type: ignore[no-untyped-def]
    """Add a product to one panel of a matrix that is itself packed in panels."""
    at, slice_size = panel * sums.shape[1] * TILE_COLUMNS, slices.shape[1] * TILE_ROWS
    from_panel = panel * panels.shape[1] * TILE_COLUMNS
    for s in range(len(slices)):
        multiply_tile(
            sums, at, TILE_COLUMNS, slices, s * slice_size, panels, from_panel, depth, True
        )
        at += TILE_ROWS * TILE_COLUMNS


@jit
def pack(M, panels):  # type: ignore[no-untyped-def]
    """Copy a matrix into zeroed `panels`."""
    for p in range(len(panels)):
        lo, hi = p * TILE_COLUMNS, min((p + 1) * TILE_COLUMNS, M.shape[1])
        for k in range(len(M)):
            for c in range(lo, hi):
                panels[p, k, c - lo] = M[k, c]


@jit
def unpack(M, panels):  # type: ignore[no-untyped-def]
    """Copy `panels` back into a matrix."""
    for p in range(len(panels)):
        lo, hi = p * TILE_COLUMNS, min((p + 1) * TILE_COLUMNS, M.shape[1])
        for k in range(len(M)):
            for c in range(lo, hi):
                M[k, c] = panels[p, k, c - lo]


@jit
def pack_rows(X, rows, s, slices, panels):  # type: ignore[no-untyped-def]
    """Pack the listed rows of X, at most TILE_ROWS, as slice `s` and as columns of `panels`.

    Of a slice with fewer rows, the rest keeps whatever was there.
    """
    for r in range(len(rows)):
        prefetch_row(X[rows[r]])
    for r in range(len(rows)):
        x = X[rows[r]]
        for d in range(len(x)):
            slices[s, d, r] = x[d]
    panel, first = s * TILE_ROWS // TILE_COLUMNS, s * TILE_ROWS % TILE_COLUMNS
    for d in range(X.shape[1]):
        for r in range(TILE_ROWS):
            panels[panel, d, first + r] = slices[s, d, r]


@intrinsic
def multiply_tile(
    _: Any, out: Any, at: Any, stride: Any, a: Any, from_a: Any, b: Any, from_b: Any, depth: Any,
    keep: Any,
) -> Any:  # fmt: skip
    """One register tile of a product: ``out[r, c] (+)= Σ_k a[k, r]·b[k, c]``.

    Arrays are contiguous, of any shape. The tile starts at element `at` of `out`, whose rows are
    `stride` elements apart; `a` and `b` are packed, TILE_ROWS and TILE_COLUMNS elements for each k.
    With `keep`, the product is added to what is there.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def start(array: Any, place: int) -> Any:
            data = context.make_array(array)(context, builder, arguments[place]).data
            return builder.gep(data, [arguments[place + 1]])

        first, left, right = start(out, 0), start(a, 3), start(b, 5)
        vector = ir.VectorType(ir.FloatType(), _LANES)

        def address(row: Any, n: int) -> Any:
            return builder.bitcast(builder.gep(row, [INT64(n * _LANES)]), vector.as_pointer())

        rows = [builder.gep(first, [builder.mul(arguments[2], INT64(r))]) for r in range(TILE_ROWS)]
        places = [address(row, n) for row in rows for n in range(_VECTORS)]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, None)) for _ in places]
        with builder.if_then(arguments[8]):
            for total, place in zip(sums, places):
                builder.store(builder.load(place, align=4), total)
        with cgutils.for_range_slice(builder, INT64(0), arguments[7], INT64(1), inc=True) as (k, _):
            row = builder.gep(right, [builder.mul(k, INT64(TILE_COLUMNS))])
            columns = [builder.load(address(row, n), align=4) for n in range(_VECTORS)]
            column = builder.gep(left, [builder.mul(k, INT64(TILE_ROWS))])
            for r in range(TILE_ROWS):  # load a factor just before its use, to spare registers
                scale = splat(builder, builder.load(builder.gep(column, [INT64(r)])), _LANES)
                for n in range(_VECTORS):
                    total = sums[r * _VECTORS + n]
                    terms = scale, columns[n], builder.load(total)
                    name = f"llvm.fmuladd.v{_LANES}f32"
                    builder.store(call_llvm(builder, name, vector, *terms), total)
        for total, place in zip(sums, places):
            builder.store(builder.load(total), place, align=4)
        return context.get_dummy_value()

    index = types.int64
    kinds = out, index, index, a, index, b, index, index, types.boolean
    return types.void(*kinds), generate
