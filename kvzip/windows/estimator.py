"""The estimator's arithmetic: decayed counts to smoothed probabilities to a table of frequencies.

One *window* is one array of counts for one class of channels of one stream. Everything is integer:

    counts[257]   int64   decayed occurrences of each symbol, in units of the current increment; [256] counts escapes
    probs[257]    int64   smoothed probability, 24 fractional bits
    codes[512]    uint32  start << 16 | freq of the symbols that have a frequency, 0 of those that escape
    slots[2^bits] uint16  class << 9 | symbol of every slot (decoder only): where its code is among the stream's

Decay multiplies the *increment* by 1/alpha each token instead of every count by alpha; counts and increment are
shifted down together when the increment nears its ceiling. The escape stands for every symbol without a frequency.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing
from kvzip.coder.lanes import WIDTH, repeat
from kvzip.coder.memory import peek, pointer_of, poke

ESCAPE = 256
WINDOW = 257  # entries of counts and probs: 256 symbols and the escape
CODE_SHIFT = 9  # a window's codes take 2^9 entries, so that class and symbol together are an index
PROB_BITS = 24
INCREMENT_START = 1 << 16
INCREMENT_CEILING = 1 << 30
INCREMENT_FLOOR = 16
TOTAL_CEILING = 1 << 38
RECIPROCAL_BITS = 62


@borrowing
def renormalise(counts, first, classes, increment):  # type: ignore[no-untyped-def]
    """Shift the windows ``first .. first+classes-1`` down until increment and totals are small; return increment."""
    while True:
        heaviest = np.int64(0)
        for k in range(first, first + classes):
            total = np.int64(0)
            for s in range(WINDOW):
                total += counts[k, s]
            heaviest = max(heaviest, total)
        if increment < INCREMENT_CEILING and heaviest < TOTAL_CEILING:
            return increment
        for k in range(first, first + classes):
            for s in range(WINDOW):
                counts[k, s] >>= 4
        increment = max(np.int64(INCREMENT_FLOOR), increment >> 4)


@borrowing
def widen(counts, k, span):  # type: ignore[no-untyped-def]
    """The sum of window ``k``'s counts; grow ``span[k]``, the range of symbols ever counted, to hold them all."""
    flat = pointer_of(counts)
    row = k * WINDOW
    below = np.int64(0)
    for s in range(row, row + span[k, 0]):
        below += peek(flat, s)
    inside = np.int64(0)
    for s in range(row + span[k, 0], row + span[k, 1]):
        inside += peek(flat, s)
    above = np.int64(0)
    for s in range(row + max(span[k, 0], span[k, 1]), row + ESCAPE):
        above += peek(flat, s)
    if below + above > 0:
        for s in range(ESCAPE):
            if peek(flat, row + s) > 0:
                span[k, 0] = min(span[k, 0], s)
                span[k, 1] = max(span[k, 1], s + 1)
    return below + inside + above + peek(flat, row + ESCAPE)


@borrowing
def smooth(counts, probs, k, low, high, total, beta):  # type: ignore[no-untyped-def]
    """P <- beta * P + (1 - beta) * C / sum C, by the reciprocal of the sum; a window's first P is C / sum C."""
    if total == 0:
        return
    reciprocal = (np.int64(1) << RECIPROCAL_BITS) // total
    flat_counts = pointer_of(counts)
    flat_probs = pointer_of(probs)
    row = k * WINDOW
    known = peek(flat_probs, row + ESCAPE)
    if beta > 0:
        for s in range(row + low, row + high):
            known += peek(flat_probs, s)
    keep = np.int64(0) if known == 0 else beta
    if keep == 0:
        for s in range(row + low, row + high):
            poke(flat_probs, s, (peek(flat_counts, s) * reciprocal) >> (RECIPROCAL_BITS - PROB_BITS))
    else:
        for s in range(row + low, row + high):
            estimate = (peek(flat_counts, s) * reciprocal) >> (RECIPROCAL_BITS - PROB_BITS)
            poke(flat_probs, s, (keep * peek(flat_probs, s) + (65536 - keep) * estimate) >> 16)
    estimate = (peek(flat_counts, row + ESCAPE) * reciprocal) >> (RECIPROCAL_BITS - PROB_BITS)
    mixed = (keep * peek(flat_probs, row + ESCAPE) + (65536 - keep) * estimate) >> 16
    poke(flat_probs, row + ESCAPE, mixed if keep else estimate)


