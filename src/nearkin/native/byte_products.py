"""Products of bytes in register tiles, tested against limits before they leave the registers.

A tile is TILE_QUERIES queries by PANEL_ROWS rows. Four bytes of a row are multiplied with four of a
query and added in one instruction where the processor has it (VNNI), in two where it has AVX2, and
in plain arithmetic elsewhere. Sums of integers are exact, so that all paths agree.

* rows: unsigned, ``panels[p, 4·PANEL_ROWS·(d // 4) + 4·r + d % 4]``, between 0 and 127, since two
  products must fit 16 bits where AVX2 adds them;
* queries: signed, four bytes in an integer of 32 bits, ``codes[g // GROUPS, q, g % GROUPS]``
  of g = d // 4, so that a query's bytes lie together, and queries a fixed number of bytes apart.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearkin.native.intrinsics import BYTE, INT32, INT64, call_llvm, splat, sum_lanes
from nearkin.native.jit import target_features

PANEL_ROWS, GROUPS = 16, 64
MAX_BYTES = 1 << 16  # of a row: sums of products fit 32 bits
_FEATURES = target_features()
TILE_QUERIES = 24 if "avx512f" in _FEATURES else 6  # their sums fill most registers
_WIDTHS = [TILE_QUERIES // 3, 2 * TILE_QUERIES // 3, TILE_QUERIES]  # the last of a cell are few

_FLOAT, _INT16 = ir.FloatType(), ir.IntType(16)
_SUMS = ir.VectorType(INT32, PANEL_ROWS)
_VALUES = ir.VectorType(_FLOAT, PANEL_ROWS)


@intrinsic
def compare_tile(
    _: Any, panels: Any, panel: Any, codes: Any, depth: Any, count: Any, start: Any, units: Any,
    limits: Any, offsets: Any, values: Any, masks: Any,
) -> Any:  # fmt: skip
    """``values[q, r] = offsets[r] − units[q]·(start[q] + Σ_d codes[q, d]·panels[p, d, r])``.

    Of the first `count` queries, and some of those after them. Bit r of ``masks[q]`` tells whether
    the value is up to ``limits[q]``. Arrays are contiguous; `depth` is the number of groups of four
    bytes, and `offsets` has PANEL_ROWS for each panel.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(kind: Any, place: int) -> Any:
            return context.make_array(kind)(context, builder, arguments[place]).data

        panel_bytes = builder.mul(arguments[3], INT64(4 * PANEL_ROWS))
        rows = builder.gep(data(panels, 0), [builder.mul(arguments[1], panel_bytes)])
        queries = builder.bitcast(data(codes, 2), BYTE.as_pointer())
        first, scales, most = data(start, 5), data(units, 6), data(limits, 7)
        shift = builder.gep(data(offsets, 8), [builder.mul(arguments[1], INT64(PANEL_ROWS))])
        out, found = data(values, 9), data(masks, 10)

        def lane(array: Any, q: int) -> Any:
            return splat(builder, builder.load(builder.gep(array, [INT64(q)])), PANEL_ROWS)

        def compare(width: int) -> None:
            sums = [cgutils.alloca_once_value(builder, lane(first, q)) for q in range(width)]
            depth, step = arguments[3], INT64(GROUPS)
            with cgutils.for_range_slice(builder, INT64(0), depth, step, inc=True) as (begin, _):
                left = builder.sub(depth, begin)
                whole = builder.icmp_signed("<", step, left)
                some = builder.select(whole, step, left)
                own = builder.gep(queries, [builder.mul(begin, INT64(4 * TILE_QUERIES))])
                with cgutils.for_range(builder, some) as groups:
                    group = builder.add(begin, groups.index)
                    row = _load(builder, rows, builder.mul(group, INT64(4 * PANEL_ROWS)), _SUMS)
                    at = builder.mul(groups.index, INT64(4))
                    for q in range(width):
                        place = builder.add(at, INT64(4 * GROUPS * q))
                        query = splat(builder, _load(builder, own, place, INT32), PANEL_ROWS)
                        total = _add_products(builder, builder.load(sums[q]), row, query)
                        builder.store(total, sums[q])
            added = builder.load(builder.bitcast(shift, _VALUES.as_pointer()), align=4)
            for q, total in enumerate(sums):
                products = builder.sitofp(builder.load(total), _VALUES)
                value = builder.fsub(added, builder.fmul(products, lane(scales, q)))
                at = builder.gep(out, [INT64(q * PANEL_ROWS)])
                builder.store(value, builder.bitcast(at, _VALUES.as_pointer()), align=4)
                within = builder.fcmp_ordered("<=", value, lane(most, q))
                builder.store(builder.bitcast(within, _INT16), builder.gep(found, [INT64(q)]))

        _at_width(builder, arguments[4], _WIDTHS, compare)
        return context.get_dummy_value()

    index = types.int64
    kinds = panels, index, codes, index, index, start, units, limits, offsets, values, masks
    return types.void(*kinds), generate


