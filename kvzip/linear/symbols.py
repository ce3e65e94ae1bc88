"""Bit patterns as ordered integers, and the values and borders they stand for.

The ordered integer k of a bit pattern grows with the value: negative patterns inverted, the sign of the others set.
Of a 32-bit float only the upper half is modelled; the lower one is noise, and travels as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import kernel
from kvzip.coder.memory import peek, poke
from kvzip.dtypes import Dtype

FAR = np.float32(1e30)  # stands for borders of infinities and NaNs
SUPPORTED = ("BF16", "F16", "F8_E4M3", "F8_E5M2", "F32")


@dataclass(frozen=True)
class Alphabet:
    """What the coder knows of a type. Values are multiplied by 2^scale lest squares overflow or vanish."""

    width: int  # bits that are modelled
    raw: int  # bits below them
    mantissa: int  # of the modelled bits
    scale: int
    values: NDArray[np.float32]  # of each k; NaN where the pattern is no number
    edges: NDArray[np.float32]  # edges[k] is the border between k - 1 and k
    offset: int  # float32 bits of |value| minus this, shifted right by 23 - mantissa, are the pattern
    half: int  # to round to the nearest value; 0 where borders are the values themselves
    least: float  # the smallest normal number
    step: float  # patterns per unit below it


def _magnitudes(dtype: Dtype) -> tuple[NDArray[np.float64], int, int, int]:
    """Values of the non-negative patterns (NaN for no number), and the width, mantissa and bias."""
    width = min(16, dtype.bits)
    mantissa = width - 1 - dtype.exponent
    bias = (1 << (dtype.exponent - 1)) - 1
    pattern = np.arange(1 << (width - 1), dtype=np.int64)
    exponent = pattern >> mantissa
    fraction = (pattern & ((1 << mantissa) - 1)).astype(np.float64)
    tiny = exponent == 0
    power = np.where(tiny, 1, exponent) - bias - mantissa
    values = np.ldexp(fraction + np.where(tiny, 0.0, float(1 << mantissa)), power)
    if dtype.name == "F8_E4M3":
        values[-1] = np.nan
    else:
        values[exponent == (1 << dtype.exponent) - 1] = np.nan
    return values, width, mantissa, bias


def alphabet(dtype: Dtype, scale: int) -> Alphabet:
    """The tables of a type whose values are to be multiplied by ``2^scale``."""
    magnitude, width, mantissa, bias = _magnitudes(dtype)
    magnitude = np.ldexp(magnitude, scale)
    magnitude[magnitude > 1e18] = np.nan
    raw = dtype.bits - width
    values = np.concatenate([-magnitude[::-1], magnitude])
    known = np.nan_to_num(values, nan=float(FAR))
    known[: len(magnitude)] = np.where(np.isnan(values[: len(magnitude)]), -float(FAR), known[: len(magnitude)])
    edges = np.empty(len(values) + 1, np.float64)
    edges[0], edges[-1] = -FAR, FAR
    if raw:
        half = len(magnitude)
        edges[1:half] = known[: half - 1]
        edges[half:-1] = known[half:]
        values[half:-1] = (values[half:-1] + values[half + 1 :]) / 2
        values[:half] = -values[: half - 1 : -1]
    else:
        edges[1:-1] = np.where(abs(known[1:]) + abs(known[:-1]) < 1e25, (known[1:] + known[:-1]) / 2, 0)
        edges[1:-1] = np.where(known[:-1] <= -1e25, -FAR, np.where(known[1:] >= 1e25, FAR, edges[1:-1]))
    with np.errstate(invalid="ignore"):
        return Alphabet(
            width, raw, mantissa, scale, values.astype(np.float32), edges.astype(np.float32),
            (127 - bias + scale) << 23, 0 if raw else 1 << (22 - mantissa),
            float(np.ldexp(1.0, 1 - bias + scale)), float(np.ldexp(1.0, bias - 1 + mantissa - scale)),
        )  # fmt: skip


@kernel
def arrange(values, raw, sign, column_of, start, rows):  # type: ignore[no-untyped-def]
    """Put one stream's bits (tokens, channels) into its columns of ``rows`` as ordered integers."""
    full = 2 * sign - 1
    own = rows.shape[1]
    flat = rows.reshape(-1)
    for t in range(values.shape[0]):
        for c in range(values.shape[1]):
            o = column_of[start + c]
            if o >= 0:
                top = np.int64(values[t, c]) >> raw
                poke(flat, t * own + o, np.uint16(full - top if top & sign else top | sign))


@kernel
def restore(rows, raw, sign, column_of, start, values):  # type: ignore[no-untyped-def]
    """The inverse of ``arrange``; bits below the modelled ones become 0."""
    full = 2 * sign - 1
    own = rows.shape[1]
    flat = rows.reshape(-1)
    for t in range(values.shape[0]):
        for c in range(values.shape[1]):
            o = column_of[start + c]
            if o >= 0:
                k = np.int64(peek(flat, t * own + o))
                values[t, c] = (k - sign if k & sign else full - k) << raw


def choose_scale(bits: NDArray[np.unsignedinteger], dtype: Dtype) -> tuple[int, int]:
    """The power of two to multiply values by, 0 unless they are far from 1; and their median exponent."""
    magnitude, width, _, _ = _magnitudes(dtype)
    sample = bits.reshape(-1)[:: max(1, bits.size >> 14)] >> np.array(dtype.bits - width, bits.dtype)
    exponent = typical_exponent(magnitude[sample.astype(np.int64) & ((1 << (width - 1)) - 1)], 0)
    return (0, exponent) if abs(exponent) <= 24 else (max(-120, min(120, -exponent)), 0)


def typical_exponent(numbers: NDArray[np.floating[Any]], otherwise: int) -> int:
    """The median exponent of finite numbers that are not 0, ``otherwise`` if there are none."""
    size = np.abs(numbers.reshape(-1)[:: max(1, numbers.size >> 14) | 1])
    size = size[(size > 0) & np.isfinite(size)]
    return int(np.frexp(np.sort(size)[len(size) // 2])[1]) if len(size) else otherwise
