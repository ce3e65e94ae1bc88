"""The values a float type can hold, as integers in order: what a prediction is measured against.

The *code* of a value is its bits without the sign: codes grow with the magnitude, one apart from neighbour to
neighbour, denormals included. A float32 above 0 has the code of the value at or below it. F32 itself is predicted by
its upper 16 bits, which are a BF16; the lower ones are noise.

The class of a value says how far its prediction can be trusted, in half octaves of |mu| / sigma:

    k        0 (below 2^-2)  1 ... 5 (1 to 1.4)  6 ... 2m + 13     m: bits of mantissa
    shift    low bits of the difference of codes that are left to chance: a bucket is about sigma / 4
    phase    from k = 2m + 3 on, where sigma is below about two steps: quarter of the step that mu is in
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.lanes import WIDTH, bits_of, float_of, lanes16, larger, select, smaller, to_int
from kvzip.dtypes import Dtype

K_ONE = 5  # the class of |mu| = sigma
K_ABOVE = 10  # classes above the first with phases
PHASES = 4
K_ONE_SIDED = 9  # from here on values of the other sign escape: |mu| is 4 sigma

# Slots of the grid's vector (int64).
MANTISSA, SIGN_AT, CODES, DOWN, OFFSET, NORMAL, LIFT = range(7)


def first_phase(mantissa: int) -> int:
    """The first class with phases."""
    return 2 * mantissa + 3


@dataclass(frozen=True)
class Grid:
    """One float type: bits of exponent and mantissa, exponent's bias, bits of a symbolised value (8 or 16)."""

    mantissa: int
    exponent: int
    bias: int

    @property
    def bits(self) -> int:
        """Width of a value in bits."""
        return 1 + self.exponent + self.mantissa

    @property
    def bf16(self) -> bool:
        """Whether values are the upper halves of float32."""
        return (self.mantissa, self.exponent, self.bias) == (7, 8, 127)

    @property
    def contexts(self) -> int:
        """How many contexts a value can be coded in: a class and, where there are any, its phase."""
        return first_phase(self.mantissa) + PHASES * (K_ABOVE + 1)

    def vector(self) -> NDArray[np.int64]:
        """What the kernels read. ``LIFT`` is log2 of what turns a denormal into its code."""
        m = self.mantissa
        normal = (128 - self.bias) << 23 if self.bias < 127 else 0  # float32 bits of the least normal value
        offset = (127 - self.bias) << m
        return np.array(
            [m, self.bits - 1, (1 << (self.bits - 1)) - 1, 23 - m, offset, normal, self.bias - 1 + m], np.int64
        )


_BIAS = {"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 16}


@cache
def grid_of(dtype: Dtype) -> Grid | None:
    """The grid by which a type's values are predicted; None if they are not."""
    if not dtype.is_float or dtype.name == "F64":
        return None
    if dtype.name == "F32":
        return Grid(7, 8, 127)
    return Grid(dtype.mantissa, dtype.exponent, _BIAS.get(dtype.name, (1 << (dtype.exponent - 1)) - 1))


def _pack(
    mean: Any,
    variance: Any,
    energy: Any,
    mantissa: Any,
    down: Any,
    offset: Any,
    normal: Any,
    codes: Any,
    lift: Any,
    up: Any,
) -> Any:
    """What a value's symbol is relative to, and where its context begins in a table of ``2^up`` entries each;
    ``energy`` multiplies the variance.

        bits 0-15 reference code | 16-19 shift | 20 prediction is negative | 21 two-sided | 22-28 context
    """
    k, size = _class_and_size(mean, variance, energy, mantissa)
    denormal = to_int(smaller(float_of(size) * lift, 65536.0))
    code = smaller(select(size < normal, denormal, (size >> down) - offset), codes)
    return _packed(mean, k, code, (size >> (down - 2)) & 3, mantissa, up)


def _pack_bf16(mean: Any, variance: Any, energy: Any, mantissa: Any, codes: Any, up: Any) -> Any:
    """``_pack`` for BF16, whose codes are the upper halves of float32."""
    k, size = _class_and_size(mean, variance, energy, mantissa)
    return _packed(mean, k, smaller(size >> 16, codes), (size >> 14) & 3, mantissa, up)


def _class_and_size(mean: Any, variance: Any, energy: Any, mantissa: Any) -> Any:
    """k, and the bits of the larger one of |mu| and sigma."""
    variance_bits = bits_of(larger(variance * energy, 2.0**-100))
    k = ((bits_of(mean * mean) - variance_bits) >> 23) + K_ONE
    k = larger(smaller(k, mantissa + mantissa + (3 + K_ABOVE)), 0)
    sigma_bits = (variance_bits >> 1) + 0x1FC00000  # of about the square root
    return k, larger(bits_of(mean) & 0x7FFFFFFF, sigma_bits)


def _packed(mean: Any, k: Any, code: Any, phase: Any, mantissa: Any, up: Any) -> Any:
    first = mantissa + mantissa + 3
    context = select(k < first, k, first + ((k - first) << 2) + phase)
    shift = larger(mantissa - 2 - larger((k - K_ONE) >> 1, 0), 0)
    negative = select(mean < 0.0, (k & 0) + 1, k & 0)
    two = select(k < K_ONE_SIDED, (k & 0) + 1, k & 0)
    return code | (shift << 16) | (negative << 20) | (two << 21) | (context << 22), context << up


pack: Any = lanes16(_pack, "ffFIIIIIFI>ii")
pack_bf16: Any = lanes16(_pack_bf16, "ffFIII>ii")


def groups_of(channels: int, pairs: int) -> tuple[NDArray[np.int64], int]:
    """How a row of ``channels`` (the first of ``pairs`` pairs, the second, the rest) is padded to whole sixteens.

    Rows (place in the padded row, place in the row, how many of the sixteen are channels), and the padded width.
    """
    out = []
    place = at = 0
    for size in (pairs, pairs, channels - 2 * pairs):
        for start in range(0, size, WIDTH):
            out.append((place, at + start, min(WIDTH, size - start)))
            place += WIDTH
        at += size
    return np.array(out, np.int64), place