@intrinsic
def append_masked(
    _: Any, values: Any, q: Any, mask: Any, base: Any, number: Any, out: Any, numbers: Any, end: Any
) -> Any:  # fmt: skip
    """Append ``base + values[q, r]`` and ``number + r`` for every bit r of `mask`; return how many.

    PANEL_ROWS elements of `out` and `numbers` are written from element `end` on; those beyond the
    appended ones are undefined.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def place(kind: Any, argument: int, element: Any) -> Any:
            array = context.make_array(kind)(context, builder, arguments[argument]).data
            return builder.gep(array, [element])

        chosen = builder.bitcast(arguments[2], ir.VectorType(ir.IntType(1), PANEL_ROWS))
        row = place(values, 0, builder.mul(arguments[1], INT64(PANEL_ROWS)))
        found = builder.load(builder.bitcast(row, _VALUES.as_pointer()), align=4)
        found = builder.fadd(found, splat(builder, arguments[3], PANEL_ROWS))
        first = splat(builder, builder.trunc(arguments[4], INT32), PANEL_ROWS)
        own = builder.add(first, ir.Constant(_SUMS, list(range(PANEL_ROWS))))
        _store_chosen(builder, found, chosen, place(out, 5, arguments[7]), "f32")
        _store_chosen(builder, own, chosen, place(numbers, 6, arguments[7]), "i32")
        return _count(builder, chosen)

    index = types.int64
    kinds = values, index, types.uint16, types.float32, index, out, numbers, index
    return index(*kinds), generate


@intrinsic
def compress(
    _: Any, values: Any, numbers: Any, count: Any, low: Any, scale: Any, edge: Any
) -> Any:  # fmt: skip
    """Move the values with ``(value − low)·scale < edge``, and their numbers, to the front.

    Of the first `count`; returns how many there are. Elements are read and written up to the next
    multiple of PANEL_ROWS.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        columns = [
            (context.make_array(kind)(context, builder, argument).data, vector, name)
            for kind, argument, vector, name in (
                (values, arguments[0], _VALUES, "f32"), (numbers, arguments[1], _SUMS, "i32"),
            )
        ]  # fmt: skip
        count, *factors = arguments[2:]
        low, scale, edge = (splat(builder, factor, PANEL_ROWS) for factor in factors)
        wide = ir.VectorType(INT64, PANEL_ROWS)
        lanes = ir.Constant(wide, list(range(PANEL_ROWS)))
        kept = cgutils.alloca_once_value(builder, INT64(0))
        steps = cgutils.for_range_slice(builder, INT64(0), count, INT64(PANEL_ROWS), inc=True)
        with steps as (start, _):
            loaded = [
                builder.load(
                    builder.bitcast(builder.gep(data, [start]), vector.as_pointer()), align=4
                )
                for data, vector, _ in columns
            ]
            place = builder.fmul(builder.fsub(loaded[0], low), scale)
            left = splat(builder, builder.sub(count, start), PANEL_ROWS)
            chosen = builder.and_(
                builder.fcmp_ordered("<", place, edge), builder.icmp_signed("<", lanes, left)
            )
            end = builder.load(kept)
            for found, (data, _, name) in zip(loaded, columns):
                _store_chosen(builder, found, chosen, builder.gep(data, [end]), name)
            builder.store(builder.add(end, _count(builder, chosen)), kept)
        return builder.load(kept)

    index, single = types.int64, types.float32
    return index(values, numbers, index, single, single, single), generate


