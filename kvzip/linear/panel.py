"""The inner loops of the sweep, on vectors of 16 floats: multiplications, additions and subtractions, never fused.

A *tile* is 16 rows of 16 columns of L, 256 floats. For row r of a tile, with what the row got from the token before
(residual e, gain g) and from this token (residual n), for each of its columns:

    x -= L * e;  L += g * x;  p += L * n

    row16     one row of one tile
    known16   the 16 rows of a tile on the diagonal, where this token's values are known: n = y - p, row by row
    panel16   all rows of successive tiles

LLVM would not keep x and p in registers by itself, so the loops are given to it as text. Without flags it may
neither fuse nor reorder, so every CPU computes the same bits. The functions below the text are the slow twins, which
are used when the compiler is off or checks bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kvzip.coder.jit import kernel
from kvzip.coder.memory import place_of

SIDE = 16
TILE = SIDE * SIDE

_V = "<16 x float>"


def _splat(name: str, scalar: str) -> str:
    return (
        f"  %{name}i = insertelement {_V} poison, float {scalar}, i64 0\n"
        f"  %{name} = shufflevector {_V} %{name}i, {_V} poison, <16 x i32> zeroinitializer\n"
    )


def _load(name: str, pointer: str, at: int) -> str:
    return (
        f"  %{name}p = getelementptr float, ptr {pointer}, i64 {at}\n  %{name} = load float, ptr %{name}p, align 4\n"
    )


def _row(r: int, x: str, p: str, n: str) -> str:
    """Row ``r`` of the tile at %l; reads x and p from the registers named, leaves them in %x{r} and %p{r}."""
    return (
        f"  %lp{r} = getelementptr float, ptr %l, i64 {r * SIDE}\n"
        f"  %l{r} = load {_V}, ptr %lp{r}, align 4\n"
        f"  %le{r} = fmul {_V} %l{r}, %e{r}\n"
        f"  %x{r} = fsub {_V} {x}, %le{r}\n"
        f"  %gx{r} = fmul {_V} %g{r}, %x{r}\n"
        f"  %ln{r} = fadd {_V} %l{r}, %gx{r}\n"
        f"  store {_V} %ln{r}, ptr %lp{r}, align 4\n"
        f"  %lq{r} = fmul {_V} %ln{r}, {n}\n"
        f"  %p{r} = fadd {_V} {p}, %lq{r}\n"
    )


def _text() -> str:
    head = "alwaysinline nounwind {\n"
    row = "define weak_odr i64 @kvzip_row16(ptr %l, ptr %xs, ptr %ps, float %e, float %g, float %n) " + head
    row += f"  %x = load {_V}, ptr %xs, align 4\n  %p = load {_V}, ptr %ps, align 4\n"
    row += _splat("e0", "%e") + _splat("g0", "%g") + _splat("n0", "%n") + _row(0, "%x", "%p", "%n0")
    row += f"  store {_V} %x0, ptr %xs, align 4\n  store {_V} %p0, ptr %ps, align 4\n  ret i64 0\n}}\n"

    known = "define weak_odr i64 @kvzip_known16(ptr %l, ptr %xs, ptr %ps, ptr %es, ptr %gs, ptr %ns, ptr %ys) " + head
    known += f"  %x = load {_V}, ptr %xs, align 4\n  %p = load {_V}, ptr %ps, align 4\n"
    for r in range(SIDE):
        x, p = ("%x", "%p") if r == 0 else (f"%x{r - 1}", f"%p{r - 1}")
        known += _load(f"es{r}", "%es", r) + _load(f"gs{r}", "%gs", r) + _load(f"y{r}", "%ys", r)
        known += f"  %pr{r} = extractelement {_V} {p}, i64 {r}\n  %ns{r} = fsub float %y{r}, %pr{r}\n"
        known += f"  %np{r} = getelementptr float, ptr %ns, i64 {r}\n  store float %ns{r}, ptr %np{r}, align 4\n"
        known += _splat(f"e{r}", f"%es{r}") + _splat(f"g{r}", f"%gs{r}") + _splat(f"n{r}", f"%ns{r}")
        known += _row(r, x, p, f"%n{r}")
    known += f"  store {_V} %x15, ptr %xs, align 4\n  store {_V} %p15, ptr %ps, align 4\n  ret i64 0\n}}\n"

    panel = "define weak_odr i64 @kvzip_panel16(ptr %ls, ptr %xs, ptr %ps, ptr %es, ptr %gs, ptr %ns, i64 %tiles) "
    panel += head + "entry:\n"
    panel += "  %some = icmp sgt i64 %tiles, 0\n  br i1 %some, label %loop, label %done\nloop:\n"
    panel += "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
    panel += f"  %lat = mul i64 %i, {TILE}\n  %cat = mul i64 %i, {SIDE}\n"
    panel += "  %l = getelementptr float, ptr %ls, i64 %lat\n"
    panel += "  %xp = getelementptr float, ptr %xs, i64 %cat\n  %pp = getelementptr float, ptr %ps, i64 %cat\n"
    panel += f"  %x = load {_V}, ptr %xp, align 4\n  %p = load {_V}, ptr %pp, align 4\n"
    for r in range(SIDE):
        x, p = ("%x", "%p") if r == 0 else (f"%x{r - 1}", f"%p{r - 1}")
        panel += _load(f"es{r}", "%es", r) + _load(f"gs{r}", "%gs", r) + _load(f"ns{r}", "%ns", r)
        panel += _splat(f"e{r}", f"%es{r}") + _splat(f"g{r}", f"%gs{r}") + _splat(f"n{r}", f"%ns{r}")
        panel += _row(r, x, p, f"%n{r}")
    panel += f"  store {_V} %x15, ptr %xp, align 4\n  store {_V} %p15, ptr %pp, align 4\n"
    panel += "  %next = add i64 %i, 1\n  %more = icmp slt i64 %next, %tiles\n"
    panel += "  br i1 %more, label %loop, label %done\ndone:\n  ret i64 0\n}\n"
    return row + known + panel


_TEXT = _text()


def _maker(name: str, pairs: int) -> Callable[[Any, Any, Any, Any], Any]:
    """Code for a call of ``name`` with pointers made of (array, index) pairs, then numbers as they are."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        library = context.active_code_library
        module = llvm.parse_assembly(_TEXT)
        module.name = "kvzip.panel"
        module.triple = llvm.get_process_triple()
        module.verify()
        library.add_llvm_module(module)
        kinds = signature.args
        arguments = []
        for at in range(0, 2 * pairs, 2):
            arguments.append(place_of(context, builder, kinds[at], values[at], kinds[at + 1], values[at + 1]))
        for at in range(2 * pairs, len(kinds)):
            wanted = types.float32 if isinstance(kinds[at], types.Float) else types.int64
            arguments.append(context.cast(builder, values[at], kinds[at], wanted))
        kind = ir.FunctionType(ir.IntType(64), [argument.type for argument in arguments])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)

    return codegen


