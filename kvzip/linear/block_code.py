"""One block of 16 own columns: its values are coded one by one, while the sweep over the block before goes on.

After each value (or pair) its row of the diagonal tile is swept, which completes the prediction of the next; then
come a few tiles of the block before, which nothing here waits for: they fill the time in which a value's symbol is
found.

``place`` is (first column, first own column, ``back``: how far the second recursion's columns lie before the first
one's, where the token's row of ``draft`` starts, whether values are ``coarse``); ``tiles`` is (diagonal, diagonal of
the second, rest, rest of the second, tiles of the rest); ``flow`` is (energy, values coded of this token, state,
other lane's state, next word, next symbol).

A value is coded as it is, with the draft's number added to what is expected of it; all else knows only what the draft
leaves of it. Where values are coarse, that is what it was on average before it was rounded.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import step
from kvzip.coder.memory import peek, poke
from kvzip.linear.panel import SIDE, TILE, panel16, row16
from kvzip.linear.posterior import MOMENTS, posterior
from kvzip.linear.quantile import INVERSE_ROW, ROW
from kvzip.linear.state import ABSURDITIES
from kvzip.linear.symbol_code import code

ABSURD = np.float32(1e4)  # of a normalised value: such values leave the statistics alone
HUGE = np.float32(1e18)
CLIP = np.float32(20.0)  # variances that one value may count as
LEAST_ENERGY = np.float32(1e-3)
ONE = np.float32(1.0)
ZERO = np.float32(0.0)


@step
def settle(one, two, both, j, r, first, back, diagonal, diagonal2, y):  # type: ignore[no-untyped-def]
    """The value of column ``j = first + r`` is known: sweep its row of the diagonal tile."""
    n = y - peek(one.p, j)
    poke(one.n, j, n)
    if diagonal >= 0:
        row16(one.lower, diagonal + r * SIDE, one.x, first, one.p, first, peek(one.e, j), peek(one.g, j), n)
    if both:
        i = j - back
        m = y - peek(two.p, i)
        poke(two.n, i, m)
        f = first - back
        row16(two.lower, diagonal2 + r * SIDE, two.x, f, two.p, f, peek(two.e, i), peek(two.g, i), m)


@step
def fill(one, two, both, first, back, rest, rest2, tiles, part, chunk):  # type: ignore[no-untyped-def]
    """Part ``part``, ``chunk`` tiles, of the block before, over the ``tiles`` columns of tiles after this block."""
    t = min(chunk * part, tiles)
    more = min(chunk, tiles - t)
    c = first + SIDE * (1 + t)
    r = first - SIDE
    panel16(one.lower, rest + t * TILE, one.x, c, one.p, c, one.e, r, one.g, r, one.n, r, more)
    if both:
        c -= back
        r -= back
        panel16(two.lower, rest2 + t * TILE, two.x, c, two.p, c, two.e, r, two.g, r, two.n, r, more)


@step
def expect(one, two, both, cols, j, o, back):  # type: ignore[no-untyped-def]
    """The mean of column ``j``."""
    mean = peek(cols.scale, o) * peek(one.p, j) + peek(cols.shift, o)
    if both:
        mean += peek(cols.other, o) * peek(two.p, j - back)
    return mean


@step
def narrow(k, mean, deviation, precision, residual, sym, table_at, moments_at):  # type: ignore[no-untyped-def]
    """The residual's mean and variance, given that the value is ``k``."""
    z, spread = posterior(
        k, mean, precision, sym.edges, sym.table, table_at, sym.moments, moments_at, residual * precision
    )
    return z * deviation, spread * deviation * deviation