@intrinsic
def lane_dot(_: Any, a: Any, b: Any) -> Any:
    """Inner product of whole groups of PANEL_ROWS numbers, in as many lanes on every processor."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = (a, b)
        left, right = (_data(context, builder, *pair) for pair in zip(kinds, arguments))
        sums = cgutils.alloca_once_value(builder, ir.Constant(_VALUES, None))
        with _groups(context, builder, a, arguments[0]) as start:
            factors = (_group(builder, side, start, _VALUES) for side in (left, right))
            builder.store(builder.fadd(builder.load(sums), builder.fmul(*factors)), sums)
        return sum_lanes(builder, builder.load(sums))

    return types.float32(a, b), generate


@intrinsic
def difference(_: Any, a: Any, b: Any, out: Any) -> Any:
    """Write ``a − b``; return its squared length, as `lane_dot` has it, and its largest size.

    One pass over whole groups of PANEL_ROWS numbers: the compiler makes three of a loop.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, to = (_data(context, builder, *pair) for pair in zip((a, b, out), arguments))
        sums = cgutils.alloca_once_value(builder, ir.Constant(_VALUES, None))
        sizes = cgutils.alloca_once_value(builder, ir.Constant(_SUMS, None))
        unsigned = ir.Constant(_SUMS, [0x7FFFFFFF] * PANEL_ROWS)
        with _groups(context, builder, a, arguments[0]) as start:
            values = builder.fsub(
                *(_group(builder, side, start, _VALUES) for side in (left, right))
            )
            place = builder.bitcast(builder.gep(to, [start]), _VALUES.as_pointer())
            builder.store(values, place, align=4)
            squares = builder.fmul(values, values)
            builder.store(builder.fadd(builder.load(sums), squares), sums)
            # Without their sign, floats are ordered as their bits are.
            bits, largest = (
                builder.and_(builder.bitcast(values, _SUMS), unsigned),
                builder.load(sizes),
            )
            larger = builder.icmp_signed(">", bits, largest)
            builder.store(builder.select(larger, bits, largest), sizes)
        name = f"llvm.vector.reduce.smax.v{PANEL_ROWS}i32"
        largest = call_llvm(builder, name, INT32, builder.load(sizes))
        found = sum_lanes(builder, builder.load(sums)), builder.bitcast(largest, _FLOAT)
        return context.make_tuple(builder, signature.return_type, found)

    return types.UniTuple(types.float32, 2)(a, b, out), generate


@intrinsic
def code_bytes(_: Any, values: Any, scale: Any, codes: Any) -> Any:
    """``codes = round(scale·values)``, signed bytes of whole groups; return their sum."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given, to = (
            _data(context, builder, kind, arguments[at]) for kind, at in ((values, 0), (codes, 2))
        )
        factor = splat(builder, arguments[1], PANEL_ROWS)
        sums = cgutils.alloca_once_value(builder, ir.Constant(_SUMS, None))
        few = ir.VectorType(BYTE, PANEL_ROWS)
        with _groups(context, builder, codes, arguments[2]) as start:
            scaled = builder.fmul(_group(builder, given, start, _VALUES), factor)
            rounded = call_llvm(builder, f"llvm.rint.v{PANEL_ROWS}f32", _VALUES, scaled)
            whole = builder.fptosi(rounded, _SUMS)
            place = builder.bitcast(builder.gep(to, [start]), few.as_pointer())
            builder.store(builder.trunc(whole, few), place, align=1)
            builder.store(builder.add(builder.load(sums), whole), sums)
        name = f"llvm.vector.reduce.add.v{PANEL_ROWS}i32"
        return call_llvm(builder, name, INT32, builder.load(sums))

    return types.int32(values, types.float32, codes), generate


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return context.make_array(kind)(context, builder, array).data


@contextmanager
def _groups(context: Any, builder: Any, kind: Any, array: Any) -> Iterator[Any]:
    """A loop over the starts of an array's groups of PANEL_ROWS numbers."""
    end = builder.extract_value(context.make_array(kind)(context, builder, array).shape, 0)
    step = INT64(PANEL_ROWS)
    with cgutils.for_range_slice(builder, INT64(0), end, step, inc=True) as (start, _):
        yield start


