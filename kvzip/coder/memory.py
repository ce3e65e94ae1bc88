"""``peek`` and ``poke``: array elements by a non-negative index, without Python's wraparound of negative ones.

The wraparound costs a compare and a select per access and stops LLVM from vectorising. The caller ensures
``0 <= index < len(array)``; with Numba's bounds checks on (``NUMBA_BOUNDSCHECK=1``) or without the compiler
(``NUMBA_DISABLE_JIT=1``) both are plain indexing, so a broken promise shows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from kvzip.coder.jit import kernel


def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The address of the first element of a one-dimensional array, or the pointer itself."""
    return value if isinstance(kind, types.CPointer) else context.make_array(kind)(context, builder, value).data


def place_of(context: Any, builder: Any, kind: Any, value: Any, index_kind: Any, index: Any) -> Any:
    """The address of element ``index`` of such an array or pointer."""
    return cgutils.gep(
        builder, data_of(context, builder, kind, value), context.cast(builder, index, index_kind, types.intp)
    )


def _is_run(kind: Any) -> bool:
    return isinstance(kind, types.CPointer) or (isinstance(kind, types.Array) and kind.ndim == 1)


@intrinsic
def _pointer(typingctx: Any, array: Any) -> Any:
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return data_of(context, builder, array, arguments[0])

    return types.CPointer(array.dtype)(array), codegen


@intrinsic
def _advance(typingctx: Any, pointer: Any, count: Any) -> Any:
    if not (isinstance(pointer, types.CPointer) and isinstance(count, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return place_of(context, builder, pointer, arguments[0], count, arguments[1])

    return pointer(pointer, count), codegen


@intrinsic
def _load(typingctx: Any, array: Any, index: Any) -> Any:
    if not (_is_run(array) and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = place_of(context, builder, array, arguments[0], index, arguments[1])
        return context.unpack_value(builder, array.dtype, pointer)

    return array.dtype(array, index), codegen


@intrinsic
def _store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    if not (_is_run(array) and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = place_of(context, builder, array, arguments[0], index, arguments[1])
        context.pack_value(builder, array.dtype, context.cast(builder, arguments[2], value, array.dtype), pointer)
        return context.get_dummy_value()

    return types.void(array, index, value), codegen


@intrinsic
def _fetch(typingctx: Any, array: Any, index: Any) -> Any:
    if not (_is_run(array) and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = place_of(context, builder, array, arguments[0], index, arguments[1])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), number, number, number])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


@intrinsic
def _as_bits(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int32))

    return (types.int32(types.float32), codegen) if x == types.float32 else None


@intrinsic
def _as_float(typingctx: Any, bits: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return (types.float32(types.int32), codegen) if bits == types.int32 else None


def _plain_bits(x: Any) -> Any:
    return np.float32(x).view(np.int32)


def _plain_float(bits: Any) -> Any:
    return np.int32(bits).view(np.float32)


def _checked_load(array: Any, index: Any) -> Any:
    return array[index]


def _checked_store(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def _leave(array: Any, index: Any) -> None:
    pass


def _flat(array: Any) -> Any:
    return array.reshape(-1)


def _behind(array: Any, count: Any) -> Any:
    return array[count:]


def _choose() -> tuple[Any, ...]:
    settings: Any = config
    if settings.DISABLE_JIT:
        return _checked_load, _checked_store, _leave, _plain_bits, _plain_float, _flat, _behind
    if settings.BOUNDSCHECK:
        return (
            kernel(_checked_load), kernel(_checked_store), kernel(_leave), _as_bits, _as_float, kernel(_flat),
            kernel(_behind),
        )  # fmt: skip
    return _load, _store, _fetch, _as_bits, _as_float, _pointer, _advance


peek, poke, fetch, bits_of, float_of, pointer_of, advance = _choose()
"""``bits_of(float32) -> int32`` and ``float_of(int32) -> float32`` are the same bits under another type.

``pointer_of(array)`` is its data without the array's count of references, which a call with arrays counts up and
down, atomically: more than all else that a row of values costs. ``peek``, ``poke`` and the vector functions take it
like a one-dimensional array, which must outlive it: what a kernel itself makes may be freed after its last use as an
array. ``advance(pointer, n)`` is the pointer to what lies n elements further on.

``fetch(array, index)`` asks for the cache line of an element that is wanted soon; the index may be out of bounds.
"""