@step
def code_pairs(  # type: ignore[no-untyped-def]
    decoding, k, row, draft, place, count, one, two, both, tiles, cols, sym, kind, rates, words, starts, freqs, flow,
):  # fmt: skip
    """A block of pairs; see the module for the arguments."""
    first, base, back, drow, coarse = place
    diagonal, diagonal2, rest, rest2, width = tiles
    energy, seen, mine, other, at, i = flow
    table_at = kind * ROW
    inverse_at = kind * INVERSE_ROW
    moments_at = kind * MOMENTS
    loud = np.sqrt(max(energy, LEAST_ENERGY))
    quiet = ONE / loud
    chunk = (width + count - 1) // count  # the same for as many parts as possible: branches are foreseen
    for q in range(count):
        j = first + 2 * q
        o = j - base
        c = peek(cols.cosine, o)
        s = peek(cols.sine, o)
        ma = expect(one, two, both, cols, j, o, back)
        mb = expect(one, two, both, cols, j + 1, o + 1, back)
        d1 = peek(draft, drow + o)
        d2 = peek(draft, drow + o + 1)
        m1 = c * ma - s * mb
        k1, mine, other, at, i = code(
            decoding, np.int64(peek(k, row + o)),
            peek(sym.run, o), peek(sym.last, o), m1 + d1, peek(cols.deviation, o) * loud,
            peek(cols.precision, o) * quiet, sym.edges, sym.table, table_at, sym.inverse, inverse_at, sym.shape,
            sym.linear, mine, other, words, at, starts, freqs, i,
        )  # fmt: skip
        v1 = peek(sym.values, k1) - d1
        r1 = v1 - m1
        deviation2 = peek(cols.deviation, o + 1) * loud
        p2 = peek(cols.precision, o + 1)
        precision2 = p2 * quiet
        u1 = u2 = ZERO
        if coarse:
            r1, u1 = narrow(
                k1, m1 + d1, peek(cols.deviation, o) * loud, peek(cols.precision, o) * quiet, r1, sym, table_at,
                moments_at,
            )  # fmt: skip
            v1 = m1 + r1
            h = peek(cols.slope, o)
            deviation2 = np.sqrt(deviation2 * deviation2 + h * h * u1)
            precision2 = ONE / deviation2
            p2 = precision2 * loud
        m2 = s * ma + c * mb + (peek(cols.slope, o) * r1 if abs(r1) < HUGE else ZERO)
        k2, mine, other, at, i = code(
            decoding, np.int64(peek(k, row + o + 1)),
            peek(sym.run, o + 1), peek(sym.last, o + 1), m2 + d2,
            deviation2, precision2, sym.edges, sym.table, table_at,
            sym.inverse, inverse_at, sym.shape, sym.linear, mine, other, words, at, starts, freqs, i,
        )  # fmt: skip
        v2 = peek(sym.values, k2) - d2
        r2 = v2 - m2
        if coarse:
            r2, u2 = narrow(k2, m2 + d2, deviation2, precision2, r2, sym, table_at, moments_at)
            v2 = m2 + r2
        if decoding:
            poke(k, row + o, np.uint16(k1))
            poke(k, row + o + 1, np.uint16(k2))
        z1 = r1 * peek(cols.precision, o)
        z2 = r2 * p2
        va = c * v1 + s * v2
        vb = c * v2 - s * v1
        ya = (va - peek(cols.centre, o)) * peek(cols.inverse, o)
        yb = (vb - peek(cols.centre, o + 1)) * peek(cols.inverse, o + 1)
        if not (abs(ya) < ABSURD and abs(yb) < ABSURD):
            ya, yb, va, vb = peek(one.p, j), peek(one.p, j + 1), ma, mb
            z1 = z2 = ONE
            u1 = u2 = ZERO
            poke(sym.shape, ABSURDITIES, peek(sym.shape, ABSURDITIES) + 2)
        poke(cols.residual, o, va - ma)
        poke(cols.residual, o + 1, vb - mb)
        poke(cols.value, o, va)
        poke(cols.value, o + 1, vb)
        poke(cols.y, j, ya)
        poke(cols.y, j + 1, yb)
        settle(one, two, both, j, 2 * q, first, back, diagonal, diagonal2, ya)
        settle(one, two, both, j + 1, 2 * q + 1, first, back, diagonal, diagonal2, yb)
        if q & 1 == 0:
            loud = np.sqrt(max(energy, LEAST_ENERGY))  # of all but the last pair: nothing waits for it
            quiet = ONE / loud
        q1 = z1 * z1
        q2 = z2 * z2
        if coarse:
            poke(cols.blur, o, c * c * u1 + s * s * u2)
            poke(cols.blur, o + 1, s * s * u1 + c * c * u2)
            poke(cols.twist, o, c * s * (u2 - u1))
            q1 += u1 * peek(cols.precision, o) * peek(cols.precision, o)
            q2 += u2 * p2 * p2
        energy += (min(q1, CLIP) - energy) * peek(rates, seen)
        energy += (min(q2, CLIP) - energy) * peek(rates, seen + 1)
        seen += 2
        fill(one, two, both, first, back, rest, rest2, width, q, chunk)
    return energy, seen, mine, other, at, i


@step
def code_singles(  # type: ignore[no-untyped-def]
    decoding, k, row, draft, place, count, one, two, both, tiles, cols, sym, kind, rates, words, starts, freqs, flow,
):  # fmt: skip
    """A block of single values."""
    first, base, back, drow, coarse = place
    diagonal, diagonal2, rest, rest2, width = tiles
    energy, seen, mine, other, at, i = flow
    table_at = kind * ROW
    inverse_at = kind * INVERSE_ROW
    moments_at = kind * MOMENTS
    loud = np.sqrt(max(energy, LEAST_ENERGY))
    quiet = ONE / loud
    chunk = (width + count - 1) // count  # the same for as many parts as possible: branches are foreseen
    for q in range(count):
        j = first + q
        o = j - base
        d = peek(draft, drow + o)
        m = expect(one, two, both, cols, j, o, back)
        k1, mine, other, at, i = code(
            decoding, np.int64(peek(k, row + o)),
            peek(sym.run, o), peek(sym.last, o), m + d, peek(cols.deviation, o) * loud,
            peek(cols.precision, o) * quiet, sym.edges, sym.table, table_at, sym.inverse, inverse_at, sym.shape,
            sym.linear, mine, other, words, at, starts, freqs, i,
        )  # fmt: skip
        v = peek(sym.values, k1) - d
        if decoding:
            poke(k, row + o, np.uint16(k1))
        r = v - m
        u = ZERO
        if coarse:
            r, u = narrow(
                k1, m + d, peek(cols.deviation, o) * loud, peek(cols.precision, o) * quiet, r, sym, table_at,
                moments_at,
            )  # fmt: skip
            v = m + r
        z = r * peek(cols.precision, o)
        y = (v - peek(cols.centre, o)) * peek(cols.inverse, o)
        if not abs(y) < ABSURD:
            y, v, z, u = peek(one.p, j), m, ONE, ZERO
            poke(sym.shape, ABSURDITIES, peek(sym.shape, ABSURDITIES) + 1)
        poke(cols.residual, o, v - m)
        poke(cols.value, o, v)
        poke(cols.y, j, y)
        settle(one, two, both, j, q, first, back, diagonal, diagonal2, y)
        if q & 3 == 0:
            loud = np.sqrt(max(energy, LEAST_ENERGY))
            quiet = ONE / loud
        z *= z
        if coarse:
            poke(cols.blur, o, u)
            z += u * peek(cols.precision, o) * peek(cols.precision, o)
        energy += (min(z, CLIP) - energy) * peek(rates, seen)
        seen += 1
        fill(one, two, both, first, back, rest, rest2, width, q, chunk)
    return energy, seen, mine, other, at, i