@borrowing
def quantise(probs, k, low, high, bits, freq):  # type: ignore[no-untyped-def]
    """Frequencies that sum to 2^bits: a symbol below half a slot has none and escapes, the others at least 1.

    What is left over goes to the most frequent symbol; what is missing comes from the larger ones, an eighth of
    each at a time. The escape always keeps at least 1, so only the escape's frequency can reach 2^bits.
    """
    flat = pointer_of(probs)
    row = k * WINDOW
    half = np.int64(1) << (PROB_BITS - 1)
    given = np.int64(0)
    most = np.int64(0)
    for s in range(low, high):
        scaled = peek(flat, row + s) << bits
        f = max(scaled >> PROB_BITS, np.int64(scaled >= half))
        poke(freq, s, f)
        given += f
        most = max(most, f)
    escape = max(np.int64(1), (peek(flat, row + ESCAPE) << bits) >> PROB_BITS)
    freq[ESCAPE] = escape
    left = (np.int64(1) << bits) - given - escape
    if left > 0:
        best = np.int64(low)
        while best < high and peek(freq, best) < most:
            best += 1
        freq[best if most > 0 else ESCAPE] += left
    while left < 0:
        for s in range(low, high):
            take = min((freq[s] + 6) >> 3, freq[s] - 1, -left)
            if take > 0:
                freq[s] -= take
                left += take
        take = min(freq[ESCAPE] - 1, -left)
        freq[ESCAPE] -= take
        left += take


@borrowing
def rewrite(codes, slots, k, class_bits, low, high, freq, decoding):  # type: ignore[no-untyped-def]
    """Rewrite the cumulative (and the decoder's slots) between the first and the last frequency that changed.

    Symbols come in order, the escape last. ``class_bits``: the window's class << 9. Return 1 if anything changed.
    """
    flat = pointer_of(codes)
    row = k << CODE_SHIFT
    low16 = np.uint32(0xFFFF)
    first = np.int64(low)
    while first < high and np.int64(peek(flat, row + first) & low16) == peek(freq, first):
        first += 1
    last = np.int64(high)  # stands for the escape
    if np.int64(peek(flat, row + ESCAPE) & low16) == freq[ESCAPE]:
        if first == high:
            return 0
        last -= 1
        while np.int64(peek(flat, row + last) & low16) == peek(freq, last):
            last -= 1
    start = np.int64(0)
    for s in range(low, first):
        start += peek(freq, s)
    end = start
    for s in range(first, min(last + 1, high)):
        end += peek(freq, s)
    if last == high:
        end += freq[ESCAPE]
    flat_slots = pointer_of(slots)
    slot_row = k * slots.shape[1]
    for at in range(first, last + 1):
        s = ESCAPE if at == high else at
        f = peek(freq, s)
        poke(flat, row + s, np.uint32((start << 16) | f) if f > 0 else np.uint32(0))
        if decoding and f > 0:
            value = np.uint16(class_bits | s)
            _spread(flat_slots, slot_row + start, slot_row + start + f, slot_row + end, value)
        start += f
    return 1


@borrowing
def _spread(slots, start, stop, end, value):  # type: ignore[no-untyped-def]
    """Set ``slots[start:stop]``, in strides that may run over ``stop`` (later symbols write there), not ``end``."""
    while start < stop and start + WIDTH <= end:
        repeat(value, slots, start)
        start += WIDTH
    while start < stop:
        poke(slots, start, value)
        start += 1
