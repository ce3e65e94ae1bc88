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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing, kernel, step
from kvzip.coder.lanes import WIDTH, lanes16
from kvzip.coder.memory import peek, pointer_of, poke
from kvzip.dtypes import Dtype
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


@step
def unturned(x, exponent, mantissa):  # type: ignore[no-untyped-def]
    """The inverse."""
    if exponent > 0:
        low = x & ((np.uint64(1) << np.uint64(mantissa)) - np.uint64(1))
        sign = (x >> np.uint64(mantissa)) & np.uint64(1)
        x = (sign << np.uint64(mantissa + exponent)) | ((x >> np.uint64(mantissa + 1)) << np.uint64(mantissa)) | low
    return x


def _cut(x: Any, mantissa: Any, exponents: Any, below: Any, top: Any, shift: Any, mask: Any) -> Any:
    """A plane of values that are turned."""
    turn = (((x >> mantissa) & exponents) << (mantissa + 1)) | (((x >> top) & 1) << mantissa) | (x & below)
    return (turn >> shift) & mask


def _cut_plain(x: Any, shift: Any, mask: Any) -> Any:
    """A plane of values as they are."""
    return (x >> shift) & mask


def _lay(x: Any, symbol: Any, shift: Any) -> Any:
    """Values with one more plane."""
    return x | (symbol << shift)


def _turn_back(x: Any, mantissa: Any, exponents: Any, below: Any, top: Any) -> Any:
    """Values that were turned, as they are."""
    return (((x >> mantissa) & 1) << top) | (((x >> (mantissa + 1)) & exponents) << mantissa) | (x & below)


_cut16: Any = lanes16(_cut, "iIIIIII>i")
_cut_plain16: Any = lanes16(_cut_plain, "iII>i")
_lay16: Any = lanes16(_lay, "iiI>i")
_turn_back16: Any = lanes16(_turn_back, "iIIII>i")


@borrowing
def _split(values, begin, exponent, mantissa, shift, mask, out):  # type: ignore[no-untyped-def]
    for i in range(begin, len(values)):
        out[i] = np.uint8((turned(np.uint64(values[i]), exponent, mantissa) >> np.uint64(shift)) & np.uint64(mask))


@borrowing
def _split16(values, count, exponent, mantissa, shift, mask, out):  # type: ignore[no-untyped-def]
    exponents, below = (1 << exponent) - 1, (1 << mantissa) - 1
    x, y = pointer_of(values), pointer_of(out)
    for i in range(0, count, WIDTH):
        if exponent > 0:
            _cut16(x, i, mantissa, exponents, below, mantissa + exponent, shift, mask, y, i)
        else:
            _cut_plain16(x, i, shift, mask, y, i)


def split(values: NDArray[Any], exponent: int, mantissa: int, shift: int, mask: int, out: NDArray[np.uint8]) -> None:
    """One plane of flat unsigned ``values`` into ``out``. ``exponent`` 0 leaves the values unturned."""
    whole = _in_lanes(values)
    if whole:
        _split16(values, whole, exponent, mantissa, shift, mask, out)
    _split(values, whole, exponent, mantissa, shift, mask, out)


def _in_lanes(values: NDArray[Any]) -> int:
    """How many values go sixteen at a time: lanes hold 32 bits."""
    return len(values) - len(values) % WIDTH if values.itemsize < 8 else 0


@borrowing
def count_sample(values, run, stride, exponent, mantissa, shift, mask, counts):  # type: ignore[no-untyped-def]
    """Count the symbols of a plane in runs of flat ``values``, one begun every ``stride``; how many there were."""
    total = np.int64(0)
    for start in range(0, len(values), stride):
        stop = min(start + run, len(values))
        total += stop - start
        for i in range(start, stop):
            s = np.int64(
                (turned(np.uint64(peek(values, i)), exponent, mantissa) >> np.uint64(shift)) & np.uint64(mask)
            )
            poke(counts, s, peek(counts, s) + 1)
    return total


@borrowing
def _join(symbols, begin, shift, out):  # type: ignore[no-untyped-def]
    for i in range(begin, len(symbols)):
        out[i] |= out.dtype.type(np.uint64(symbols[i]) << np.uint64(shift))


@borrowing
def _join16(symbols, count, shift, out):  # type: ignore[no-untyped-def]
    x, y = pointer_of(symbols), pointer_of(out)
    for i in range(0, count, WIDTH):
        _lay16(y, i, x, i, shift, y, i)


def lay(symbols: NDArray[np.uint8], shift: int, out: NDArray[Any]) -> None:
    """Put a plane's symbols at ``shift`` into flat ``out`` (unsigned, still turned), which starts at zero."""
    whole = _in_lanes(out)
    if whole:
        _join16(symbols, whole, shift, out)
    _join(symbols, whole, shift, out)


@borrowing
def _back(values, begin, exponent, mantissa):  # type: ignore[no-untyped-def]
    for i in range(begin, len(values)):
        values[i] = unturned(np.uint64(values[i]), exponent, mantissa)


@borrowing
def _back16(values, count, exponent, mantissa):  # type: ignore[no-untyped-def]
    exponents, below = (1 << exponent) - 1, (1 << mantissa) - 1
    x = pointer_of(values)
    for i in range(0, count, WIDTH):
        _turn_back16(x, i, mantissa, exponents, below, mantissa + exponent, x, i)


def turn_back(values: NDArray[Any], exponent: int, mantissa: int) -> None:
    """[exponent | sign | mantissa] back to [sign | exponent | mantissa], in place."""
    whole = _in_lanes(values)
    if whole:
        _back16(values, whole, exponent, mantissa)
    _back(values, whole, exponent, mantissa)


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
