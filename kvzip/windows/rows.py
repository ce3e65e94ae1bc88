"""Rows of symbols under frozen tables: the innermost loops, with vectors where the CPU has them.

A token's row has one symbol a channel. ``place_at`` holds for each channel where its class begins in the stream's
codes (encoder) or slots (decoder), and ``codes_from`` and ``slots_from`` where the stream begins.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import peek, poke
from kvzip.coder.vector import VECTORS, WIDTH, code16, take16
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, WINDOW


@borrowing
def code_rows(symbols, i, rows, channels, place_at, codes, codes_from, out, at, literals, literal):  # type: ignore[no-untyped-def]
    """Encoder, tables frozen: the code of every symbol of ``rows`` tokens into ``out``; return literals so far."""
    whole = channels - channels % WIDTH if VECTORS else 0
    for _ in range(rows):
        unknown = np.int64(0)
        for c in range(0, whole, WIDTH):
            unknown |= code16(symbols, i + c, place_at, c, codes, codes_from, out, at + c)
        for c in range(whole, channels):
            code = peek(codes, codes_from + np.int64(peek(place_at, c)) + np.int64(peek(symbols, i + c)))
            unknown |= np.int64(code == 0)
            poke(out, at + c, code)
        if unknown:
            for c in range(channels):
                if peek(out, at + c) == 0:
                    poke(out, at + c, peek(codes, codes_from + np.int64(peek(place_at, c)) + ESCAPE))
                    poke(literals, literal, peek(symbols, i + c))
                    literal += 1
        i += channels
        at += channels
    return literal


@borrowing
def take(lane, c, stop, place_at, slots, slots_from, codes, codes_from, bits, lanes, out):  # type: ignore[no-untyped-def]
    """Channels ``c`` to ``stop`` from as many lanes: ``class << 9 | symbol`` into ``out``; no lane is refilled."""
    mask = np.uint32((1 << bits) - 1)
    up = np.uint32(bits)
    low16 = np.uint32(0xFFFF)
    lane -= c
    for k in range(c, stop):
        x = peek(lanes, lane + k)
        slot = x & mask
        entry = peek(slots, slots_from + np.int64(peek(place_at, k)) + np.int64(slot))
        code = peek(codes, codes_from + np.int64(entry))
        poke(out, k, np.uint32(entry))
        poke(lanes, lane + k, np.uint32((code & low16) * (x >> up) + slot - (code >> np.uint32(16))))


@borrowing
def refill(lanes, lane, stop, words, word):  # type: ignore[no-untyped-def]
    """Shift a word into each of the lanes that has fallen below its floor, in order; return the words read so far."""
    floor = np.uint32(1 << 16)
    for k in range(lane, stop):
        x = peek(lanes, k)
        filled = np.uint32((x << np.uint32(16)) | np.uint32(peek(words, word)))
        low = x < floor
        poke(lanes, k, filled if low else x)
        word += np.int64(low)
    return word


@borrowing
def decode_rows(  # type: ignore[no-untyped-def]
    symbols, i, rows, channels, place_at, slots, slots_from, codes, codes_from, bits,
    lanes, lane_mask, words, word, word_end, out, literals, literal,
):  # fmt: skip
    """Decoder, tables frozen: the symbols of ``rows`` tokens; return (literals, words) so far.

    ``words`` has ``channels`` spare entries behind its end, so a token may overrun it; the next starts at the end
    again, and the overrun stays visible in the count. ``literals`` has one spare entry. A literal that has a
    frequency, which no encoder writes, counts as an overrun too.
    """
    overrun = np.int64(0)
    in_vectors = VECTORS and channels % WIDTH == 0 and lane_mask >= WIDTH - 1
    for _ in range(rows):
        c = np.int64(0)
        if in_vectors:
            for c in range(0, channels, WIDTH):
                lane = (i + c) & lane_mask
                word += take16(
                    lanes, lane, place_at, c, slots, slots_from, codes, codes_from, words, word, out, c, bits
                )
            c = channels
        while c < channels:
            lane = (i + c) & lane_mask
            stop = min(channels, c + lane_mask + 1 - lane)
            take(lane, c, stop, place_at, slots, slots_from, codes, codes_from, bits, lanes, out)
            word = refill(lanes, lane, lane + stop - c, words, word)
            c = stop
        if word > word_end:
            overrun += word - word_end
            word = word_end
        escaped = np.uint32(0)
        for c in range(channels):
            entry = peek(out, c)
            escaped |= entry
            poke(symbols, i + c, np.uint8(entry & np.uint32(0xFF)))
        if escaped & np.uint32(ESCAPE):
            for c in range(channels):
                entry = peek(out, c)
                if entry & np.uint32(ESCAPE):
                    s = peek(literals, min(literal, len(literals) - 1))
                    overrun += np.int64(
                        peek(codes, codes_from + np.int64(entry ^ np.uint32(ESCAPE)) + np.int64(s)) > 0
                    )
                    poke(symbols, i + c, s)
                    literal += 1
        i += channels
    return literal, word, overrun


@borrowing
def count_row(symbols, row, channels, class_at, counts, counts_from, codes, codes_from, escapes, increment):  # type: ignore[no-untyped-def]
    """Add one token's symbols to their windows, and to the escape of those whose symbol has no frequency."""
    for c in range(channels):
        place = counts_from + peek(class_at, c) * WINDOW + np.int64(peek(symbols, row + c))
        poke(counts, place, peek(counts, place) + increment)
    if escapes:
        for c in range(channels):
            k = peek(class_at, c)
            if peek(codes, codes_from + (k << CODE_SHIFT) + np.int64(peek(symbols, row + c))) == 0:
                escape = counts_from + k * WINDOW + ESCAPE
                poke(counts, escape, peek(counts, escape) + increment)
