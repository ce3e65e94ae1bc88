"""Section 11 of docs/format.md: UNIT records, and the blocks of the extents that are coded together."""

from __future__ import annotations

from dataclasses import dataclass

from .blocks import BATCH, LATENT, LAYER, Chain, Extent, plan
from .reading import Bytes, UnsupportedError, require
from .shared import Known

LINEAR, APART = range(2)
MOST_BYTES = 192 << 20


@dataclass
class Unit:
    first: int
    count: int
    rope: int
    tokens: int
    step: int
    keep: int
    bases: list[int]

    @classmethod
    def read(cls, data: Bytes) -> Unit:
        first, count = data.varint(0, 1 << 21), data.varint(1, 16)
        rope, tokens = data.varint(0, 1 << 21), data.varint(0, 1 << 21)
        step, keep = data.varint(1, 1 << 16), data.varint(0, 1 << 16)
        bases = data.number(1)
        require(bases <= 4, "too many bases")
        unit = cls(first, count, rope, tokens, step, keep, [data.varint(1, 1 << 16) for _ in range(bases)])
        data.rest()  # the settings of linear prediction
        return unit


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
        if unit.rope:
            narrow = min(extent.axes[-1][1] for extent in extents)
            require(known.ropes[unit.rope - 1].channels <= narrow, "a rope for wider rows")
        if unit.tokens:
            require(len(known.tokens[unit.tokens - 1]) == self.tokens, "tokens of another dump")
        for back in unit.bases:
            require(back <= len(before) and back <= before[-back].unit.keep, "a base that is not kept")
            require(before[-back].tokens == self.tokens, "a base of other tokens")
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
        if method == LINEAR and not self.apart:
            raise UnsupportedError("linear prediction: not yet")
        require(method != LINEAR, "a prediction that was given up goes on")
        if method > APART:
            raise UnsupportedError(f"method {method} is unknown")
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
    kinds = all(extent.kind <= LATENT for extent in extents)
    axes = [axis for extent in extents for axis in extent.axes]
    plain = not any(label == LAYER or (label == BATCH and size > 1) for label, size in axes)
    return same and kinds and plain and sum(extent.elements * extent.item for extent in extents) <= MOST_BYTES
