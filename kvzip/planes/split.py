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
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing, step
from kvzip.coder.lanes import WIDTH, lanes16
from kvzip.coder.memory import peek, pointer_of, poke
from kvzip.dtypes import Dtype
from kvzip.windows.lengths import LOG2_FRACTION, entropy
from kvzip.windows.prior import Fields

SAMPLE = 4096  # symbols looked at to decide whether a plane could pay
RUN = 32  # neighbours that are looked at together: a line of the cache


@dataclass(frozen=True)
class Plane:
    """``(turned value >> shift) & (2^width - 1)``; ``modelled`` planes always go through windows."""

    shift: int
    fields: Fields
    modelled: bool

    @cached_property
    def width(self) -> int:
        """Bits of a symbol."""
        return self.fields.width


def default_symbol_bits(dtype: Dtype) -> int:
    """Exponent and sign, at least 8 bits: what pays without a prediction."""
    return min(dtype.bits, max(8, dtype.exponent + 1)) if dtype.is_float else min(dtype.bits, 8)


@cache
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


def _turn_back(x: Any, mantissa: Any, exponents: Any, below: Any, top: Any) -> Any:
    """Values that were turned, as they are."""
    return (((x >> mantissa) & 1) << top) | (((x >> (mantissa + 1)) & exponents) << mantissa) | (x & below)


def _lay_first(symbol: Any, shift: Any) -> Any:
    """Values of one plane."""
    return symbol << shift


def _lay(x: Any, symbol: Any, shift: Any) -> Any:
    """Values with one more plane."""
    return x | (symbol << shift)


def _lay_last(x: Any, symbol: Any, shift: Any, mantissa: Any, exponents: Any, below: Any, top: Any) -> Any:
    """Values with their last plane, turned back."""
    return _turn_back(_lay(x, symbol, shift), mantissa, exponents, below, top)


def _lay_only(symbol: Any, shift: Any, mantissa: Any, exponents: Any, below: Any, top: Any) -> Any:
    """Values of their only plane, turned back."""
    return _turn_back(_lay_first(symbol, shift), mantissa, exponents, below, top)


_cut16: Any = lanes16(_cut, "iIIIIII>i")
_cut_plain16: Any = lanes16(_cut_plain, "iII>i")
_lay_first16: Any = lanes16(_lay_first, "iI>i")
_lay16: Any = lanes16(_lay, "iiI>i")
_lay_last16: Any = lanes16(_lay_last, "iiIIIII>i")
_lay_only16: Any = lanes16(_lay_only, "iIIIII>i")


@borrowing
def kept_rows(values, streams, tokens, channels, kept):  # type: ignore[no-untyped-def]
    """For each stream the number of rows before its last ones of zeros only, into ``kept`` (streams) int64."""
    for stream in range(streams):
        i = np.int64(stream + 1) * tokens * channels - 1
        first = np.int64(stream) * tokens * channels
        while i >= first and peek(values, i) == 0:
            i -= 1
        kept[stream] = (i - first) // channels + 1


@borrowing
def _is_constant(symbols, begin, end):  # type: ignore[no-untyped-def]
    i = begin
    while i < end and peek(symbols, i) == peek(symbols, begin):
        i += 1
    return i == end


def _slicer(lanes: bool) -> Any:
    """What cuts so many values into one plane; ``lanes``: sixteen at a time, for values of up to 32 bits."""

    @borrowing
    def run(values, begin, count, exponent, mantissa, shift, mask, out, at):  # type: ignore[no-untyped-def]
        i = np.int64(0)
        if lanes:
            exponents, below, top = (1 << exponent) - 1, (1 << mantissa) - 1, mantissa + exponent
            x = pointer_of(values)
            whole = count - count % WIDTH
            while i < whole:
                if exponent > 0:
                    _cut16(x, begin + i, mantissa, exponents, below, top, shift, mask, out, at + i)
                else:
                    _cut_plain16(x, begin + i, shift, mask, out, at + i)
                i += WIDTH
        while i < count:
            turn = turned(np.uint64(peek(values, begin + i)), exponent, mantissa)
            poke(out, at + i, np.uint8((turn >> np.uint64(shift)) & np.uint64(mask)))
            i += 1

    return run


_slice_lanes, _slice_wide = _slicer(True), _slicer(False)


