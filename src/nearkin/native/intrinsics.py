"""LLVM intrinsics that numba does not offer: SIMD integer products, prefetch, atomics."""

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
CACHE_LINE = 64  # bytes, and lanes of the vectors below; LLVM splits them into registers

yield_core = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)


@intrinsic
def int_dot(_: Any, query_codes: Any, codes: Any) -> Any:
    """``Σ query_codes[d]·codes[d]``, int16 times int8, summed in int32.

    The length must be a multiple of `CACHE_LINE`. Explicit vectors map to the multiply-add
    instruction for pairs of int16; the auto-vectoriser finds it too, but at half the width.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(INT32, CACHE_LINE)
        left, right = (
            context.make_array(array)(context, builder, argument)
            for array, argument in zip((query_codes, codes), arguments)
        )
        sums = cgutils.alloca_once_value(builder, ir.Constant(vector, None))
        end = builder.extract_value(right.shape, 0)
        steps = cgutils.for_range_slice(builder, INT64(0), end, INT64(CACHE_LINE), inc=True)
        with steps as (start, _):
            factors = (
                _load_widened(builder, builder.gep(array.data, [start]), bits)
                for array, bits in ((left, 16), (right, 8))
            )
            products = builder.mul(*factors, flags=("nsw",))
            builder.store(builder.add(builder.load(sums), products), sums)
        name = f"llvm.vector.reduce.add.v{CACHE_LINE}i32"
        return call_llvm(builder, name, INT32, builder.load(sums))

    return types.int32(query_codes, codes), generate


@intrinsic
def add_scaled_codes(
    _: Any, out: Any, weights: Any, codes: Any, rows: Any, first: Any, last: Any, start: Any
) -> Any:
    """``out += Σ weights[n]·codes[rows[n]]`` for n in first:last, 64 columns from `start` on.

    The sums stay in registers from row to row; a loop over columns would load and store them for
    every row.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, scales, table, numbers = (
            context.make_array(kind)(context, builder, array)
            for kind, array in zip((out, weights, codes, rows), arguments)
        )
        begin, end, column = arguments[4:]
        vector = ir.VectorType(ir.FloatType(), CACHE_LINE)
        address = builder.bitcast(builder.gep(sums.data, [column]), vector.as_pointer())
        total = cgutils.alloca_once_value(builder, builder.load(address, align=4))
        stride = builder.extract_value(table.strides, 0)
        with cgutils.for_range_slice(builder, begin, end, INT64(1), inc=True) as (n, _):
            row = builder.sext(builder.load(builder.gep(numbers.data, [n])), INT64)
            at = builder.gep(table.data, [builder.add(builder.mul(row, stride), column)])
            values = builder.sitofp(_load_widened(builder, at, 8), vector)
            scale = splat(builder, builder.load(builder.gep(scales.data, [n])), CACHE_LINE)
            name = f"llvm.fmuladd.v{CACHE_LINE}f32"
            more = call_llvm(builder, name, vector, scale, values, builder.load(total))
            builder.store(more, total)
        builder.store(builder.load(total), address, align=4)
        return context.get_dummy_value()

    return types.void(out, weights, codes, rows, *(types.int64,) * 3), generate


@intrinsic
def prefetch(_: Any, row: Any, byte: Any) -> Any:
    """Prefetch the cache line around a byte of a contiguous row."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(row)(context, builder, arguments[0]).data
        line = builder.gep(builder.bitcast(start, BYTE.as_pointer()), [arguments[1]])
        # Into L2: processors track fewer outstanding loads into L1.
        read, locality, data = INT32(0), INT32(2), INT32(1)
        call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), line, read, locality, data)
        return context.get_dummy_value()

    return types.void(row, types.int64), generate


@intrinsic
def atomic_store(_: Any, table: Any, row: Any, value: Any) -> Any:
    """``table[row, 0] = value`` with release order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address_of_row(context, builder, table, arguments)
        builder.store_atomic(arguments[2], address, "release", 8)
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64), generate


@intrinsic
def atomic_load(_: Any, table: Any, row: Any) -> Any:
    """``table[row, 0]`` with acquire order."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(
            _address_of_row(context, builder, table, arguments), "acquire", 8
        )

    return types.int64(table, types.int64), generate


@intrinsic
def fetch_add(_: Any, counters: Any, at: Any) -> Any:
    """Return ``counters[at]`` and add one to it, atomically; orders no other access."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(counters)(context, builder, arguments[0]).data
        address = builder.gep(data, [arguments[1]])
        return builder.atomic_rmw("add", address, INT64(1), "monotonic")

    return types.int64(counters, types.int64), generate


def splat(builder: Any, value: Any, lanes: int) -> Any:
    """A vector with the same value in all lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(undefined, value, INT32(0))
    return builder.shuffle_vector(first, undefined, ir.VectorType(INT32, lanes)([0] * lanes))


def sum_lanes(builder: Any, vector: Any) -> Any:
    """The sum of all lanes, by halves: lane after lane would take as long as the products."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        halves = [
            builder.shuffle_vector(vector, vector, ir.VectorType(INT32, lanes)(list(chosen)))
            for chosen in (range(lanes), range(lanes, 2 * lanes))
        ]
        vector = builder.fadd(*halves)
    return builder.extract_element(vector, INT32(0))


def call_llvm(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Call one of LLVM's intrinsic functions."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def _load_widened(builder: Any, address: Any, bits: int) -> Any:
    """Load a vector of integers of `bits` bits, sign-extended to 32."""
    narrow = ir.VectorType(ir.IntType(bits), CACHE_LINE).as_pointer()
    loaded = builder.load(builder.bitcast(address, narrow), align=bits // 8)
    return builder.sext(loaded, ir.VectorType(INT32, CACHE_LINE))


def _address_of_row(context: Any, builder: Any, table: Any, arguments: Any) -> Any:
    array = context.make_array(table)(context, builder, arguments[0])
    start = builder.bitcast(array.data, BYTE.as_pointer())
    offset = builder.mul(arguments[1], builder.extract_value(array.strides, 0))
    return builder.bitcast(builder.gep(start, [offset]), INT64.as_pointer())
