"""Dot products and squared distances of one row and rows of a table, four at a time in registers.

A value is summed in the same order whether it is computed alone or beside others, so that its bits
do not depend on how pairs are grouped. One at a time, a sum would wait for its own last term.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearkin.native.intrinsics import (
    CACHE_LINE,
    INT32,
    INT64,
    call_llvm,
    prefetch,
    splat,
    sum_lanes,
)
from nearkin.native.jit import compiled

AT_ONCE = 4
_LANES = 32
_FLOAT = ir.FloatType()
_VALUES = ir.VectorType(_FLOAT, _LANES)
_jit = compiled(fastmath=False)  # the order of sums is written down


@_jit
def fill_values(products, table, numbers, row, out):  # type: ignore[no-untyped-def]
    """``out[n]`` of `row` and ``table[numbers[n]]``: their product, or their squared distance."""
    whole = len(numbers) - len(numbers) % AT_ONCE
    for n in range(0, whole, AT_ONCE):
        if products:
            _four_products(table, numbers, n, row, out)
        else:
            _four_distances(table, numbers, n, row, out)
    for n in range(whole, len(numbers)):
        if products:
            _one_product(table, numbers, n, row, out)
        else:
            _one_distance(table, numbers, n, row, out)


@_jit
def fill_fetched(products, table, numbers, row, out):  # type: ignore[no-untyped-def]
    """The same for rows that are in no cache: some are fetched while others are read."""
    for n in range(0, len(numbers), AT_ONCE):
        end = min(n + AT_ONCE, len(numbers))
        for ahead in range(end, min(end + AT_ONCE, len(numbers))):
            for byte in range(0, 4 * len(row), CACHE_LINE):
                prefetch(table[numbers[ahead]], byte)
        fill_values(products, table, numbers[n:end], row, out[n:end])


def _values(
    context: Any, builder: Any, kinds: Any, arguments: Any, count: int, products: bool
) -> Any:
    """Generate ``out[n]`` for `count` places from n on."""
    table, numbers, row, out = (
        context.make_array(kinds[at])(context, builder, arguments[at]) for at in (0, 1, 3, 4)
    )
    first, width = arguments[2], builder.extract_value(row.shape, 0)
    places = [builder.add(first, INT64(n)) for n in range(count)]
    rows = []
    for place in places:
        number = builder.sext(builder.load(builder.gep(numbers.data, [place])), INT64)
        rows.append(builder.gep(table.data, [builder.mul(number, width)]))
    sums = [cgutils.alloca_once_value(builder, ir.Constant(_VALUES, None)) for _ in rows]

    def add(start: Any, load: Any) -> None:
        own = load(builder.gep(row.data, [start]))
        for data, total in zip(rows, sums):
            other = load(builder.gep(data, [start]))
            factors = (own, other) if products else (builder.fsub(own, other),) * 2
            name = f"llvm.fmuladd.v{_LANES}f32"
            more = call_llvm(builder, name, _VALUES, *factors, builder.load(total))
            builder.store(more, total)

    rest = builder.srem(width, INT64(_LANES))
    whole = builder.sub(width, rest)
    steps = cgutils.for_range_slice(builder, INT64(0), whole, INT64(_LANES), inc=True)
    with steps as (start, _):
        add(start, lambda at: builder.load(_vector_at(builder, at), align=4))
    with builder.if_then(builder.icmp_signed(">", rest, INT64(0))):
        add(whole, lambda at: _load_some(builder, at, rest))
    for place, total in zip(places, sums):
        value = sum_lanes(builder, builder.load(total))
        builder.store(value, builder.gep(out.data, [place]))
    return context.get_dummy_value()


def _vector_at(builder: Any, address: Any) -> Any:
    return builder.bitcast(address, _VALUES.as_pointer())


def _load_some(builder: Any, address: Any, count: Any) -> Any:
    """The first `count` of a vector's numbers, and zeros."""
    lanes = ir.VectorType(INT32, _LANES)
    numbers = ir.Constant(lanes, list(range(_LANES)))
    chosen = builder.icmp_signed("<", numbers, splat(builder, builder.trunc(count, INT32), _LANES))
    name = f"llvm.masked.load.v{_LANES}f32.p0"
    zeros = ir.Constant(_VALUES, None)
    return call_llvm(builder, name, _VALUES, _vector_at(builder, address), INT32(4), chosen, zeros)


def _signature(table: Any, numbers: Any, _first: Any, row: Any, out: Any) -> Any:
    return types.void(table, numbers, types.int64, row, out)


@intrinsic
def _four_products(_: Any, table: Any, numbers: Any, first: Any, row: Any, out: Any) -> Any:
    kinds = table, numbers, first, row, out
    return _signature(*kinds), lambda c, b, _, given: _values(c, b, kinds, given, AT_ONCE, True)


@intrinsic
def _four_distances(_: Any, table: Any, numbers: Any, first: Any, row: Any, out: Any) -> Any:
    kinds = table, numbers, first, row, out
    return _signature(*kinds), lambda c, b, _, given: _values(c, b, kinds, given, AT_ONCE, False)


@intrinsic
def _one_product(_: Any, table: Any, numbers: Any, first: Any, row: Any, out: Any) -> Any:
    kinds = table, numbers, first, row, out
    return _signature(*kinds), lambda c, b, _, given: _values(c, b, kinds, given, 1, True)


@intrinsic
def _one_distance(_: Any, table: Any, numbers: Any, first: Any, row: Any, out: Any) -> Any:
    kinds = table, numbers, first, row, out
    return _signature(*kinds), lambda c, b, _, given: _values(c, b, kinds, given, 1, False)
