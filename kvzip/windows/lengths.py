"""Code lengths in 1/256 bit from integers alone, so that encoder, decoder and every machine agree on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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


def log2(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """log2 of integers below 2^48 in 1/256 bit; 0 counts as 1."""
    values = np.maximum(values, 1)
    exponent = np.zeros(values.shape, np.int64)
    for b in (32, 16, 8, 4, 2, 1):
        exponent += b * ((values >> exponent) >> b > 0)
    return (exponent << 8) + LOG2_FRACTION[((values << 8) >> exponent) & 0xFF]


def entropy(counts: NDArray[np.int64]) -> int:
    """Bits that a histogram's symbols take at their own order-0 entropy, in 1/256 bit."""
    total = np.array([counts.sum()])
    return int((total * log2(total)).sum() - (counts * log2(counts)).sum())


def code_lengths(bits: int) -> NDArray[np.int64]:
    """-log2(freq / 2^bits) in 1/256 bit for every freq in 0..2^bits (entry 0 stands for no symbol)."""
    return (bits << 8) - log2(np.arange((1 << bits) + 1, dtype=np.int64))
