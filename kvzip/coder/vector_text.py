"""The vector code of ``coder.vector`` in LLVM's language: sixteen lanes, whatever the width of the CPU's registers.

Three things are done as the instruction set can: a gather, and the two that move the words of chosen lanes.

    gather16    a number from each of sixteen places
    expand16    so many successive words into the lanes of a mask, 0 into the others, and how many those were
    compress16  the low halves of a mask's lanes to just before an address, and how many

AVX-512 VBMI2 has instructions for all of them. AVX2 looks numbers up one by one, and moves eight words at a time by a
table of byte shuffles: it reads up to sixteen words from where it starts and writes up to sixteen before where it
ends, wanted or not.
"""

from __future__ import annotations

_V = "<16 x i32>"


def _splat(name: str, scalar: str) -> str:
    """``%name``: sixteen times a scalar."""
    return (
        f"  %{name}0 = insertelement {_V} poison, i32 {scalar}, i64 0\n"
        f"  %{name} = shufflevector {_V} %{name}0, {_V} poison, {_V} zeroinitializer\n"
    )


# Both puts begin so: room is made in each state %x that %code would overflow, which leaves %y; %n words go out.
_FLUSH = f"""  %x = load {_V}, ptr %lanes, align 4
  %freq = and {_V} %code, splat (i32 65535)
  %start = lshr {_V} %code, splat (i32 16)
{_splat("b", "%bits")}
  %restbits = sub i32 32, %bits
{_splat("rest", "%restbits")}
  %top = lshr {_V} %x, %rest
  %full = icmp uge {_V} %top, %freq
  %n = call i64 @kvzip_compress16({_V} %x, ptr %words, <16 x i1> %full)
  %shifted = lshr {_V} %x, splat (i32 16)
  %y = select <16 x i1> %full, {_V} %shifted, {_V} %x
"""

# Both takes begin so: what a state says of its next symbol, %slot, and the rest of it, %top.
_SLOT = f"""  %x = load {_V}, ptr %lanes, align 4
{_splat("b", "%bits")}
  %total = shl i32 1, %bits
  %below = sub i32 %total, 1
{_splat("mask", "%below")}
  %slot = and {_V} %x, %mask
  %top = lshr {_V} %x, %b
"""

# Both takes end so: what has fallen below its floor gets a word.
_REFILL = f"""  %low = icmp ult {_V} %y, splat (i32 65536)
  %read = call {{ <16 x i16>, i64 }} @kvzip_expand16(ptr %words, <16 x i1> %low)
  %w16 = extractvalue {{ <16 x i16>, i64 }} %read, 0
  %n = extractvalue {{ <16 x i16>, i64 }} %read, 1
  %w = zext <16 x i16> %w16 to {_V}
  %up = shl {_V} %y, splat (i32 16)
  %filled = or {_V} %up, %w
  %z = select <16 x i1> %low, {_V} %filled, {_V} %y
  store {_V} %z, ptr %lanes, align 4
"""

