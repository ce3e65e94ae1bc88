"""A token's values as symbols relative to their predictions, and back: exact for every bit pattern.

With r the reference code, a the value's own code, s whether its sign differs from the prediction's:

    two-sided   (|mu| < 4 sigma)   d = a - r            symbol = 48 + (d >> shift), plus 64 if s; 0..63 each
    one-sided                      d = (s ? -a : a) - r symbol = 64 + (d >> shift), 0..127

The low ``shift`` bits of d go beside the symbol as uniform bits. A value whose symbol is out of range, or that is
the zero of the other sign on the one side, escapes: its bits follow among the literals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.lanes import copy, lanes16, or16, select
from kvzip.coder.memory import peek, pointer_of, poke
from kvzip.coder.vector import VECTORS, WIDTH, code16, low16, take16
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, WINDOW
from kvzip.windows.rows import refill, take

SYMBOLS = 128
TWO_BELOW = 48  # symbols of a side below the reference
ONE_BELOW = 64
OUT = 255  # the symbol of what is out of range: it never gets a frequency


def symbols_of(value: Any, packed: Any, sign_at: Any, mask: Any, bits: Any) -> Any:
    """Symbols of values, and the codes of their low bits (none where the symbol is out of range)."""
    a = value & mask
    shift = (packed >> 16) & 15
    other = ((value >> sign_at) ^ (packed >> 20)) & 1
    two = (packed >> 21) & 1
    d = select(other > two, 0 - a, a) - (packed & 0xFFFF)  # other > two: the other sign, one-sided
    symbol = (d >> shift) + select(two > 0, two + (TWO_BELOW - 1), two + ONE_BELOW)
    inside = (symbol >= 0) & (symbol < (128 - (two << 6))) & ((a > 0) | (other <= two))
    symbol = select(inside, symbol + ((two & other) << 6), OUT)
    shift = select(inside, shift, 0)
    keep = bits - shift
    low = d & ((1 << shift) - 1)
    return symbol, (low << (keep + 16)) | (1 << keep)


def values_of(entry: Any, low: Any, packed: Any, sign_at: Any, mask: Any) -> Any:
    """The inverse: values and symbols; ``entry`` holds the symbol in its low 8 bits. Escaped lanes get anything."""
    symbol = entry & 0xFF
    shift = (packed >> 16) & 15
    two = (packed >> 21) & 1
    other = two & (symbol >> 6)
    steps = symbol - (other << 6) - select(two > 0, two + (TWO_BELOW - 1), two + ONE_BELOW)
    d = (steps << shift) + low + (packed & 0xFFFF)
    below = d < 0
    other = select(below, 1, other)
    return (select(below, 0 - d, d) & mask) | (((other ^ (packed >> 20)) & 1) << sign_at), symbol


def _widths(entry: Any, packed: Any) -> Any:
    """How many low bits a symbol has: none if it escaped."""
    return select((entry & ESCAPE) > 0, 0, (packed >> 16) & 15)


widths: Any = lanes16(_widths, "ii>i")


@step
def code_group(  # type: ignore[no-untyped-def]
    x, at, live, p, symbols, lows, places, codes, bits, out, out_lows, place, literals, literal
):
    """The codes of the sixteen values at ``at``, ``live`` of them channels, into ``out`` and ``out_lows`` from
    ``place`` on.

    ``p`` is where they are in the padded row; returns the literals so far.
    """
    unknown = np.int64(0)
    if VECTORS and live == WIDTH:
        unknown = code16(symbols, p, places, p, codes, 0, out, place)
        copy(lows, p, out_lows, place)
    else:
        for c in range(live):
            code = peek(codes, np.int64(peek(places, p + c)) + np.int64(peek(symbols, p + c)))
            unknown |= np.int64(code == 0)
            poke(out, place + c, code)
            poke(out_lows, place + c, peek(lows, p + c))
    if unknown:
        for c in range(live):
            if peek(out, place + c) == 0:
                poke(out, place + c, peek(codes, np.int64(peek(places, p + c)) + ESCAPE))
                poke(out_lows, place + c, np.uint32(1 << bits))
                poke(literals, literal, peek(x, at + c))
                literal += 1
    return literal


@step
def take_lows(lane, c, stop, widths, bits, lanes, out):  # type: ignore[no-untyped-def]
    """The scalar twin of ``low16`` for channels ``c`` to ``stop``; no lane is refilled."""
    mask = np.uint32((1 << bits) - 1)
    lane -= c
    for k in range(c, stop):
        x = peek(lanes, lane + k)
        keep = np.uint32(bits - peek(widths, k))
        slot = x & mask
        low = slot >> keep
        poke(out, k, np.uint32(low))
        poke(lanes, lane + k, np.uint32(((x >> np.uint32(bits)) << keep) | (slot - (low << keep))))


@step
def take_group(  # type: ignore[no-untyped-def]
    place, live, p, packed, places, slots, codes, bits, lanes, lane_mask, words, word, entries, row_widths, lows
):
    """Symbols of sixteen values from the lanes, ``live`` of them channels, then their low bits.

    ``place`` says how many values were coded before, ``p`` where these are in the padded row. Returns the words
    read; ``words`` has spare entries enough for a row.
    """
    lane = place & lane_mask
    whole = VECTORS and live == WIDTH and lane + WIDTH <= lane_mask + 1
    if whole:
        word += take16(lanes, lane, places, p, slots, 0, codes, 0, words, word, entries, p, bits)
        widths(entries, p, packed, p, row_widths, p)
        return word + low16(lanes, lane, row_widths, p, words, word, lows, p, bits)
    k = np.int64(0)
    while k < live:
        lane = (place + k) & lane_mask
        n = min(live - k, lane_mask + 1 - lane)
        take(lane, p + k, p + k + n, places, slots, 0, codes, 0, bits, lanes, entries)
        word = refill(lanes, lane, lane + n, words, word)
        k += n
    widths(entries, p, packed, p, row_widths, p)
    k = np.int64(0)
    while k < live:
        lane = (place + k) & lane_mask
        n = min(live - k, lane_mask + 1 - lane)
        take_lows(lane, p + k, p + k + n, row_widths, bits, lanes, lows)
        word = refill(lanes, lane, lane + n, words, word)
        k += n
    return word


@step
def move_some(x, source, target, count):  # type: ignore[no-untyped-def]
    """Move so many values to where they belong, unless they are there."""
    if source != target:
        for c in range(count):
            poke(x, target + c, peek(x, source + c))


@step
def read_literals(x, at, live, p, entries, literals, literals_end, literal):  # type: ignore[no-untyped-def]
    """Put literals where the group escaped; return how many were read so far."""
    if or16(entries, p) & ESCAPE:
        for c in range(live):
            if peek(entries, p + c) & np.uint32(ESCAPE):
                poke(x, at + c, peek(literals, min(literal, literals_end)))
                literal += 1
    return literal


@step
def count_row(  # type: ignore[no-untyped-def]
    symbols, groups, count, packed, counts, codes, escapes, increment, touched
):
    """Add a row's symbols to the windows of their contexts, and to the escapes of those that had no frequency."""
    for q in range(count):
        p = peek(groups, 3 * q)
        for c in range(p, p + peek(groups, 3 * q + 2)):
            context = np.int64(peek(packed, c)) >> 22
            poke(touched, context, np.uint8(1))
            place = context * WINDOW + np.int64(peek(symbols, c))
            poke(counts, place, peek(counts, place) + increment)
            if escapes:
                symbol = np.int64(peek(symbols, c))
                if symbol == OUT or peek(codes, (context << CODE_SHIFT) + symbol) == 0:
                    escape = context * WINDOW + ESCAPE
                    poke(counts, escape, peek(counts, escape) + increment)
                if symbol == OUT:
                    poke(counts, place, 0)


