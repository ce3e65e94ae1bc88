"""Sixteen lanes at a time, for CPUs with AVX-512 VBMI2: the same integers as the scalar loops, several times faster.

LLVM does not turn the rANS loops into vectors by itself: it cannot know that tables and outputs do not overlap. So
five steps are given to it as vector code (text below), which it inlines into the kernels that call them:

    take16   decode: slot -> class << 9 | symbol -> code -> next state, refilled from the words in lane order
    low16    decode: so many uniform bits from each lane, refilled likewise
    code16   encode: symbol -> code, and which symbols have none
    put16    encode: words out in lane order, then the next state. The quotient x // freq, below 2^22, is taken in
             float32, where its error is below 1, and put right by the remainder: the result is exact
    putpair16  the same for two codes, the first of which needs no division: its frequency is a power of two

``VECTORS`` says whether they are used; KVZIP_VECTORS=0 switches them off. The scalar loops are their twins.
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

from kvzip.coder.memory import data_of

WIDTH = 16
_NEEDED = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi2")


def _usable() -> bool:
    """Whether the kernels are compiled, unchecked, for this very CPU, and it has what makes the vectors pay."""
    config: Any = numba.config
    if os.environ.get("KVZIP_VECTORS") == "0" or config.DISABLE_JIT or config.BOUNDSCHECK or config.CPU_NAME:
        return False
    features = llvm.get_host_cpu_features()
    return all(features.get(name, False) for name in _NEEDED)


VECTORS = _usable()

# Both puts begin so: room is made in each state %x that %code would overflow, which leaves %y; %n words go out.
_FLUSH = """  %x = load <16 x i32>, ptr %lanes, align 4
  %freq = and <16 x i32> %code, splat (i32 65535)
  %start = lshr <16 x i32> %code, splat (i32 16)
  %b0 = insertelement <16 x i32> poison, i32 %bits, i64 0
  %b = shufflevector <16 x i32> %b0, <16 x i32> poison, <16 x i32> zeroinitializer
  %rest1 = sub i32 32, %bits
  %rest0 = insertelement <16 x i32> poison, i32 %rest1, i64 0
  %rest = shufflevector <16 x i32> %rest0, <16 x i32> poison, <16 x i32> zeroinitializer
  %top = lshr <16 x i32> %x, %rest
  %full = icmp uge <16 x i32> %top, %freq
  %bitmap = bitcast <16 x i1> %full to i16
  %n16 = call i16 @llvm.ctpop.i16(i16 %bitmap)
  %n = zext i16 %n16 to i64
  %back = sub i64 0, %n
  %wordp = getelementptr i16, ptr %words, i64 %back
  %w = trunc <16 x i32> %x to <16 x i16>
  call void @llvm.masked.compressstore.v16i16(<16 x i16> %w, ptr %wordp, <16 x i1> %full)
  %shifted = lshr <16 x i32> %x, splat (i32 16)
  %y = select <16 x i1> %full, <16 x i32> %shifted, <16 x i32> %x
"""

_TEXT = (
    """
declare <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr>, i32, <16 x i1>, <16 x i32>)
declare <16 x i16> @llvm.masked.expandload.v16i16(ptr, <16 x i1>, <16 x i16>)
declare void @llvm.masked.compressstore.v16i16(<16 x i16>, ptr, <16 x i1>)
declare i16 @llvm.ctpop.i16(i16)
declare <16 x i32> @llvm.cttz.v16i32(<16 x i32>, i1)

