"""rANS with 64-bit states, 32-bit words and totals of 2^31, on two lanes that take turns (J. Duda, arXiv:1311.2540).

    state x of a lane, 2^31 <= x < 2^63
    encode (last symbol first)   if x >= freq << 32: emit the low 32 bits of x, x >>= 32
                                 x = (x // freq << 31) + start + x % freq
    decode (first symbol first)  slot = x & (2^31 - 1); the symbol is the one whose interval holds it
                                 x = freq * (x >> 31) + slot - start
                                 if x < 2^31: x = x << 32 | next word

The payload is the two states, low word first, then the words in the order in which the decoder reads them. Two lanes
cost 8 bytes a payload and hide the latency of finding a symbol.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import kernel
from kvzip.coder.memory import peek, poke

TOTAL_BITS = 31
TOTAL = 1 << TOTAL_BITS
FLOOR = np.uint64(TOTAL)


@kernel
def encode_symbols(starts, freqs, count, words):  # type: ignore[no-untyped-def]
    """Code ``count`` intervals backwards into the end of ``words`` (``count + 4`` words); the first word in use."""
    at = np.int64(len(words))
    mine = FLOOR  # the state of the lane of symbol i
    other = FLOOR
    if count & 1 == 0:
        mine, other = other, mine
    for i in range(count - 1, -1, -1):
        freq = np.uint64(peek(freqs, i))
        if mine >= freq << np.uint64(32):
            at -= 1
            poke(words, at, np.uint32(mine & np.uint64(0xFFFFFFFF)))
            mine >>= np.uint64(32)
        q = mine // freq
        coded = (q << np.uint64(TOTAL_BITS)) + np.uint64(peek(starts, i)) + (mine - q * freq)
        mine = other
        other = coded
    for state in (mine, other):  # symbol 0 was the last: its lane is now ``other``
        at -= 2
        poke(words, at, np.uint32(state & np.uint64(0xFFFFFFFF)))
        poke(words, at + 1, np.uint32(state >> np.uint64(32)))
    return at
