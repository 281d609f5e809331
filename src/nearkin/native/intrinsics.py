"""What numba has no words for: products in registers, prefetching, signals between threads."""

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

_BYTE, _WORD, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)
LINE = 64  # bytes of a cache line, and numbers of a vector; the compiler cuts it into its own


def _tile() -> tuple[int, int, int]:
    """Numbers of a vector; rows and vectors of a tile, whose sums fill most of the registers."""
    # What numba compiles for, and tells cached code apart by.
    has = cpu_target.target_context.codegen().magic_tuple()[-1].split(",")
    if "+avx512f" in has:
        return 16, 8, 3
    return (8, 4, 3) if "+avx" in has else (4, 6, 3)


_LANES, TILE_ROWS, _VECTORS = _tile()
TILE_COLUMNS = _LANES * _VECTORS

# Lets another thread have the core.
give_way = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)


@intrinsic
def product_sum(_: Any, words: Any, codes: Any) -> Any:
    """``Σ words[d]·codes[d]``, int16 times int8, in 32 bits; of as many as make whole lines.

    Written out as vectors, for which processors have an instruction that multiplies and adds
    pairs; left to itself the compiler finds it, too, but uses half of its width. The sums of a
    place stay in registers, and are added to each other once, at the end.
    """

    def total(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(_WORD, LINE)
        long, short = (
            context.make_array(array)(context, builder, argument)
            for array, argument in zip((words, codes), arguments)
        )
        sums = cgutils.alloca_once_value(builder, ir.Constant(kind, None))
        end = builder.extract_value(short.shape, 0)
        with cgutils.for_range_slice(builder, _LONG(0), end, _LONG(LINE), inc=True) as (start, _):
            factors = (
                _vector(builder, builder.gep(array.data, [start]), bits)
                for array, bits in ((long, 16), (short, 8))
            )
            products = builder.mul(*factors, flags=("nsw",))
            builder.store(builder.add(builder.load(sums), products), sums)
        return _called(builder, f"llvm.vector.reduce.add.v{LINE}i32", _WORD, builder.load(sums))

    return types.int32(words, codes), total


@intrinsic
def add_scaled_codes(
    _: Any, out: Any, weights: Any, codes: Any, rows: Any, first: Any, last: Any, start: Any
) -> Any:
    """``out += Σ weights[n]·codes[rows[n]]`` for n in first:last, 64 columns from `start` on.

    The sums stay in registers from row to row, where a loop over columns would fetch and put back
    each of them every time.
    """

    def add(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, scales, table, numbers = (
            context.make_array(kind)(context, builder, array)
            for kind, array in zip((out, weights, codes, rows), arguments)
        )
        begin, end, column = arguments[4:]
        kind = ir.VectorType(ir.FloatType(), LINE)
        place = builder.bitcast(builder.gep(sums.data, [column]), kind.as_pointer())
        total = cgutils.alloca_once_value(builder, builder.load(place, align=4))
        stride = builder.extract_value(table.strides, 0)
        with cgutils.for_range_slice(builder, begin, end, _LONG(1), inc=True) as (n, _):
            row = builder.sext(builder.load(builder.gep(numbers.data, [n])), _LONG)
            at = builder.gep(table.data, [builder.add(builder.mul(row, stride), column)])
            numbers_of_row = builder.sitofp(_vector(builder, at, 8), kind)
            scale = _splat(builder, builder.load(builder.gep(scales.data, [n])), LINE)
            name = f"llvm.fmuladd.v{LINE}f32"
            more = _called(builder, name, kind, scale, numbers_of_row, builder.load(total))
            builder.store(more, total)
        builder.store(builder.load(total), place, align=4)
        return context.get_dummy_value()

    whole = (types.int64,) * 3
    return types.void(out, weights, codes, rows, *whole), add


@intrinsic
def tile(
    _: Any, out: Any, at: Any, stride: Any, a: Any, from_a: Any, b: Any, from_b: Any, depth: Any,
    keep: Any,
) -> Any:  # fmt: skip
    """A part of a product, as large as the registers: ``out[r, c] (+)= Σ_k a[k, r]·b[k, c]``.

    Arrays are contiguous, of any shape. The part of `out` begins at its number `at`, with `stride`
    numbers from row to row; `a` and `b` are packed, TILE_ROWS and TILE_COLUMNS numbers for each k.
    With `keep`, the product is added to what is there.
    """

    def multiply(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def start(array: Any, place: int) -> Any:
            data = context.make_array(array)(context, builder, arguments[place]).data
            return builder.gep(data, [arguments[place + 1]])

        first, left, right = start(out, 0), start(a, 3), start(b, 5)
        kind = ir.VectorType(ir.FloatType(), _LANES)

        def vector(row: Any, number: int) -> Any:
            return builder.bitcast(builder.gep(row, [_LONG(number * _LANES)]), kind.as_pointer())

        rows = [builder.gep(first, [builder.mul(arguments[2], _LONG(r))]) for r in range(TILE_ROWS)]
        places = [vector(row, n) for row in rows for n in range(_VECTORS)]
        sums = [cgutils.alloca_once_value(builder, ir.Constant(kind, None)) for _ in places]
        with builder.if_then(arguments[8]):
            for total, place in zip(sums, places):
                builder.store(builder.load(place, align=4), total)
        with cgutils.for_range_slice(builder, _LONG(0), arguments[7], _LONG(1), inc=True) as (k, _):
            row = builder.gep(right, [builder.mul(k, _LONG(TILE_COLUMNS))])
            columns = [builder.load(vector(row, n), align=4) for n in range(_VECTORS)]
            column = builder.gep(left, [builder.mul(k, _LONG(TILE_ROWS))])
            for r in range(TILE_ROWS):  # a factor is fetched just before it is used: registers
                scale = _splat(builder, builder.load(builder.gep(column, [_LONG(r)])), _LANES)
                for n in range(_VECTORS):
                    total = sums[r * _VECTORS + n]
                    terms = scale, columns[n], builder.load(total)
                    name = f"llvm.fmuladd.v{_LANES}f32"
                    builder.store(_called(builder, name, kind, *terms), total)
        for total, place in zip(sums, places):
            builder.store(builder.load(total), place, align=4)
        return context.get_dummy_value()

    whole = types.int64
    kinds = out, whole, whole, a, whole, b, whole, whole, types.boolean
    return types.void(*kinds), multiply


def _vector(builder: Any, at: Any, bits: int) -> Any:
    """Whole numbers of so many bits, widened to 32."""
    narrow = ir.VectorType(ir.IntType(bits), LINE).as_pointer()
    loaded = builder.load(builder.bitcast(at, narrow), align=bits // 8)
    return builder.sext(loaded, ir.VectorType(_WORD, LINE))


def _splat(builder: Any, value: Any, times: int) -> Any:
    """A vector of one number again and again."""
    none = ir.Constant(ir.VectorType(value.type, times), ir.Undefined)
    first = builder.insert_element(none, value, _WORD(0))
    return builder.shuffle_vector(first, none, ir.VectorType(_WORD, times)([0] * times))


def _called(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """What one of the compiler's own functions makes of the arguments."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


@intrinsic
def prefetch(_: Any, row: Any, byte: Any) -> Any:
    """Ask for the cache line around a byte of a contiguous row; nothing waits for it."""

    def ask(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(row)(context, builder, arguments[0]).data
        line = builder.gep(builder.bitcast(start, _BYTE.as_pointer()), [arguments[1]])
        # To the second cache: of what is on its way to the first, processors keep a shorter list.
        read, near, data = _WORD(0), _WORD(2), _WORD(1)
        _called(builder, "llvm.prefetch.p0", ir.VoidType(), line, read, near, data)
        return context.get_dummy_value()

    return types.void(row, types.int64), ask


@intrinsic
def tell(_: Any, places: Any, at: Any, value: Any) -> Any:
    """``places[at, 0] = value``, after everything that was written before it."""

    def store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, places, arguments)
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(places, types.int64, types.int64), store


@intrinsic
def told(_: Any, places: Any, at: Any) -> Any:
    """``places[at, 0]``; what was written before it was told can be read from now on."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(context, builder, places, arguments), "acquire", 8)

    return types.int64(places, types.int64), load


@intrinsic
def claim(_: Any, counters: Any, at: Any) -> Any:
    """``counters[at]``, which is one more for whoever asks next."""

    def add(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(counters)(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        return builder.atomic_rmw("add", place, _LONG(1), "monotonic")

    return types.int64(counters, types.int64), add


def _place(context: Any, builder: Any, places: Any, arguments: Any) -> Any:
    array = context.make_array(places)(context, builder, arguments[0])
    start = builder.bitcast(array.data, _BYTE.as_pointer())
    line = builder.mul(arguments[1], builder.extract_value(array.strides, 0))
    return builder.bitcast(builder.gep(start, [line]), _LONG.as_pointer())