@intrinsic
def _row16(typingctx, l, at, x, xat, p, pat, e, g, n):  # type: ignore[no-untyped-def]  # noqa: E741
    """One row of one tile."""
    return types.int64(l, at, x, xat, p, pat, e, g, n), _maker("kvzip_row16", 3)


@intrinsic
def _known16(typingctx, l, at, x, xat, p, pat, e, eat, g, gat, n, nat, y, yat):  # type: ignore[no-untyped-def]  # noqa: E741
    """A tile on the diagonal whose values are known; fills n."""
    return types.int64(l, at, x, xat, p, pat, e, eat, g, gat, n, nat, y, yat), _maker("kvzip_known16", 7)


@intrinsic
def _panel16(typingctx, l, at, x, xat, p, pat, e, eat, g, gat, n, nat, tiles):  # type: ignore[no-untyped-def]  # noqa: E741
    """``tiles`` tiles of the same 16 rows."""
    return types.int64(l, at, x, xat, p, pat, e, eat, g, gat, n, nat, tiles), _maker("kvzip_panel16", 6)


def _slow_row(l, at, x, xat, p, pat, e, g, n):  # type: ignore[no-untyped-def]  # noqa: E741
    for j in range(SIDE):
        x[xat + j] -= l[at + j] * e
        l[at + j] += g * x[xat + j]
        p[pat + j] += l[at + j] * n


def _slow_known(l, at, x, xat, p, pat, e, eat, g, gat, n, nat, y, yat):  # type: ignore[no-untyped-def]  # noqa: E741
    for r in range(SIDE):
        n[nat + r] = y[yat + r] - p[pat + r]
        for j in range(SIDE):
            x[xat + j] -= l[at + r * SIDE + j] * e[eat + r]
            l[at + r * SIDE + j] += g[gat + r] * x[xat + j]
            p[pat + j] += l[at + r * SIDE + j] * n[nat + r]


def _slow_panel(l, at, x, xat, p, pat, e, eat, g, gat, n, nat, tiles):  # type: ignore[no-untyped-def]  # noqa: E741
    for c in range(tiles):
        for r in range(SIDE):
            for j in range(SIDE):
                k = at + c * TILE + r * SIDE + j
                x[xat + c * SIDE + j] -= l[k] * e[eat + r]
                l[k] += g[gat + r] * x[xat + c * SIDE + j]
                p[pat + c * SIDE + j] += l[k] * n[nat + r]


def _choose() -> tuple[Any, Any, Any]:
    config: Any = numba.config
    if config.DISABLE_JIT:
        return _slow_row, _slow_known, _slow_panel
    if config.BOUNDSCHECK:
        return kernel(_slow_row), kernel(_slow_known), kernel(_slow_panel)
    return _row16, _known16, _panel16


row16, known16, panel16 = _choose()
