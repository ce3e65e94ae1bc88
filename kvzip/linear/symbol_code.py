"""One value to an interval and back: one function for both directions."""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import step
from kvzip.coder.memory import peek, poke
from kvzip.linear.bits import float_bits
from kvzip.linear.quantile import INVERSE_SHIFT
from kvzip.linear.range64 import TOTAL, TOTAL_BITS
from kvzip.linear.state import GREATEST, HALF, OFFSET, SHIFT, SIGN

REACH_LIMIT = np.float32(16.0)
FINE = np.float32(1 << 22)  # parts of a deviation that T is read at
FINE_BITS = 22
PART_BITS = FINE_BITS - 6
SLOT_MASK = np.uint64(TOTAL - 1)
BIG = np.float32(1e18)
STEPS = 3
INVERSE_PART = np.float32(2.0**-INVERSE_SHIFT)
RUN = 8  # equal values in a row after which a channel is taken to be constant
LEAST_MISS = 1 << 10


@step
def position(edge, mean, precision):  # type: ignore[no-untyped-def]
    """Where T is read for a border: parts of a deviation above the lowest one."""
    z = (edge - mean) * precision
    z = z if z > -REACH_LIMIT else -REACH_LIMIT  # so that no NaN gets past
    z = z if z < REACH_LIMIT else REACH_LIMIT
    return np.int64(np.int32(z * FINE)) + np.int64(16 << FINE_BITS)


@step
def cumulative(k, mean, precision, edges, table, at):  # type: ignore[no-untyped-def]
    """The cumulative frequency of all symbols below ``k``: 0 for the first one, the total beyond the last."""
    fine = position(peek(edges, k), mean, precision)
    cell = fine >> PART_BITS
    low = np.int64(peek(table, at + cell))
    high = np.int64(peek(table, at + cell + 1))
    return low + ((high - low) * (fine & ((1 << PART_BITS) - 1)) >> PART_BITS) + k


@step
def guess(x, shift, offset, half, sign, greatest, least, step):  # type: ignore[no-untyped-def]
    """The symbol whose value is nearest to ``x``, or nearly so."""
    bits = np.int64(float_bits(x))
    magnitude = bits & 0x7FFFFFFF
    m = (magnitude - offset + half) >> shift
    size = abs(x)
    if size < least:
        m = np.int64(np.int32(size * step + np.float32(0.5)))
    m = min(max(m, np.int64(0)), greatest)
    return sign - 1 - m if bits < 0 else sign + m


@step
def advance(state, start, freq, words, at):  # type: ignore[no-untyped-def]
    """The decoder's next state, and the next word's index. Words past the end are 0."""
    x = np.uint64(freq) * (state >> np.uint64(TOTAL_BITS)) + (state & SLOT_MASK) - np.uint64(start)
    word = np.uint64(peek(words, min(at, np.int64(len(words) - 1))))  # the last word is a spare 0
    low = x < np.uint64(TOTAL)  # as likely as not: no branch
    x = (x << np.uint64(32)) | word if low else x
    at += np.int64(low)
    return x, at


@step
def search(slot, mean, deviation, precision, edges, table, at, inverse, into, shape, linear):  # type: ignore[no-untyped-def]
    """The symbol whose interval holds ``slot``, and the interval: guess, a few steps, then bisection."""
    sign = peek(shape, SIGN)
    symbols = 2 * sign
    index = slot >> INVERSE_SHIFT
    z0 = peek(inverse, into + index)
    z1 = peek(inverse, into + index + 1)
    part = np.float32(np.int32(slot & ((1 << INVERSE_SHIFT) - 1))) * INVERSE_PART
    x = mean + deviation * (z0 + (z1 - z0) * part)
    k = guess(
        x,
        peek(shape, SHIFT),
        peek(shape, OFFSET),
        peek(shape, HALF),
        sign,
        peek(shape, GREATEST),
        peek(linear, 0),
        peek(linear, 1),
    )
    low = cumulative(k, mean, precision, edges, table, at)
    high = cumulative(k + 1, mean, precision, edges, table, at)
    if low <= slot < high:
        return k, low, high
    for _ in range(STEPS):
        if slot < low and k > 0:
            k -= 1
            high = low
            low = cumulative(k, mean, precision, edges, table, at)
        elif slot >= high and k + 1 < symbols:
            k += 1
            low = high
            high = cumulative(k + 1, mean, precision, edges, table, at)
    if low <= slot < high:
        return k, low, high
    lower = np.int64(0)
    upper = symbols
    while upper - lower > 1:
        middle = (lower + upper) >> 1
        if cumulative(middle, mean, precision, edges, table, at) <= slot:
            lower = middle
        else:
            upper = middle
    low = cumulative(lower, mean, precision, edges, table, at)
    return lower, low, cumulative(lower + 1, mean, precision, edges, table, at)


@step
def miss(run):  # type: ignore[no-untyped-def]
    """The frequency of a change after ``run`` equal values."""
    return max(np.int64(TOTAL) // (2 * np.int64(run)), np.int64(LEAST_MISS))


@step
def code(  # type: ignore[no-untyped-def]
    decoding, k, run, last, mean, deviation, precision, edges, table, table_at, inverse, inverse_at, shape, linear,
    mine, other, words, at, starts, freqs, i,
):  # fmt: skip
    """The coding of one value: (k, mine, other, at, i), where i counts symbols."""
    if run >= RUN:
        hit = np.int64(TOTAL) - miss(run)
        if decoding:
            same = np.int64(mine & SLOT_MASK) < hit
            start = np.int64(0) if same else hit
            freq = hit if same else np.int64(TOTAL) - hit
            moved, at = advance(mine, start, freq, words, at)
            mine = other
            other = moved
            poke(starts, i, np.uint32(start))
            poke(freqs, i, np.uint32(freq))
        else:
            same = k == last
            poke(starts, i, np.uint32(0 if same else hit))
            poke(freqs, i, np.uint32(hit if same else np.int64(TOTAL) - hit))
        i += 1
        if same:
            return np.int64(last), mine, other, at, i
    if decoding:
        slot = np.int64(mine & SLOT_MASK)
        k, low, high = search(
            slot, mean, deviation, precision, edges, table, table_at, inverse, inverse_at, shape, linear
        )
        moved, at = advance(mine, low, high - low, words, at)
        mine = other
        other = moved
        poke(starts, i, np.uint32(low))
        poke(freqs, i, np.uint32(high - low))
    else:
        low = cumulative(k, mean, precision, edges, table, table_at)
        high = cumulative(k + 1, mean, precision, edges, table, table_at)
        poke(starts, i, np.uint32(low))
        poke(freqs, i, np.uint32(high - low))
    return k, mine, other, at, i + 1