define weak_odr i64 @kvzip_take16(ptr %lanes, ptr %place, ptr %slots, ptr %codes, ptr %words, ptr %out, i32 %bits)
    alwaysinline nounwind {
  %x = load <16 x i32>, ptr %lanes, align 4
  %from = load <16 x i32>, ptr %place, align 4
  %b0 = insertelement <16 x i32> poison, i32 %bits, i64 0
  %b = shufflevector <16 x i32> %b0, <16 x i32> poison, <16 x i32> zeroinitializer
  %total = shl i32 1, %bits
  %mask1 = sub i32 %total, 1
  %mask0 = insertelement <16 x i32> poison, i32 %mask1, i64 0
  %mask = shufflevector <16 x i32> %mask0, <16 x i32> poison, <16 x i32> zeroinitializer
  %slot = and <16 x i32> %x, %mask
  %at = add <16 x i32> %slot, %from
  %at64 = sext <16 x i32> %at to <16 x i64>
  %atp = getelementptr i16, ptr %slots, <16 x i64> %at64
  %pair = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %atp, i32 2, <16 x i1> splat (i1 true),
    <16 x i32> poison)
  %entry = and <16 x i32> %pair, splat (i32 65535)
  %entry64 = sext <16 x i32> %entry to <16 x i64>
  %entryp = getelementptr i32, ptr %codes, <16 x i64> %entry64
  %code = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %entryp, i32 4, <16 x i1> splat (i1 true),
    <16 x i32> poison)
  %freq = and <16 x i32> %code, splat (i32 65535)
  %start = lshr <16 x i32> %code, splat (i32 16)
  %top = lshr <16 x i32> %x, %b
  %product = mul <16 x i32> %freq, %top
  %sum = add <16 x i32> %product, %slot
  %y = sub <16 x i32> %sum, %start
  %low = icmp ult <16 x i32> %y, splat (i32 65536)
  %w16 = call <16 x i16> @llvm.masked.expandload.v16i16(ptr %words, <16 x i1> %low, <16 x i16> zeroinitializer)
  %w = zext <16 x i16> %w16 to <16 x i32>
  %up = shl <16 x i32> %y, splat (i32 16)
  %filled = or <16 x i32> %up, %w
  %z = select <16 x i1> %low, <16 x i32> %filled, <16 x i32> %y
  store <16 x i32> %z, ptr %lanes, align 4
  store <16 x i32> %entry, ptr %out, align 4
  %bitmap = bitcast <16 x i1> %low to i16
  %n16 = call i16 @llvm.ctpop.i16(i16 %bitmap)
  %n = zext i16 %n16 to i64
  ret i64 %n
}

define weak_odr i64 @kvzip_low16(ptr %lanes, ptr %widths, ptr %words, ptr %out, i32 %bits) alwaysinline nounwind {
  %x = load <16 x i32>, ptr %lanes, align 4
  %width = load <16 x i32>, ptr %widths, align 4
  %b0 = insertelement <16 x i32> poison, i32 %bits, i64 0
  %b = shufflevector <16 x i32> %b0, <16 x i32> poison, <16 x i32> zeroinitializer
  %total = shl i32 1, %bits
  %mask1 = sub i32 %total, 1
  %mask0 = insertelement <16 x i32> poison, i32 %mask1, i64 0
  %mask = shufflevector <16 x i32> %mask0, <16 x i32> poison, <16 x i32> zeroinitializer
  %keep = sub <16 x i32> %b, %width
  %slot = and <16 x i32> %x, %mask
  %value = lshr <16 x i32> %slot, %keep
  store <16 x i32> %value, ptr %out, align 4
  %lifted = shl <16 x i32> %value, %keep
  %rest = sub <16 x i32> %slot, %lifted
  %top = lshr <16 x i32> %x, %b
  %shifted = shl <16 x i32> %top, %keep
  %y = or <16 x i32> %shifted, %rest
  %low = icmp ult <16 x i32> %y, splat (i32 65536)
  %w16 = call <16 x i16> @llvm.masked.expandload.v16i16(ptr %words, <16 x i1> %low, <16 x i16> zeroinitializer)
  %w = zext <16 x i16> %w16 to <16 x i32>
  %up = shl <16 x i32> %y, splat (i32 16)
  %filled = or <16 x i32> %up, %w
  %z = select <16 x i1> %low, <16 x i32> %filled, <16 x i32> %y
  store <16 x i32> %z, ptr %lanes, align 4
  %bitmap = bitcast <16 x i1> %low to i16
  %n16 = call i16 @llvm.ctpop.i16(i16 %bitmap)
  %n = zext i16 %n16 to i64
  ret i64 %n
}