@borrowing
def account(  # type: ignore[no-untyped-def]
    decoding, measure, out, starts, first, stride, groups, at, naturals, integers, wide, codes, escapes, width,
    lengths, spent, stream, costs, cost_at,
):  # fmt: skip
    """Put the codes of a row's symbols in a line into ``naturals``; if ``measure``, add up what the row took.

    Its groups are each ``stride``-th of those coded from number ``first`` on; the decoder has their entries at
    ``wide + at`` of ``naturals``. ``spent`` (streams, 3) int64, in 1/256 bit: symbols, low bits, literals of
    ``width`` bits. ``costs``, from ``cost_at`` on, gets what each value took.
    """
    half, of = len(out) >> 1, pointer_of(codes)
    n = np.int64(0)
    for q in range(len(groups)):
        p, place = wide + at + groups[q, 0], np.int64(0) if decoding else starts[first + q * stride]
        for c in range(groups[q, 2]):
            naturals[n] = peek(of, np.int64(naturals[p + c])) if decoding else out[place + c]
            if measure:
                own = lengths[naturals[n] & np.uint32(0xFFFF)]
                spent[stream, 0] += own
                if decoding:
                    low = np.int64(integers[wide + p + c]) << 8
                    escaped = np.int64(naturals[p + c]) & 511 == ESCAPE
                else:
                    low = lengths[out[half + place + c] & np.uint32(0xFFFF)]
                    escaped = naturals[n] == peek(of, np.int64(integers[p + c]) + ESCAPE)
                spent[stream, 1] += low
                costs[cost_at + groups[q, 1] + c] = own + low + (width * escaped << 8)
            n += 1
    if measure:
        spent[stream, 2] += escapes * width << 8