def _group(builder: Any, data: Any, start: Any, kind: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(data, [start]), kind.as_pointer()), align=4)


def _at_width(builder: Any, count: Any, widths: list[int], work: Callable[[int], None]) -> None:
    """Generate `work` for the first of the widths that is enough for `count`."""
    narrowest, *wider = widths
    if not wider:
        work(narrowest)
        return
    enough = builder.icmp_signed("<=", count, INT64(narrowest))
    with builder.if_else(enough) as (then, otherwise):
        with then:
            work(narrowest)
        with otherwise:
            _at_width(builder, count, wider, work)


def _store_chosen(builder: Any, vector: Any, chosen: Any, start: Any, name: str) -> None:
    """Store the chosen lanes one after the other, and something in the places of the rest."""
    function = f"llvm.experimental.vector.compress.v{PANEL_ROWS}{name}"
    rest = ir.Constant(vector.type, ir.Undefined)
    packed = call_llvm(builder, function, vector.type, vector, chosen, rest)
    builder.store(packed, builder.bitcast(start, vector.type.as_pointer()), align=4)


def _count(builder: Any, chosen: Any) -> Any:
    bits = builder.bitcast(chosen, _INT16)
    return builder.zext(call_llvm(builder, "llvm.ctpop.i16", _INT16, bits), INT64)


def _load(builder: Any, start: Any, byte: Any, kind: Any) -> Any:
    address = builder.bitcast(builder.gep(start, [byte]), kind.as_pointer())
    return builder.load(address, align=1)


def _add_products(builder: Any, sums: Any, row: Any, query: Any) -> Any:
    """Add the products of four unsigned and four signed bytes to each lane of `sums`."""
    if "avx512vnni" in _FEATURES:
        return call_llvm(builder, "llvm.x86.avx512.vpdpbusd.512", _SUMS, sums, row, query)
    if "avx2" in _FEATURES:
        halves = [_pairs_of_pairs(builder, row, query, half) for half in (0, 8)]
        lanes = ir.Constant(_SUMS, list(range(PANEL_ROWS)))
        return builder.add(sums, builder.shuffle_vector(*halves, lanes))
    many = ir.VectorType(BYTE, 4 * PANEL_ROWS)
    wide = ir.VectorType(INT32, 4 * PANEL_ROWS)
    left = builder.zext(builder.bitcast(row, many), wide)
    products = builder.mul(left, builder.sext(builder.bitcast(query, many), wide))
    for byte in range(4):
        lanes = ir.Constant(_SUMS, [4 * lane + byte for lane in range(PANEL_ROWS)])
        sums = builder.add(sums, builder.shuffle_vector(products, products, lanes))
    return sums


def _pairs_of_pairs(builder: Any, row: Any, query: Any, half: int) -> Any:
    """Sums of four products in eight lanes, with AVX2."""
    eight, sixteen = ir.VectorType(INT32, 8), ir.VectorType(_INT16, 16)
    bytes32 = ir.VectorType(BYTE, 32)
    lanes = ir.Constant(eight, list(range(half, half + 8)))
    left, right = (
        builder.bitcast(builder.shuffle_vector(side, side, lanes), bytes32) for side in (row, query)
    )
    pairs = call_llvm(builder, "llvm.x86.avx2.pmadd.ub.sw", sixteen, left, right)
    ones = ir.Constant(sixteen, [1] * 16)
    return call_llvm(builder, "llvm.x86.avx2.pmadd.wd", eight, pairs, ones)