def _cutter(lanes: bool) -> Any:
    """The kernel that cuts values into planes; ``lanes`` as above."""

    @borrowing
    def cut(  # type: ignore[no-untyped-def]
        values, streams, tokens, channels, exponent, mantissa, cuts, fraction, kept, symbols, found, room
    ):
        kept_rows(values, streams, tokens, channels, kept)
        count = np.int64(0)
        for stream in range(streams):
            count += kept[stream] * channels
        size = np.int64(streams) * tokens * channels
        flat = pointer_of(symbols)
        stride = max(np.int64(1), count // SAMPLE) | 1
        for p in range(len(cuts)):
            start = at = p * size
            mask = (np.int64(1) << cuts[p, 1]) - 1
            shift, parts = cuts[p, 0], np.int64(1) if count == size else np.int64(streams)
            for stream in range(parts):
                begin, part = stream * tokens * channels, count if parts == 1 else kept[stream] * channels
                if lanes:
                    _slice_lanes(values, begin, part, exponent, mantissa, shift, mask, flat, at)
                else:
                    _slice_wide(values, begin, part, exponent, mantissa, shift, mask, flat, at)
                at += part
            found[p, 0] = _is_constant(flat, start, start + count)
            room[:] = 0
            sampled = np.int64(0)
            for i in range(start, start + count, stride):
                s = np.int64(peek(flat, i))
                poke(room, s, peek(room, s) + 1)
                sampled += 1
            found[p, 1] = entropy(room, fraction)
            found[p, 2] = sampled
        return count

    return cut


_cut_lanes, _cut_wide = _cutter(True), _cutter(False)


@dataclass(frozen=True)
class Cut:
    """Values in planes: ``tokens`` kept of each stream, without its last rows of zeros; the planes' flat symbols; and
    of each plane whether it is constant, the bits (in 1/256) that a sample takes at its own order-0 entropy, and the
    symbols in that."""

    tokens: NDArray[np.int64]
    symbols: list[NDArray[np.uint8]]
    constant: list[int]
    bits: list[int]
    sampled: list[int]


@cache
def _cuts(planes: tuple[Plane, ...]) -> NDArray[np.int64]:
    """Shift and width of each plane."""
    return np.array([(plane.shift, plane.width) for plane in planes], np.int64)


def cut(values: NDArray[Any], exponent: int, mantissa: int, planes: tuple[Plane, ...]) -> Cut:
    """The planes of unsigned ``values`` (streams, tokens, channels). ``exponent`` 0 leaves the values unturned."""
    streams, tokens, channels = values.shape
    kept = np.empty(streams, np.int64)
    symbols = np.empty((len(planes), values.size), np.uint8)
    found = np.empty((len(planes), 3), np.int64)
    count = (_cut_lanes if values.itemsize < 8 else _cut_wide)(
        values.reshape(-1), streams, tokens, channels, exponent, mantissa, _cuts(planes), LOG2_FRACTION, kept,
        symbols, found, np.empty(256, np.int64),
    )  # fmt: skip
    constant, bits, sampled = found.T.tolist()
    return Cut(kept, [plane[:count] for plane in symbols], constant, bits, sampled)


@borrowing
def _promise(values, exponent, mantissa, cuts, fraction, room):  # type: ignore[no-untyped-def]
    stride = max(np.int64(RUN), RUN * len(values) // SAMPLE) | 1
    bits = np.float64(0)
    for p in range(len(cuts)):
        shift, mask = np.uint64(cuts[p, 0]), (np.uint64(1) << np.uint64(cuts[p, 1])) - np.uint64(1)
        room[:] = 0
        count = np.int64(0)
        for start in range(0, len(values), stride):
            stop = min(start + RUN, len(values))
            count += stop - start
            for i in range(start, stop):
                s = np.int64((turned(np.uint64(peek(values, i)), exponent, mantissa) >> shift) & mask)
                poke(room, s, peek(room, s) + 1)
        bits += min(np.float64(cuts[p, 1]), entropy(room, fraction) / max(np.int64(1), count) / 256)
    return bits


def promise(values: NDArray[Any], exponent: int, mantissa: int, planes: tuple[Plane, ...]) -> float:
    """About the bits that each of flat ``values`` takes in planes: the order-0 entropy of a sample of theirs."""
    return float(_promise(values, exponent, mantissa, _cuts(planes), LOG2_FRACTION, np.empty(256, np.int64)))


def _layer(lanes: bool) -> Any:
    """The kernel that lays planes onto each other; ``lanes`` as for ``_cutter``."""

    @borrowing
    def run(symbols, shift, first, exponent, mantissa, out):  # type: ignore[no-untyped-def]
        i, count = np.int64(0), len(out)
        if lanes:
            exponents, below, top = (1 << exponent) - 1, (1 << mantissa) - 1, mantissa + exponent
            x, y = pointer_of(symbols), pointer_of(out)
            whole = count - count % WIDTH
            while i < whole:
                if exponent > 0:
                    if first:
                        _lay_only16(x, i, shift, mantissa, exponents, below, top, y, i)
                    else:
                        _lay_last16(y, i, x, i, shift, mantissa, exponents, below, top, y, i)
                elif first:
                    _lay_first16(x, i, shift, y, i)
                else:
                    _lay16(y, i, x, i, shift, y, i)
                i += WIDTH
        while i < count:
            value = np.uint64(peek(symbols, i)) << np.uint64(shift)
            if not first:
                value |= np.uint64(peek(out, i))
            poke(out, i, unturned(value, exponent, mantissa))
            i += 1

    return run


_lay_lanes, _lay_wide = _layer(True), _layer(False)


def lay(symbols: NDArray[np.uint8], shift: int, out: NDArray[Any], first: bool, exponent: int, mantissa: int) -> None:
    """Put a plane's symbols at ``shift`` into flat ``out`` (unsigned), onto what is there unless it is ``first``.

    ``exponent`` and ``mantissa`` are given with the last plane, to turn the values back; else ``exponent`` is 0.
    """
    (_lay_lanes if out.itemsize < 8 else _lay_wide)(symbols, shift, first, exponent, mantissa, out)


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


@borrowing
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


@borrowing
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