define weak_odr i64 @kvzip_code16(ptr %symbols, ptr %place, ptr %codes, ptr %out) alwaysinline nounwind {
  %s8 = load <16 x i8>, ptr %symbols, align 1
  %s = zext <16 x i8> %s8 to <16 x i32>
  %from = load <16 x i32>, ptr %place, align 4
  %at = add <16 x i32> %s, %from
  %at64 = sext <16 x i32> %at to <16 x i64>
  %atp = getelementptr i32, ptr %codes, <16 x i64> %at64
  %code = call <16 x i32> @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %atp, i32 4, <16 x i1> splat (i1 true),
    <16 x i32> poison)
  store <16 x i32> %code, ptr %out, align 4
  %none = icmp eq <16 x i32> %code, zeroinitializer
  %bitmap = bitcast <16 x i1> %none to i16
  %r = zext i16 %bitmap to i64
  ret i64 %r
}

define weak_odr i64 @kvzip_put16(ptr %codes, ptr %lanes, ptr %words, i32 %bits) alwaysinline nounwind {
  %code = load <16 x i32>, ptr %codes, align 4
"""
    + _FLUSH
    + """  %yf = uitofp <16 x i32> %y to <16 x float>
  %ff = uitofp <16 x i32> %freq to <16 x float>
  %qf = fdiv <16 x float> %yf, %ff
  %q0 = fptoui <16 x float> %qf to <16 x i32>
  %p0 = mul <16 x i32> %q0, %freq
  %r0 = sub <16 x i32> %y, %p0
  %over = icmp slt <16 x i32> %r0, zeroinitializer
  %r0up = add <16 x i32> %r0, %freq
  %q0down = sub <16 x i32> %q0, splat (i32 1)
  %r1 = select <16 x i1> %over, <16 x i32> %r0up, <16 x i32> %r0
  %q1 = select <16 x i1> %over, <16 x i32> %q0down, <16 x i32> %q0
  %under = icmp sge <16 x i32> %r1, %freq
  %r1down = sub <16 x i32> %r1, %freq
  %q1up = add <16 x i32> %q1, splat (i32 1)
  %r = select <16 x i1> %under, <16 x i32> %r1down, <16 x i32> %r1
  %q = select <16 x i1> %under, <16 x i32> %q1up, <16 x i32> %q1
  %qs = shl <16 x i32> %q, %b
  %qr = add <16 x i32> %qs, %r
  %z = add <16 x i32> %qr, %start
  store <16 x i32> %z, ptr %lanes, align 4
  ret i64 %n
}

define weak_odr i64 @kvzip_putpair16(ptr %codes, ptr %lows, ptr %lanes, ptr %words, i32 %bits)
    alwaysinline nounwind {
  %code = load <16 x i32>, ptr %lows, align 4
"""
    + _FLUSH
    + """  %keep = call <16 x i32> @llvm.cttz.v16i32(<16 x i32> %freq, i1 true)
  %q = lshr <16 x i32> %y, %keep
  %below = sub <16 x i32> %freq, splat (i32 1)
  %r = and <16 x i32> %y, %below
  %qs = shl <16 x i32> %q, %b
  %qr = add <16 x i32> %qs, %r
  %z = add <16 x i32> %qr, %start
  store <16 x i32> %z, ptr %lanes, align 4
  %m = call i64 @kvzip_put16(ptr %codes, ptr %lanes, ptr %wordp, i32 %bits)
  %both = add i64 %n, %m
  ret i64 %both
}
"""
)


def _call(name: str, context: Any, builder: Any, kinds: Any, values: Any, pairs: int) -> Any:
    """Call a function of the text with pointers made of (array, index) pairs, then a number if one is left."""
    library = context.active_code_library
    module = llvm.parse_assembly(_TEXT)
    module.name = "kvzip.vector"
    module.triple = llvm.get_process_triple()
    module.verify()
    library.add_llvm_module(module)
    arguments = []
    for at in range(0, 2 * pairs, 2):
        data = data_of(context, builder, kinds[at], values[at])
        arguments.append(cgutils.gep(builder, data, context.cast(builder, values[at + 1], kinds[at + 1], types.intp)))
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
