"""What numba has no words for: numbers of half the width, prefetching, signals between threads."""

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
def widened(_: Any, number: Any) -> Any:
    """The float32 behind sixteen bits (`_half`); a float32 is itself."""

    def widen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if number == types.float32:
            return arguments[0]
        bits = builder.shl(builder.zext(arguments[0], _WORD), ir.Constant(_WORD, 16))
        return builder.bitcast(bits, ir.FloatType())

    if number in (types.float32, types.uint16):
        return types.float32(number), widen
    return None


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
