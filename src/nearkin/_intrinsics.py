"""What numba has no words for: narrow products, prefetching, signals between threads."""

import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_BYTE, _WORD, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)

# Lets another thread have the core.
give_way = types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", types.int32()
)


@intrinsic
def add_int32(_: Any, a: Any, b: Any) -> Any:
    """``a + b`` in 32 bits, where numba would widen to 64."""
    return types.int32(types.int32, types.int32), lambda c, builder, s, terms: builder.add(*terms)


@intrinsic
def product_sum(_: Any, words: Any, codes: Any, start: Any) -> Any:
    """``Σ words[d]·codes[d]`` over the 64 places from `start` on; int16 times int8, in 32 bits.

    Written out as vectors, for which processors have an instruction that multiplies and adds
    pairs; left to itself the compiler finds it, too, but uses half of its width.
    """
    width = 64

    def total(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def vector(place: int, kind: Any) -> Any:
            data = context.make_array(kind)(context, builder, arguments[place]).data
            at = builder.gep(data, [arguments[2]])
            bits = kind.dtype.bitwidth
            narrow = ir.VectorType(ir.IntType(bits), width).as_pointer()
            loaded = builder.load(builder.bitcast(at, narrow), align=bits // 8)
            return builder.sext(loaded, ir.VectorType(_WORD, width))

        products = builder.mul(vector(0, words), vector(1, codes), flags=("nsw",))
        name = f"llvm.vector.reduce.add.v{width}i32"
        kind = ir.FunctionType(_WORD, [products.type])
        added = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(added, [products])

    return types.int32(words, codes, types.int64), total


@intrinsic
def prefetch(_: Any, row: Any, byte: Any) -> Any:
    """Ask for the cache line around a byte of a contiguous row; nothing waits for it."""

    def ask(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start = context.make_array(row)(context, builder, arguments[0]).data
        line = builder.gep(builder.bitcast(start, _BYTE.as_pointer()), [arguments[1]])
        kind = ir.FunctionType(ir.VoidType(), [line.type, _WORD, _WORD, _WORD])
        name = "llvm.prefetch.p0"
        asked = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        builder.call(asked, [line, *(ir.Constant(_WORD, n) for n in (0, 3, 1))])  # read, keep, data
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


def _place(context: Any, builder: Any, places: Any, arguments: Any) -> Any:
    array = context.make_array(places)(context, builder, arguments[0])
    start = builder.bitcast(array.data, _BYTE.as_pointer())
    line = builder.mul(arguments[1], builder.extract_value(array.strides, 0))
    return builder.bitcast(builder.gep(start, [line]), _LONG.as_pointer())
