"""Sixteen lanes at a time, for CPUs with AVX-512 VBMI2 or AVX2: the same integers as the scalar loops, but faster.

LLVM does not turn the rANS loops into vectors by itself: it cannot know that tables and outputs do not overlap. So
five steps are given to it as vector code (``vector_text``), which it inlines into the kernels that call them:

    take16   decode: slot -> class << 9 | symbol -> code -> next state, refilled from the words in lane order
    low16    decode: so many uniform bits from each lane, refilled likewise
    code16   encode: symbol -> code, and which symbols have none
    put16    encode: words out in lane order, then the next state. The quotient x // freq, below 2^22, is taken in
             float32, where its error is below 1, and put right by the remainder: the result is exact
    putpair16  the same for two codes, the first of which needs no division: its frequency is a power of two

``VECTORS`` says whether they are used, by the width of the registers in bits, 0 for no. KVZIP_VECTORS=0 switches them
off, KVZIP_VECTORS=256 keeps to AVX2. The scalar loops are their twins.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kvzip.coder.memory import place_of
from kvzip.coder.vector_text import TEXT

WIDTH = 16
_LIMITS = {"0": 0, "256": 256}  # what KVZIP_VECTORS may set
_NEEDED = {512: ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi2"), 256: ("avx2",)}


def _usable() -> int:
    """The widest registers that the kernels can use: 0 unless they are compiled, unchecked, for this very CPU."""
    config: Any = numba.config
    most = _LIMITS.get(os.environ.get("KVZIP_VECTORS", ""), 512)
    if config.DISABLE_JIT or config.BOUNDSCHECK or config.CPU_NAME:
        return 0
    features = llvm.get_host_cpu_features()
    for width, needed in _NEEDED.items():
        if width <= most and all(features.get(name, False) for name in needed):
            return width
    return 0


VECTORS = _usable()


def _call(name: str, context: Any, builder: Any, kinds: Any, values: Any, pairs: int) -> Any:
    """Call a function of the text with pointers made of (array, index) pairs, then a number if one is left."""
    library = context.active_code_library
    module = llvm.parse_assembly(TEXT[VECTORS or 512])
    module.name = "kvzip.vector"
    module.triple = llvm.get_process_triple()
    module.verify()
    library.add_llvm_module(module)
    arguments = []
    for at in range(0, 2 * pairs, 2):
        arguments.append(place_of(context, builder, kinds[at], values[at], kinds[at + 1], values[at + 1]))
    for at in range(2 * pairs, len(kinds)):
        arguments.append(context.cast(builder, values[at], kinds[at], types.int32))
    kind = ir.FunctionType(ir.IntType(64), [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _maker(name: str, pairs: int) -> Callable[[Any, Any, Any, Any], Any]:
    return lambda context, builder, signature, values: _call(name, context, builder, signature.args, values, pairs)


@intrinsic
def _take16(  # type: ignore[no-untyped-def]
    typingctx, lanes, lane, place, c, slots, slots_from, codes, codes_from, words, word, out, at, bits
):
    """Sixteen symbols from sixteen lanes; the number of words read. Reads one slot past the last one."""
    kinds = (lanes, lane, place, c, slots, slots_from, codes, codes_from, words, word, out, at, bits)
    return types.int64(*kinds), _maker("kvzip_take16", 6)


@intrinsic
def _low16(typingctx, lanes, lane, widths, c, words, word, out, at, bits):  # type: ignore[no-untyped-def]
    """``widths`` uniform bits from each of sixteen lanes; the number of words read."""
    kinds = (lanes, lane, widths, c, words, word, out, at, bits)
    return types.int64(*kinds), _maker("kvzip_low16", 4)


@intrinsic
def _code16(typingctx, symbols, i, place, c, codes, codes_from, out, at):  # type: ignore[no-untyped-def]
    """The codes of sixteen symbols; a bit for each that has none."""
    kinds = (symbols, i, place, c, codes, codes_from, out, at)
    return types.int64(*kinds), _maker("kvzip_code16", 4)


@intrinsic
def _put16(typingctx, codes, i, lanes, lane, words, at, bits):  # type: ignore[no-untyped-def]
    """Put sixteen codes into sixteen lanes; the number of words written, which end just before ``words[at]``."""
    kinds = (codes, i, lanes, lane, words, at, bits)
    return types.int64(*kinds), _maker("kvzip_put16", 3)


@intrinsic
def _putpair16(typingctx, codes, i, lows, k, lanes, lane, words, at, bits):  # type: ignore[no-untyped-def]
    """Sixteen lows, whose frequencies are powers of two, and then sixteen codes, as by ``put16``."""
    kinds = (codes, i, lows, k, lanes, lane, words, at, bits)
    return types.int64(*kinds), _maker("kvzip_putpair16", 4)


take16: Any = _take16
low16: Any = _low16
code16: Any = _code16
put16: Any = _put16
putpair16: Any = _putpair16