_STEPS = f"""
define weak_odr i64 @kvzip_take16(ptr %lanes, ptr %place, ptr %slots, ptr %codes, ptr %words, ptr %out, i32 %bits)
    alwaysinline nounwind {{
{_SLOT}  %from = load {_V}, ptr %place, align 4
  %at = add {_V} %slot, %from
  %entry = call {_V} @kvzip_gather16_16(ptr %slots, {_V} %at)
  %code = call {_V} @kvzip_gather16_32(ptr %codes, {_V} %entry)
  store {_V} %entry, ptr %out, align 4
  %freq = and {_V} %code, splat (i32 65535)
  %start = lshr {_V} %code, splat (i32 16)
  %product = mul {_V} %freq, %top
  %sum = add {_V} %product, %slot
  %y = sub {_V} %sum, %start
{_REFILL}  ret i64 %n
}}

define weak_odr i64 @kvzip_low16(ptr %lanes, ptr %widths, ptr %words, ptr %out, i32 %bits) alwaysinline nounwind {{
{_SLOT}  %width = load {_V}, ptr %widths, align 4
  %keep = sub {_V} %b, %width
  %value = lshr {_V} %slot, %keep
  store {_V} %value, ptr %out, align 4
  %lifted = shl {_V} %value, %keep
  %left = sub {_V} %slot, %lifted
  %shifted = shl {_V} %top, %keep
  %y = or {_V} %shifted, %left
{_REFILL}  ret i64 %n
}}

define weak_odr i64 @kvzip_code16(ptr %symbols, ptr %place, ptr %codes, ptr %out) alwaysinline nounwind {{
  %s8 = load <16 x i8>, ptr %symbols, align 1
  %s = zext <16 x i8> %s8 to {_V}
  %from = load {_V}, ptr %place, align 4
  %at = add {_V} %s, %from
  %code = call {_V} @kvzip_gather16_32(ptr %codes, {_V} %at)
  store {_V} %code, ptr %out, align 4
  %none = icmp eq {_V} %code, zeroinitializer
  %bitmap = bitcast <16 x i1> %none to i16
  %r = zext i16 %bitmap to i64
  ret i64 %r
}}

define weak_odr i64 @kvzip_put16(ptr %codes, ptr %lanes, ptr %words, i32 %bits) alwaysinline nounwind {{
  %code = load {_V}, ptr %codes, align 4
{_FLUSH}  %yf = uitofp {_V} %y to <16 x float>
  %ff = sitofp {_V} %freq to <16 x float>
  %qf = fdiv <16 x float> %yf, %ff
  %q0 = fptosi <16 x float> %qf to {_V}
  %p0 = mul {_V} %q0, %freq
  %r0 = sub {_V} %y, %p0
  %over = icmp slt {_V} %r0, zeroinitializer
  %r0up = add {_V} %r0, %freq
  %q0down = sub {_V} %q0, splat (i32 1)
  %r1 = select <16 x i1> %over, {_V} %r0up, {_V} %r0
  %q1 = select <16 x i1> %over, {_V} %q0down, {_V} %q0
  %under = icmp sge {_V} %r1, %freq
  %r1down = sub {_V} %r1, %freq
  %q1up = add {_V} %q1, splat (i32 1)
  %r = select <16 x i1> %under, {_V} %r1down, {_V} %r1
  %q = select <16 x i1> %under, {_V} %q1up, {_V} %q1
  %qs = shl {_V} %q, %b
  %qr = add {_V} %qs, %r
  %z = add {_V} %qr, %start
  store {_V} %z, ptr %lanes, align 4
  ret i64 %n
}}

define weak_odr i64 @kvzip_putpair16(ptr %codes, ptr %lows, ptr %lanes, ptr %words, i32 %bits)
    alwaysinline nounwind {{
  %code = load {_V}, ptr %lows, align 4
{_FLUSH}  %keep = call {_V} @kvzip_log16({_V} %freq)
  %q = lshr {_V} %y, %keep
  %below = sub {_V} %freq, splat (i32 1)
  %r = and {_V} %y, %below
  %qs = shl {_V} %q, %b
  %qr = add {_V} %qs, %r
  %z = add {_V} %qr, %start
  store {_V} %z, ptr %lanes, align 4
  %back = sub i64 0, %n
  %wordp = getelementptr i16, ptr %words, i64 %back
  %m = call i64 @kvzip_put16(ptr %codes, ptr %lanes, ptr %wordp, i32 %bits)
  %both = add i64 %n, %m
  ret i64 %both
}}
"""

