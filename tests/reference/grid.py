"""Sections 11.3, 11.7 and 11.8 of docs/format.md: a float type's codes, and the contexts and symbols of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .prediction import LEAST_VARIANCE, Row, bits_of, floats_of, larger

if TYPE_CHECKING:
    from .blocks import Extent

Ints = NDArray[np.int64]
BITS = dict(zip(range(1, 23), (8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, *[16] * 4, *[32] * 3, *[64] * 4), strict=True))
FLOATS = {7: (5, 2), 8: (4, 3), 10: (4, 3), 11: (5, 2), 14: (5, 10), 15: (8, 7), 18: (8, 23), 20: (11, 52)}
F8_E4M3FNUZ, F8_E5M2FNUZ, F32, F64 = 10, 11, 18, 20
OUT = 255


def has_grid(extent: Extent) -> bool:
    """Whether an extent's values can be predicted."""
    return bool(extent.axes and extent.exponent and extent.dtype != F64)


@dataclass
class Context:
    """What a value's symbol means: the window's number, reference code, low bits, signs."""

    window: int
    reference: int
    shift: int
    negative: int
    two: int


class Grid:
    def __init__(self, extent: Extent) -> None:
        self.mantissa, exponent, self.bias = extent.mantissa, extent.exponent, (1 << (extent.exponent - 1)) - 1
        if extent.dtype in (F8_E4M3FNUZ, F8_E5M2FNUZ):
            self.bias += 1
        if extent.dtype == F32:
            self.mantissa = 7
        self.bits = 1 + exponent + self.mantissa
        self.item = self.bits // 8
        self.mask = (1 << (self.bits - 1)) - 1
        self.lift = self.bias - 1 + self.mantissa
        self.contexts = 2 * self.mantissa + 3 + 4 * 11

    def numbers(self, values: Ints, prediction: Row) -> Row:
        """Section 11.3: what is learnt of values."""
        m = self.mantissa
        code = values & self.mask
        small = code.astype(np.float32) * np.float32(2.0**-self.lift if self.bias < 127 else 0)
        size = bits_of(np.where(code < 1 << m, small, floats_of((code + (127 - self.bias << m)) << (23 - m))))
        number = np.where(values >> (self.bits - 1) > 0, -floats_of(size), floats_of(size))
        number = np.where(size < (127 - 60) << 23, np.float32(0), number)
        return np.where(size < (127 + 60) << 23, number, prediction)

    def contexts_of(self, mean: Row, variance: Row) -> list[Context]:
        m = self.mantissa
        vb = bits_of(larger(variance, LEAST_VARIANCE))
        k = np.clip(((bits_of(mean * mean) - vb) >> 23) + 5, 0, 2 * m + 13)
        size = np.maximum(bits_of(mean) & 0x7FFFFFFF, (vb >> 1) + 0x1FC00000)
        code = (size >> (23 - m)) - (127 - self.bias << m)
        if self.bias < 127:
            lifted = floats_of(size) * np.float32(2.0 ** min(60, self.lift))
            denormal = np.where(lifted < 65536, lifted, np.float32(65536)).astype(np.int64)
            code = np.where(size < (128 - self.bias) << 23, denormal, code)
        code = np.minimum(code, self.mask)
        phase = size >> (21 - m) & 3
        window = np.where(k <= 2 * m + 2, k, 2 * m + 3 + 4 * (k - 2 * m - 3) + phase)
        shift = np.maximum(m - 2 - np.maximum((k - 5) >> 1, 0), 0)
        columns = window, code, shift, mean < 0, k < 9
        return [Context(*map(int, row)) for row in zip(*columns, strict=True)]

    def value(self, symbol: int, low: int, at: Context) -> int:
        """The value of a symbol that did not escape."""
        other = symbol >> 6 & at.two
        step = symbol - (64 * other + 48 if at.two else 64)
        d = (step << at.shift) + low + at.reference
        if d < 0:
            d, other = -d, 1
        return (d & self.mask) | (other ^ at.negative) << (self.bits - 1)

    def symbol(self, value: int, at: Context) -> int:
        """The symbol of a value; ``OUT`` if it has none."""
        a, other = value & self.mask, value >> (self.bits - 1) ^ at.negative
        if at.two:
            step = (a - at.reference >> at.shift) + 48
            return step + 64 * other if 0 <= step < 64 else OUT
        if a == 0 and other:
            return OUT
        step = ((-a if other else a) - at.reference >> at.shift) + 64
        return step if 0 <= step < 128 else OUT
