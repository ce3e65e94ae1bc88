"""Section 12 of docs/format.md: UNIT records, and the blocks of the extents that are coded together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .blocks import BATCH, LATENT, LAYER, VALUE, Chain, Extent, plan
from .linear import LinearDecoder
from .linear_columns import Row, Stream, base_columns
from .linear_settings import Settings
from .reading import Bytes, UnsupportedError, require
from .shared import Known

LINEAR, APART = range(2)
MOST_BYTES = 192 << 20
TYPES = (7, 8, 14, 15, 18)  # F8_E5M2, F8_E4M3, F16, BF16, F32


@dataclass
class Unit:
    first: int
    count: int
    rope: int
    tokens: int
    step: int
    keep: int
    bases: list[int]
    settings: Settings

    @classmethod
    def read(cls, data: Bytes) -> Unit:
        first, count = data.varint(0, 1 << 21), data.varint(1, 16)
        rope, tokens = data.varint(0, 1 << 21), data.varint(0, 1 << 21)
        step, keep = data.varint(1, 1 << 16), data.varint(0, 1 << 16)
        bases = data.number(1)
        require(bases <= 4, "too many bases")
        backs = [data.varint(1, 1 << 16) for _ in range(bases)]
        return cls(first, count, rope, tokens, step, keep, backs, Settings.read(data))


class UnitDecoder:
    """Decodes a unit's blocks in order."""

    def __init__(
        self,
        unit: Unit,
        extents: list[Extent],
        before: list[UnitDecoder],
        parameters: dict[str, int],
        known: Known,
    ) -> None:
        self.unit, self.extents, self.parameters, self.known = unit, extents, parameters, known
        require(len(extents) == unit.count and _can_join(extents), "extents that are no unit")
        require(unit.rope <= len(known.ropes) and unit.tokens <= len(known.tokens), "a unit refers to nothing")
        if unit.tokens:
            require(len(known.tokens[unit.tokens - 1]) == self.tokens, "tokens of another dump")
        for back in unit.bases:
            require(back <= len(before) and back <= before[-back].unit.keep, "a base that is not kept")
            require(before[-back].tokens == self.tokens, "a base of other tokens")
        self.bases = [before[-back] for back in unit.bases]
        self.streams = self._streams()
        for stream in self.streams:
            if stream.rope and not stream.value:
                require(stream.rope.channels <= stream.channels, "a rope for wider rows")
        base = sum(stream.channels for unit in self.bases for stream in unit.streams)
        self.linear = LinearDecoder(extents[0], self.streams, base, unit.settings)
        self.apart: list[Chain] = []
        self.parts: list[list[list[int]]] = [[] for _ in extents]  # by extent and block, each stream after stream

    @property
    def tokens(self) -> int:
        return self.extents[0].tokens

    @property
    def blocks(self) -> int:
        return -(-self.tokens // self.unit.step)

    def decode(self, data: Bytes, number: int) -> bytes:
        """What the block's check is of."""
        method = data.number(1)
        if method > APART:
            raise UnsupportedError(f"method {method} is unknown")
        if method == LINEAR:
            require(not self.apart, "a prediction that was given up goes on")
            return self._decode_linear(data, number)
        if not self.apart:
            known = Known(2, self.known.exponents, self.known.residuals)  # no ropes, no tokens
            self.apart = [Chain(x, list(range(x.streams)), self.parameters, known) for x in self.extents]
        tokens = min(self.unit.step, self.tokens - number * self.unit.step)
        joined = b""
        for extent, chain, parts in zip(self.extents, self.apart, self.parts, strict=True):
            values = chain.decode(Bytes(data.string(len(data.data))), (extent.streams, tokens, extent.axes[-1][1]))
            parts.append(values)
            joined += b"".join(value.to_bytes(extent.item, "little") for value in values)
        data.finish()
        return joined

    def _decode_linear(self, data: Bytes, number: int) -> bytes:
        start = number * self.unit.step
        stop = min(start + self.unit.step, self.tokens)
        base = np.zeros((stop - start, 0), np.float32)
        base = np.concatenate([base, *(unit.columns()[start:stop] for unit in self.bases)], axis=1)
        names = [-1] * self.tokens
        if self.unit.tokens:
            slots = [token.slot for token in self.known.tokens[self.unit.tokens - 1]]
            ranks = {slot: rank for rank, slot in enumerate(sorted({*slots} - {-1}))}
            names = [ranks.get(slot, -1) for slot in slots]
        rows = self.linear.decode(data, stop - start, base, names[start:stop])
        streams = [[v for row in rows for v in row[s.first : s.first + s.channels]] for s in self.streams]
        joined = b"".join(v.to_bytes(self.extents[0].item, "little") for values in streams for v in values)
        for extent, parts in zip(self.extents, self.parts, strict=True):
            parts.append([v for _ in range(extent.streams) for v in streams.pop(0)])
        return joined

    def columns(self) -> Row:
        """What a unit whose base this one is gets of all tokens; called when they are all there."""
        rows: list[list[int]] = [[] for _ in range(self.tokens)]
        for extent, parts in zip(self.extents, self.parts, strict=True):
            channels = extent.axes[-1][1]
            for stream in range(extent.streams):
                values: list[int] = []
                for part in parts:
                    size = len(part) // extent.streams
                    values += part[stream * size : (stream + 1) * size]
                for t, row in enumerate(rows):
                    row += values[t * channels : (t + 1) * channels]
        return base_columns(self.linear.plain, self.streams, rows)

    def _streams(self) -> list[Stream]:
        rope = self.known.ropes[self.unit.rope - 1] if self.unit.rope else None
        streams: list[Stream] = []
        first = 0
        for extent in self.extents:
            for number in range(extent.streams):
                channels = extent.axes[-1][1]
                streams.append(Stream(first, channels, extent.kind_of(number) == VALUE, rope))
                first += channels
        return streams

    def data(self) -> list[bytes]:
        """The bytes of each extent."""
        out = []
        for extent, parts in zip(self.extents, self.parts, strict=True):
            values: list[int] = []
            for stream in range(extent.streams):
                for part in parts:
                    size = len(part) // extent.streams
                    values += part[stream * size : (stream + 1) * size]
            places = [place for block in plan(extent, 1 << 62) for place in block.places]
            placed = sorted(zip(places, values, strict=True))
            out.append(b"".join(value.to_bytes(extent.item, "little") for _, value in placed))
        return out


def _can_join(extents: list[Extent]) -> bool:
    """Whether extents may be a unit."""
    first = extents[0]
    if any(not extent.axes for extent in extents) or not first.layer:
        return False
    same = all((x.layer, x.dtype, x.tokens) == (first.layer, first.dtype, first.tokens) for x in extents)
    kinds = all(extent.kind <= LATENT and extent.dtype in TYPES for extent in extents)
    axes = [axis for extent in extents for axis in extent.axes]
    plain = not any(label == LAYER or (label == BATCH and size > 1) for label, size in axes)
    return same and kinds and plain and sum(extent.elements * extent.item for extent in extents) <= MOST_BYTES