_AVX512 = f"""
declare {_V} @llvm.masked.gather.v16i32.v16p0(<16 x ptr>, i32, <16 x i1>, {_V})
declare <16 x i16> @llvm.masked.expandload.v16i16(ptr, <16 x i1>, <16 x i16>)
declare void @llvm.masked.compressstore.v16i16(<16 x i16>, ptr, <16 x i1>)
declare i16 @llvm.ctpop.i16(i16)
declare {_V} @llvm.cttz.v16i32({_V}, i1)

define weak_odr {_V} @kvzip_gather16_16(ptr %base, {_V} %at) alwaysinline nounwind {{
  %at64 = sext {_V} %at to <16 x i64>
  %p = getelementptr i16, ptr %base, <16 x i64> %at64
  %pair = call {_V} @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %p, i32 2, <16 x i1> splat (i1 true), {_V} poison)
  %r = and {_V} %pair, splat (i32 65535)
  ret {_V} %r
}}

define weak_odr {_V} @kvzip_gather16_32(ptr %base, {_V} %at) alwaysinline nounwind {{
  %at64 = sext {_V} %at to <16 x i64>
  %p = getelementptr i32, ptr %base, <16 x i64> %at64
  %r = call {_V} @llvm.masked.gather.v16i32.v16p0(<16 x ptr> %p, i32 4, <16 x i1> splat (i1 true), {_V} poison)
  ret {_V} %r
}}

define weak_odr {{ <16 x i16>, i64 }} @kvzip_expand16(ptr %words, <16 x i1> %mask) alwaysinline nounwind {{
  %w = call <16 x i16> @llvm.masked.expandload.v16i16(ptr %words, <16 x i1> %mask, <16 x i16> zeroinitializer)
  %bitmap = bitcast <16 x i1> %mask to i16
  %n16 = call i16 @llvm.ctpop.i16(i16 %bitmap)
  %n = zext i16 %n16 to i64
  %r0 = insertvalue {{ <16 x i16>, i64 }} poison, <16 x i16> %w, 0
  %r = insertvalue {{ <16 x i16>, i64 }} %r0, i64 %n, 1
  ret {{ <16 x i16>, i64 }} %r
}}

define weak_odr i64 @kvzip_compress16({_V} %x, ptr %words, <16 x i1> %mask) alwaysinline nounwind {{
  %bitmap = bitcast <16 x i1> %mask to i16
  %n16 = call i16 @llvm.ctpop.i16(i16 %bitmap)
  %n = zext i16 %n16 to i64
  %back = sub i64 0, %n
  %wordp = getelementptr i16, ptr %words, i64 %back
  %w = trunc {_V} %x to <16 x i16>
  call void @llvm.masked.compressstore.v16i16(<16 x i16> %w, ptr %wordp, <16 x i1> %mask)
  ret i64 %n
}}

define weak_odr {_V} @kvzip_log16({_V} %x) alwaysinline nounwind {{
  %r = call {_V} @llvm.cttz.v16i32({_V} %x, i1 true)
  ret {_V} %r
}}
"""


def _shuffles(name: str, compressing: bool) -> str:
    """A table of byte shuffles by the mask of eight words: of the next words into its lanes, or of its lanes to the
    end of a vector. A byte of 128 makes a zero."""
    rows = []
    for mask in range(256):
        lanes = [lane for lane in range(8) if mask >> lane & 1]
        row = [128] * 16
        for number, lane in enumerate(lanes):
            source, target = (lane, 8 - len(lanes) + number) if compressing else (number, lane)
            row[2 * target : 2 * target + 2] = [2 * source, 2 * source + 1]
        rows.append("<16 x i8> <" + ", ".join(f"i8 {byte}" for byte in row) + ">")
    return f"@{name} = linkonce_odr constant [256 x <16 x i8>] [" + ",\n".join(rows) + "], align 16\n"


def _lookups(bits: int) -> str:
    """``gather16`` of numbers of so many bits, one by one."""
    text = f"\ndefine weak_odr {_V} @kvzip_gather16_{bits}(ptr %base, {_V} %at) alwaysinline nounwind {{\n"
    before = "poison"
    for lane in range(16):
        text += (
            f"  %i{lane} = extractelement {_V} %at, i64 {lane}\n"
            f"  %j{lane} = zext i32 %i{lane} to i64\n"
            f"  %p{lane} = getelementptr i{bits}, ptr %base, i64 %j{lane}\n"
            f"  %v{lane} = load i{bits}, ptr %p{lane}, align {bits // 8}\n"
        )
        if bits < 32:
            text += f"  %w{lane} = zext i{bits} %v{lane} to i32\n"
        text += f"  %r{lane} = insertelement {_V} {before}, i32 %{'w' if bits < 32 else 'v'}{lane}, i64 {lane}\n"
        before = f"%r{lane}"
    return text + f"  ret {_V} {before}\n}}\n"


