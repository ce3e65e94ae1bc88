"""``peek`` and ``poke``: array elements by a non-negative index, without Python's wraparound of negative ones.

The wraparound costs a compare and a select per access and stops LLVM from vectorising. The caller ensures
``0 <= index < len(array)``; with Numba's bounds checks on (``NUMBA_BOUNDSCHECK=1``) or without the compiler
(``NUMBA_DISABLE_JIT=1``) both are plain indexing, so a broken promise shows.
"""

from __future__ import annotations

from typing import Any

from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from kvzip.coder.jit import kernel


@intrinsic
def _load(typingctx: Any, array: Any, index: Any) -> Any:
    if not (isinstance(array, types.Array) and array.ndim == 1 and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        wide = context.cast(builder, arguments[1], index, types.intp)
        pointer = cgutils.gep(builder, data, wide)
        return context.unpack_value(builder, array.dtype, pointer)

    return array.dtype(array, index), codegen


@intrinsic
def _store(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    if not (isinstance(array, types.Array) and array.ndim == 1 and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        wide = context.cast(builder, arguments[1], index, types.intp)
        pointer = cgutils.gep(builder, data, wide)
        context.pack_value(builder, array.dtype, context.cast(builder, arguments[2], value, array.dtype), pointer)
        return context.get_dummy_value()

    return types.void(array, index, value), codegen


def _checked_load(array: Any, index: Any) -> Any:
    return array[index]


def _checked_store(array: Any, index: Any, value: Any) -> None:
    array[index] = value


def _choose() -> tuple[Any, Any]:
    settings: Any = config
    if settings.DISABLE_JIT:
        return _checked_load, _checked_store
    if settings.BOUNDSCHECK:
        return kernel(_checked_load), kernel(_checked_store)
    return _load, _store


peek, poke = _choose()
