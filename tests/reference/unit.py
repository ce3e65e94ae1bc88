"""Section 12 of docs/format.md: UNIT records, and the blocks of the extents that are coded together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .blocks import BATCH, LATENT, LAYER, VALUE, Chain, Extent, plan
from .draft import DraftRows, Floats, read_factors, rows_of
from .drafted import FAR, NEAR, PRIMED
from .linear import LinearDecoder
from .linear_columns import Row, Stream, base_columns
from .linear_settings import Settings
from .reading import Bytes, UnsupportedError, require
from .shared import Known

LINEAR, APART, DRAFTED = range(3)
AS_IT_IS = 1  # linear prediction's mode
MOST_BYTES = 192 << 20
MOST_HELD = 1 << 30
MOST_CHANNELS, MOST_STREAMS, MOST_COLUMNS, MOST_PRODUCT = 2048, 1024, 65536, 1 << 36
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
    near: Settings | None  # with a draft
    scales: list[float]

    @classmethod
    def read(cls, data: Bytes) -> Unit:
        first, count = data.varint(0, 1 << 21), data.varint(1, 16)
        rope, tokens = data.varint(0, 1 << 21), data.varint(0, 1 << 21)
        step, keep = data.varint(1, 1 << 16), data.varint(0, 1 << 16)
        bases = data.number(1)
        require(bases <= 4, "too many bases")
        backs = [data.varint(1, 1 << 16) for _ in range(bases)]
        settings, draft = Settings.read(data), data.number(1)
        require(draft <= 2, "an impossible draft")
        near = Settings.read(data) if draft else None
        scales = read_factors(data, (len(data.data) - data.at) // 4) if draft > 1 else []
        require(draft < 2 or scales, "a scaled draft without a scale")
        data.finish()
        return cls(first, count, rope, tokens, step, keep, backs, settings, near, scales)


@dataclass
class UnitDraft:
    """What the draft has for a unit's extents."""

    extents: list[DraftRows]
    scales: list[float]

    @property
    def tokens(self) -> int:
        return min(rows.tokens for rows in self.extents)

    def values(self, token: int) -> list[int]:
        """A token's, all streams' channels joined."""
        return [int(value) for rows in self.extents for value in rows.values[:, token].reshape(-1)]

    def numbers(self, tokens: list[int]) -> Floats:
        """(tokens, channels), all streams' channels joined; 0 where the draft does not reach."""
        reached = [t for t in tokens if t < self.tokens]
        columns = []
        first = 0
        for rows in self.extents:
            count = len(rows.values)
            own = rows.numbers(0, self.tokens, self.scales[first : first + count])
            first += count
            columns += [stream[reached] for stream in own]
        joined = np.concatenate(columns, axis=1)
        return np.concatenate([joined, np.zeros((len(tokens) - len(reached), joined.shape[1]), np.float32)])