def _halves() -> str:
    """Two bytes %b0 and %b1 of a mask, as numbers, and how many bits %n0 and %n1 they have."""
    text = ""
    for half in range(2):
        lanes = ", ".join(f"i32 {8 * half + lane}" for lane in range(8))
        text += (
            f"  %m{half} = shufflevector <16 x i1> %mask, <16 x i1> poison, <8 x i32> <{lanes}>\n"
            f"  %c{half} = bitcast <8 x i1> %m{half} to i8\n"
            f"  %b{half} = zext i8 %c{half} to i64\n"
            f"  %n{half} = call i64 @llvm.ctpop.i64(i64 %b{half})\n"
        )
    return text


_ALL = ", ".join(f"i32 {lane}" for lane in range(16))
_AVX2 = (
    _shuffles("kvzip_expanding", False)
    + _shuffles("kvzip_compressing", True)
    + _lookups(16)
    + _lookups(32)
    + f"""
declare i64 @llvm.ctpop.i64(i64)
declare <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8>, <16 x i8>)

define weak_odr {{ <16 x i16>, i64 }} @kvzip_expand16(ptr %words, <16 x i1> %mask) alwaysinline nounwind {{
{_halves()}
  %s0p = getelementptr <16 x i8>, ptr @kvzip_expanding, i64 %b0
  %s1p = getelementptr <16 x i8>, ptr @kvzip_expanding, i64 %b1
  %s0 = load <16 x i8>, ptr %s0p, align 16
  %s1 = load <16 x i8>, ptr %s1p, align 16
  %nextp = getelementptr i16, ptr %words, i64 %n0
  %w0 = load <16 x i8>, ptr %words, align 1
  %w1 = load <16 x i8>, ptr %nextp, align 1
  %e0 = call <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8> %w0, <16 x i8> %s0)
  %e1 = call <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8> %w1, <16 x i8> %s1)
  %v0 = bitcast <16 x i8> %e0 to <8 x i16>
  %v1 = bitcast <16 x i8> %e1 to <8 x i16>
  %v = shufflevector <8 x i16> %v0, <8 x i16> %v1, <16 x i32> <{_ALL}>
  %n = add i64 %n0, %n1
  %r0 = insertvalue {{ <16 x i16>, i64 }} poison, <16 x i16> %v, 0
  %r = insertvalue {{ <16 x i16>, i64 }} %r0, i64 %n, 1
  ret {{ <16 x i16>, i64 }} %r
}}

define weak_odr i64 @kvzip_compress16({_V} %x, ptr %words, <16 x i1> %mask) alwaysinline nounwind {{
{_halves()}
  %s0p = getelementptr <16 x i8>, ptr @kvzip_compressing, i64 %b0
  %s1p = getelementptr <16 x i8>, ptr @kvzip_compressing, i64 %b1
  %s0 = load <16 x i8>, ptr %s0p, align 16
  %s1 = load <16 x i8>, ptr %s1p, align 16
  %w = trunc {_V} %x to <16 x i16>
  %bytes = bitcast <16 x i16> %w to <32 x i8>
  %w0 = shufflevector <32 x i8> %bytes, <32 x i8> poison, <16 x i32> <{_ALL}>
  %w1 = shufflevector <32 x i8> %bytes, <32 x i8> poison, <16 x i32> <{", ".join(f"i32 {16 + i}" for i in range(16))}>
  %e0 = call <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8> %w0, <16 x i8> %s0)
  %e1 = call <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8> %w1, <16 x i8> %s1)
  %p1 = getelementptr i16, ptr %words, i64 -8
  store <16 x i8> %e1, ptr %p1, align 1
  %back = sub i64 -8, %n1
  %p0 = getelementptr i16, ptr %words, i64 %back
  store <16 x i8> %e0, ptr %p0, align 1
  %n = add i64 %n0, %n1
  ret i64 %n
}}

define weak_odr {_V} @kvzip_log16({_V} %x) alwaysinline nounwind {{
  %f = sitofp {_V} %x to <16 x float>
  %bits = bitcast <16 x float> %f to {_V}
  %exponent = lshr {_V} %bits, splat (i32 23)
  %r = sub {_V} %exponent, splat (i32 127)
  ret {_V} %r
}}
"""
)

TEXT = {512: _AVX512 + _STEPS, 256: _AVX2 + _STEPS}
"""By the width of the registers in bits; only that of 512 is for any CPU, if slow."""
