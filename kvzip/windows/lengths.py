"""Code lengths in 1/256 bit from integers alone, so that encoder, decoder and every machine agree on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing


def _log2_fraction() -> NDArray[np.int64]:
    """round(256 * log2(1 + i/256)) for i in 0..255, by repeated squaring of a 64-bit fixed-point number."""
    table = np.zeros(257, np.int64)
    for i in range(256):
        x = (256 + i) << 54  # 1 <= x / 2^62 < 2
        bits = 0
        for _ in range(12):
            x = x * x >> 62
            bits = bits << 1 | (x >> 63)
            x >>= x >> 63
        table[i] = (bits + 8) >> 4
    table[256] = 256
    return table


LOG2_FRACTION = _log2_fraction()


@borrowing
def log2_of(n, fraction):  # type: ignore[no-untyped-def]
    """log2 of an integer 1 <= n < 2^48 in 1/256 bit; ``fraction`` is LOG2_FRACTION."""
    e = np.int64(0)
    for b in (32, 16, 8, 4, 2, 1):
        if (n >> e) >> b > 0:
            e += b
    return (e << 8) + fraction[((n << 8) >> e) & 0xFF]


@borrowing
def entropy(counts, fraction):  # type: ignore[no-untyped-def]
    """Bits, in 1/256, that symbols take which occur so often."""
    total = np.int64(0)
    bits = np.int64(0)
    for s in range(len(counts)):
        if counts[s] > 0:
            total += counts[s]
            bits -= counts[s] * log2_of(counts[s], fraction)
    return bits + total * log2_of(max(np.int64(1), total), fraction)


@borrowing
def _fill(bits, fraction, out):  # type: ignore[no-untyped-def]
    for freq in range(1, len(out)):
        out[freq] = (bits << 8) - log2_of(np.int64(freq), fraction)


def code_lengths(bits: int) -> NDArray[np.int64]:
    """-log2(freq / 2^bits) in 1/256 bit for every freq in 0..2^bits (entry 0 stands for no symbol and is 0)."""
    out = np.zeros((1 << bits) + 1, np.int64)
    _fill(bits, LOG2_FRACTION, out)
    return out