@dataclass
class Side:
    """A prediction of some of a unit's rows, and the tokens that it was given so far."""

    linear: LinearDecoder
    tokens: list[int]


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
        held = sum(one.nbytes for back, one in enumerate(reversed(before), 1) if one.unit.keep >= back)
        require(held <= MOST_HELD, "units that are kept too long")
        self.bases = [before[-back] for back in unit.bases]
        self.streams = self._streams()
        for stream in self.streams:
            if stream.rope and not stream.value:
                require(stream.rope.channels <= stream.channels, "a rope for wider rows")
        widths = [sum(stream.channels for stream in unit.streams) for unit in self.bases]
        base, near = sum(widths), sum(widths[:1])
        for settings in filter(None, (unit.settings, unit.near)):
            used = min(base, settings.most_base)
            require(_columns(extents) * used * used <= MOST_PRODUCT, "a base of too many columns")
        self.sides = {FAR: Side(LinearDecoder(extents[0], self.streams, base, unit.settings, near), [])}
        self.draft: UnitDraft | None = None
        if unit.near is not None:
            found = [rows for extent in extents if (rows := rows_of(extent, known.draft))]
            require(len(found) == len(extents), "a draft that is not there")
            require(len(unit.scales) in (0, len(self.streams)), "scales of other streams")
            self.draft = UnitDraft(found, unit.scales)
            self.sides[NEAR] = Side(LinearDecoder(extents[0], self.streams, base, unit.near, near), [])
        self.names = self._names()
        self.apart: list[Chain] = []
        self.rows: list[list[int]] = []  # of each token so far, all streams' channels joined

    @property
    def nbytes(self) -> int:
        return sum(extent.elements * extent.item for extent in self.extents)

    @property
    def tokens(self) -> int:
        return self.extents[0].tokens

    @property
    def blocks(self) -> int:
        return -(-self.tokens // self.unit.step)

    def decode(self, data: Bytes, number: int) -> bytes:
        """What the block's check is of."""
        start = number * self.unit.step
        stop = min(start + self.unit.step, self.tokens)
        method = data.number(1)
        if method > DRAFTED:
            raise UnsupportedError(f"method {method} is unknown")
        if method == APART:
            self._decode_apart(data, stop - start)
        else:
            require(not self.apart, "a prediction that was given up goes on")
            require((method == DRAFTED) == (self.draft is not None), "a prediction with another draft")
            if method == DRAFTED:
                self._decode_drafted(data, start, stop)
            else:
                self._decode_rows(FAR, data, start, stop)
        return b"".join(self._raw(stream, start, stop) for stream in range(len(self.streams)))

    def _raw(self, number: int, start: int, stop: int) -> bytes:
        """Rows of a stream."""
        stream, item = self.streams[number], self.extents[0].item
        values = [v for row in self.rows[start:stop] for v in row[stream.first : stream.first + stream.channels]]
        return b"".join(value.to_bytes(item, "little") for value in values)

    def _decode_apart(self, data: Bytes, tokens: int) -> None:
        if not self.apart:
            known = Known(2, self.known.exponents, self.known.residuals)  # no ropes, no tokens, no draft
            self.apart = [Chain(x, list(range(x.streams)), self.parameters, known) for x in self.extents]
        rows: list[list[int]] = [[] for _ in range(tokens)]
        for extent, chain in zip(self.extents, self.apart, strict=True):
            channels = extent.axes[-1][1]
            values = chain.decode(Bytes(data.string(len(data.data))), (extent.streams, tokens, channels))
            for at in range(0, len(values), channels):
                rows[at // channels % tokens] += values[at : at + channels]
        data.finish()
        self.rows += rows

    def _decode_drafted(self, data: Bytes, start: int, stop: int) -> None:
        assert self.draft is not None
        reached = min(stop, max(start, self.draft.tokens))
        same = data.varint(0, reached - start)
        types = {rows.dtype for rows in self.draft.extents}
        require(not same or (not self.draft.scales and types == {self.extents[0].dtype}), "a draft of another type")
        reached = start + same + data.varint(0, reached - start - same)
        self.rows += [self.draft.values(t) for t in range(start, start + same)]
        if start + same < reached:
            self._decode_rows(NEAR, Bytes(data.string(len(data.data))), start + same, reached)
        if reached < stop:
            rest = Bytes(data.rest())
            if not self.sides[FAR].tokens:
                self._prime(rest.data[1:3], reached)
            self._decode_rows(FAR, rest, reached, stop)
        data.finish()

    def _prime(self, head: bytes, stop: int) -> None:
        """Let the prediction of rows that the draft does not reach learn from those before; ``head``: its start."""
        start, item = max(0, stop - PRIMED), self.extents[0].item
        known, self.rows = self.rows, self.rows[:start]
        values = [v for s in self.streams for row in known[start:] for v in row[s.first : s.first + s.channels]]
        raw = b"".join(value.to_bytes(item, "little") for value in values)
        self._decode_rows(FAR, Bytes(bytes((AS_IT_IS,)) + head + raw), start, stop)

    def _decode_rows(self, near: bool, data: Bytes, start: int, stop: int) -> None:
        side = self.sides[near]
        side.tokens += range(start, stop)
        base = np.zeros((stop - start, 0), np.float32)
        for unit in self.bases:
            base = np.concatenate([base, unit.columns(near, side.tokens)[start - stop :]], axis=1)
        # A draft of None is left out only as long as not all of ``linear`` takes one.
        drafted = {"draft": self.draft.numbers([*range(start, stop)])} if near and self.draft else {}
        self.rows += side.linear.decode(data, stop - start, base, self.names[start:stop], **drafted)

    def columns(self, near: bool, tokens: list[int]) -> Row:
        """What a unit whose base this one is gets of these tokens for one of its predictions."""
        drafted = {"draft": self.draft.numbers(tokens)} if near and self.draft else {}
        rows = [self.rows[t] for t in tokens]
        return base_columns(self.sides[FAR].linear.plain, self.streams, rows, **drafted)

    def _names(self) -> list[int]:
        if not self.unit.tokens:
            return [-1] * self.tokens
        slots = [token.slot for token in self.known.tokens[self.unit.tokens - 1]]
        ranks = {slot: rank for rank, slot in enumerate(sorted({*slots} - {-1}))}
        return [ranks.get(slot, -1) for slot in slots]

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
        first = 0
        for extent in self.extents:
            count = extent.streams
            raw = b"".join(self._raw(stream, 0, self.tokens) for stream in range(first, first + count))
            first += count
            places = [place for block in plan(extent, 1 << 62) for place in block.places]
            placed = sorted(zip(places, Bytes(raw).numbers(extent.item, extent.elements), strict=True))
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
    narrow = all(extent.axes[-1][1] <= MOST_CHANNELS for extent in extents)
    few = sum(extent.streams for extent in extents) <= MOST_STREAMS and _columns(extents) <= MOST_COLUMNS
    small = sum(extent.elements * extent.item for extent in extents) <= MOST_BYTES
    return same and kinds and plain and narrow and few and small


def _columns(extents: list[Extent]) -> int:
    """Channels of all streams."""
    return sum(extent.streams * extent.axes[-1][1] for extent in extents)
