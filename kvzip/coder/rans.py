"""rANS with 32-bit states and 16-bit words on interleaved lanes (J. Duda, arXiv:1311.2540).

Symbol ``i`` of a run belongs to lane ``i mod lanes``; all lanes share one stream of words, read in symbol order:

    state x of a lane, 2^16 <= x < 2^32
    encode (last symbol first)   if x >= freq << (32 - bits): emit x & 0xffff, x >>= 16
                                 x = (x // freq << bits) + start + x % freq
    decode (first symbol first)  slot = x & (2^bits - 1); the symbol is the one whose interval holds it
                                 x = freq * (x >> bits) + slot - start
                                 if x < 2^16: x = x << 16 | next word

An encoder may start a lane at any ``2^16 + r`` with ``r < 2^16``: the decoder ends there, so each lane carries 16
bits of payload for nothing. A symbol's interval travels as one 32-bit *code*, ``start << 16 | freq``; ``bits <= 15``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import peek, poke
from kvzip.coder.vector import VECTORS, WIDTH, put16, putpair16

LANE_FLOOR = 1 << 16
MAX_LANES_LOG2 = 7
MAX_TABLE_BITS = 15
SPARE_WORDS = WIDTH  # that an encoder may write, unused, before the first word in use


def lanes_log2(symbols: int) -> int:
    """The lanes that pay for a run of ``symbols``: each costs about a byte, so at least 1024 symbols a lane."""
    return max(0, min(MAX_LANES_LOG2, (symbols >> 10).bit_length() - 1))


def reciprocals(bits: int) -> NDArray[np.uint64]:
    """For every ``freq <= 2^bits``, m with ``x // freq == x * m >> (32 + bits)`` for all ``x < freq << (32 - bits)``.

    m = floor(2^(32+bits) / freq) + 1 exceeds the true ratio by e/freq with e <= freq, so the product is exact while
    x * e < 2^(32+bits), which ``x < freq << (32 - bits)`` and ``freq <= 2^bits`` ensure; and it stays below 2^64.
    """
    freq = np.arange((1 << bits) + 1, dtype=np.uint64)
    freq[0] = 1
    out: NDArray[np.uint64] = np.uint64(1 << (32 + bits)) // freq + np.uint64(1)
    return out


@borrowing
def put(codes, first, last, lane_mask, bits, reciprocal, states, words, at):  # type: ignore[no-untyped-def]
    """Code ``codes[first:last]`` backwards, one lane after the other; return the index of the first word in use."""
    lift = np.uint64(32 - bits)
    shift = np.uint64(32 + bits)
    up = np.uint64(bits)
    low16 = np.uint64(0xFFFF)
    for i in range(last - 1, first - 1, -1):
        code = np.uint64(peek(codes, i))
        freq = code & low16
        start = code >> np.uint64(16)
        lane = i & lane_mask
        x = np.uint64(peek(states, lane))
        poke(words, at - 1, np.uint16(x & low16))
        full = x >= freq << lift
        at -= np.int64(full)
        x = x >> np.uint64(16) if full else x
        q = (x * peek(reciprocal, freq)) >> shift
        poke(states, lane, np.uint32((q << up) + start + (x - q * freq)))
    return at


@borrowing
def encode_lanes(codes, count, lanes_log2, bits, reciprocal, states, words):  # type: ignore[no-untyped-def]
    """Code ``codes[:count]`` backwards; return the index of the first word in use, words fill up from the end.

    ``states`` (1 << lanes_log2, uint32) holds the start states and receives the final ones. ``words`` needs room for
    ``count + SPARE_WORDS`` words. Never fails once every code's ``freq`` is in 1..2^bits.
    """
    at = np.int64(len(words))
    lane_mask = np.int64((1 << lanes_log2) - 1)
    whole = count - count % WIDTH if VECTORS and lane_mask >= WIDTH - 1 else 0
    at = put(codes, whole, count, lane_mask, bits, reciprocal, states, words, at)
    for i in range(whole - WIDTH, -1, -WIDTH):
        at -= put16(codes, i, states, i & lane_mask, words, at, bits)
    return at


@borrowing
def encode_groups(codes, lows, starts, lanes_log2, bits, reciprocal, states, words):  # type: ignore[no-untyped-def]
    """Code groups of up to sixteen values that have two codes each, backwards; see ``encode_lanes``.

    Group ``g`` has the values ``starts[g]`` to ``starts[g + 1]`` (int64); its ``codes`` are read first, then its
    ``lows``, whose frequencies are powers of two. Both codes of value ``i`` go to lane ``i mod lanes``. ``words``
    needs room for two words a value, and ``SPARE_WORDS``.
    """
    at = np.int64(len(words))
    lane_mask = np.int64((1 << lanes_log2) - 1)
    for group in range(len(starts) - 2, -1, -1):
        i = starts[group]
        stop = starts[group + 1]
        if VECTORS and stop - i == WIDTH and (i & lane_mask) + WIDTH <= lane_mask + 1:
            at -= putpair16(codes, i, lows, i, states, i & lane_mask, words, at, bits)
        else:
            at = put(lows, i, stop, lane_mask, bits, reciprocal, states, words, at)
            at = put(codes, i, stop, lane_mask, bits, reciprocal, states, words, at)
    return at
