"""Between two tokens: what the token that was just coded teaches, and what the next one is expected to be.

Every loop runs over a row of columns and has no order to keep but the one written, so it is the same on every CPU.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek, poke
from kvzip.linear.quantile import COUNT_ROW

ONE = np.float32(1.0)
ZERO = np.float32(0.0)
LEAST_ENERGY = np.float32(1e-3)  # of a residual, as a sum over tokens
LEAST_VARIANCE = np.float32(1e-34)
PAIR_FLOOR = np.float32(1e-3)
CLIP = np.float32(20.0)


@borrowing
def gains(r, keep, weight):  # type: ignore[no-untyped-def]
    """Gains of the token's residuals, and the residuals' energies; the residuals move from ``n`` to ``e``.

    With gamma the weight that is left after k columns, 1/gamma grows by n^2/(keep * d) from column to column, and
    the gain is n / (keep * d) * gamma of the next column: no division waits for another.
    """
    count = len(r.n)
    for k in range(count):
        old = keep * peek(r.d, k)
        per = peek(r.n, k) / old
        poke(r.d, k, old)
        poke(r.g, k, per)
    load = ONE / weight
    for k in range(count):  # r.x is free until the sweep starts anew
        load += peek(r.n, k) * peek(r.g, k)
        poke(r.x, k, load)
    before = ONE / weight
    last = load
    for k in range(count):
        load = peek(r.x, k)
        inverse = ONE / load
        poke(r.g, k, peek(r.g, k) * inverse)
        poke(r.e, k, peek(r.n, k))
        if k > 0:
            before = peek(r.x, k - 1)
        poke(r.d, k, max(peek(r.d, k) * load / before, LEAST_ENERGY))
    return last


@borrowing
def learn_scales(cols, pairs, own, rate, first_tokens, energy):  # type: ignore[no-untyped-def]
    """Variances of the columns, and the covariances of the pairs, follow the token's residuals."""
    calm = ONE / energy
    for o in range(own):
        r = peek(cols.residual, o)
        v = peek(cols.variance, o)
        q = (r * r + peek(cols.blur, o)) * calm
        if not first_tokens:
            q = min(q, CLIP * v)
        poke(cols.variance, o, v + (q - v) * rate)
    for h in range(pairs):
        o = 2 * h
        a = peek(cols.residual, o)
        b = peek(cols.residual, o + 1)
        q = (a * b + peek(cols.twist, o)) * calm
        v = peek(cols.cross, o)
        if not first_tokens:
            most = CLIP * np.sqrt(peek(cols.variance, o) * peek(cols.variance, o + 1))
            q = min(max(q, -most), most)
        poke(cols.cross, o, v + (q - v) * rate)


@borrowing
def expect_scales(cols, pairs, own, factor):  # type: ignore[no-untyped-def]
    """Deviations for the next token: pairs are rotated to its angle, the second value given the first."""
    for h in range(pairs):
        o = 2 * h
        c = peek(cols.cosine, o)
        s = peek(cols.sine, o)
        f = (peek(factor, o) + peek(factor, o + 1)) * np.float32(0.5)
        va = max(peek(cols.variance, o), LEAST_VARIANCE) * f
        vb = max(peek(cols.variance, o + 1), LEAST_VARIANCE) * f
        cross = peek(cols.cross, o) * f
        cs = c * s
        cc = c * c
        ss = s * s
        v1 = max(cc * va - (cs + cs) * cross + ss * vb, PAIR_FLOOR * (va + vb))
        v2 = ss * va + (cs + cs) * cross + cc * vb
        slope = (cs * (va - vb) + (cc - ss) * cross) / v1
        v2 = max(v2 - slope * slope * v1, PAIR_FLOOR * (va + vb))
        d1 = np.sqrt(v1)
        d2 = np.sqrt(v2)
        poke(cols.slope, o, slope)
        poke(cols.deviation, o, d1)
        poke(cols.deviation, o + 1, d2)
        poke(cols.precision, o, ONE / d1)
        poke(cols.precision, o + 1, ONE / d2)
    for o in range(2 * pairs, own):
        d = np.sqrt(max(peek(cols.variance, o), LEAST_VARIANCE) * peek(factor, o))
        poke(cols.deviation, o, d)
        poke(cols.precision, o, ONE / d)


@borrowing
def rotate(cols, pairs, angle, turn):  # type: ignore[no-untyped-def]
    """Turn every pair's angle on by one token; the length is put right to first order, which keeps it at 1."""
    for h in range(pairs):
        c = angle[h, 0]
        s = angle[h, 1]
        x = c * turn[h, 0] - s * turn[h, 1]
        y = s * turn[h, 0] + c * turn[h, 1]
        fix = 1.5 - 0.5 * (x * x + y * y)
        angle[h, 0] = x * fix
        angle[h, 1] = y * fix
        cols.cosine[2 * h] = np.float32(x * fix)
        cols.sine[2 * h] = np.float32(y * fix)


@borrowing
def note_runs(k, row, last, run, own, zero):  # type: ignore[no-untyped-def]
    """Count how often each channel repeated itself."""
    for o in range(own):
        now = np.int32(peek(k, row + o))
        more = np.int32(4) if now == zero else np.int32(1)  # a channel of zeros is soon believed
        poke(run, o, peek(run, o) + more if now == peek(last, o) else np.int32(0))
        poke(last, o, now)


@step
def count_quantiles(starts, freqs, first, count, counts, into, shares):  # type: ignore[no-untyped-def]
    """Spread each interval evenly over the cells it touches: counts of one cell, then differences of the others."""
    for i in range(first, first + count):
        low = np.int64(peek(starts, i)) >> 24
        high = (np.int64(peek(starts, i)) + np.int64(peek(freqs, i)) - 1) >> 24
        if low == high:
            poke(counts, into + low, peek(counts, into + low) + peek(shares, 0))
        else:
            share = peek(shares, high - low)
            counts[into + COUNT_ROW + low] += share
            counts[into + COUNT_ROW + high + 1] -= share


@borrowing
def surprise(r, until):  # type: ignore[no-untyped-def]
    """How large the residuals of the columns below ``until`` are, of what they usually are: a mean of about 1."""
    total = ZERO
    for k in range(1, until):
        n = peek(r.n, k)
        total += n * n / peek(r.d, k)
    return total
