"""Split values into planes and join them again.

A float's bits are first turned so that exponent, sign and mantissa follow each other from the top:

    [sign | exponent | mantissa]  ->  [exponent | sign | mantissa]

then cut from the top into planes: ``symbol_bits`` of them modelled (8 bits, then the rest), what is left below in
bytes, the first of these shorter if need be. BF16 with 9 symbol bits, for instance:

    bit 15            8   7   6             0
        [  exponent   ][ sign ][  mantissa  ]
         plane 0, 8     1, 1     2, 7 (raw)

Integers are not turned, and all their planes are tried, none is expected to pay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import kernel, step
from kvzip.dtypes import Dtype
from kvzip.windows.lengths import entropy
from kvzip.windows.prior import Fields


@dataclass(frozen=True)
class Plane:
    """``(turned value >> shift) & (2^width - 1)``; ``modelled`` planes always go through windows."""

    shift: int
    fields: Fields
    modelled: bool

    @property
    def width(self) -> int:
        """Bits of a symbol."""
        return self.fields.width


def default_symbol_bits(dtype: Dtype) -> int:
    """Exponent and sign, at least 8 bits: what pays without a prediction."""
    return min(dtype.bits, max(8, dtype.exponent + 1)) if dtype.is_float else min(dtype.bits, 8)


def planes_of(dtype: Dtype, symbol_bits: int, modelled: bool) -> tuple[Plane, ...]:
    """The planes of a type, from the top. ``modelled`` False (opaque data) makes every plane a tried one."""
    bits = 8 * dtype.container_bytes
    symbol_bits = min(symbol_bits, bits)
    cuts = [min(8, symbol_bits), symbol_bits - 8] if symbol_bits > 8 else [symbol_bits]
    below = bits - symbol_bits
    if below % 8:
        cuts.append(below % 8)
    cuts += [8] * (below // 8)
    out: list[Plane] = []
    top = bits
    for width in cuts:
        out.append(Plane(top - width, _fields(dtype, top, width), modelled and bits - top < symbol_bits))
        top -= width
    return tuple(out)


def _fields(dtype: Dtype, top: int, width: int) -> Fields:
    """Which of exponent and sign the bits ``top - width .. top - 1`` of a turned value hold."""
    if not dtype.is_float:
        return Fields(0, 0, width)
    below_exponent = dtype.bits - dtype.exponent
    exponent = max(0, min(width, top - below_exponent))
    sign = int(top - width < below_exponent <= top and exponent < width)
    whole = exponent == dtype.exponent  # a cut exponent has no trained shape
    return Fields(exponent, sign, width - exponent - sign) if whole or not exponent else Fields(0, 0, width)


@kernel
def trailing_zero_rows(values, streams, tokens, channels, out):  # type: ignore[no-untyped-def]
    """For each stream the number of rows at its end whose bits are all zero, into ``out`` (streams) int64."""
    for stream in range(streams):
        end = np.int64(stream + 1) * tokens * channels
        i = end - 1
        first = end - tokens * channels
        while i >= first and values[i] == 0:
            i -= 1
        out[stream] = (end - 1 - i) // channels


@step
def turned(x, exponent, mantissa):  # type: ignore[no-untyped-def]
    """[sign | exponent | mantissa] as [exponent | sign | mantissa]; unturned if ``exponent`` is 0."""
    if exponent > 0:
        low = x & ((np.uint64(1) << np.uint64(mantissa)) - np.uint64(1))
        sign = x >> np.uint64(mantissa + exponent)
        middle = (x >> np.uint64(mantissa)) & ((np.uint64(1) << np.uint64(exponent)) - np.uint64(1))
        x = (middle << np.uint64(mantissa + 1)) | (sign << np.uint64(mantissa)) | low
    return x


@kernel
def split(values, exponent, mantissa, shift, mask, out):  # type: ignore[no-untyped-def]
    """One plane of flat unsigned ``values`` into ``out`` (uint8). ``exponent`` 0 leaves the values unturned."""
    for i in range(len(values)):
        x = turned(np.uint64(values[i]), exponent, mantissa)
        out[i] = np.uint8((x >> np.uint64(shift)) & np.uint64(mask))


@kernel
def sample_entropies(values, stride, exponent, mantissa, cuts, fraction, out):  # type: ignore[no-untyped-def]
    """What every ``stride``-th of flat ``values`` takes at its planes' own order-0 entropies, in 1/256 bit, into
    ``out`` (planes) int64; ``cuts`` (planes, 2) int64 are shifts and widths. Returns how many they are."""
    counts = np.zeros((len(cuts), 256), np.int64)
    for i in range(0, len(values), stride):
        x = turned(np.uint64(values[i]), exponent, mantissa)
        for p in range(len(cuts)):
            counts[p, (x >> np.uint64(cuts[p, 0])) & np.uint64((1 << cuts[p, 1]) - 1)] += 1
    total = np.int64((len(values) + stride - 1) // stride)
    for p in range(len(cuts)):
        out[p] = entropy(counts[p], fraction)
    return total


@kernel
def lay(symbols, shift, out):  # type: ignore[no-untyped-def]
    """Put a plane's symbols at ``shift`` into flat ``out`` (unsigned, still turned), which starts at zero."""
    for i in range(len(symbols)):
        out[i] |= out.dtype.type(np.uint64(symbols[i]) << np.uint64(shift))


@kernel
def turn_back(values, exponent, mantissa):  # type: ignore[no-untyped-def]
    """[exponent | sign | mantissa] back to [sign | exponent | mantissa], in place."""
    for i in range(len(values)):
        x = np.uint64(values[i])
        low = x & ((np.uint64(1) << np.uint64(mantissa)) - np.uint64(1))
        sign = (x >> np.uint64(mantissa)) & np.uint64(1)
        middle = x >> np.uint64(mantissa + 1)
        values[i] = (sign << np.uint64(mantissa + exponent)) | (middle << np.uint64(mantissa)) | low


def pack(symbols: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """Symbols of ``width`` bits as bytes: symbol i at bits i*width.., least significant first, zero-padded."""
    if width == 8:
        return symbols
    out = np.zeros((len(symbols) * width + 7) // 8, np.uint8)
    _pack(symbols, width, out)
    return out


def unpack(packed: NDArray[np.uint8], width: int, count: int) -> NDArray[np.uint8]:
    """The inverse of ``pack``; ``packed`` holds (count * width + 7) // 8 bytes."""
    if width == 8:
        return packed[:count]
    out = np.empty(count, np.uint8)
    _unpack(packed, width, out)
    return out


@kernel
def _pack(symbols, width, out):  # type: ignore[no-untyped-def]
    held = np.uint64(0)
    have = 0
    at = 0
    for i in range(len(symbols)):
        held |= np.uint64(symbols[i]) << np.uint64(have)
        have += width
        if have >= 8:
            out[at] = np.uint8(held & np.uint64(0xFF))
            at += 1
            held >>= np.uint64(8)
            have -= 8
    if have > 0:
        out[at] = np.uint8(held)


@kernel
def _unpack(packed, width, out):  # type: ignore[no-untyped-def]
    held = np.uint64(0)
    have = 0
    at = 0
    mask = (np.uint64(1) << np.uint64(width)) - np.uint64(1)
    for i in range(len(out)):
        if have < width:
            held |= np.uint64(packed[at]) << np.uint64(have)
            at += 1
            have += 8
        out[i] = np.uint8(held & mask)
        held >>= np.uint64(width)
        have -= width
