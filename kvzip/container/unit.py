"""A UNIT record: neighbouring extents of one layer that are coded together, and what their prediction refers to.

    first        varint      number of the unit's first extent in its member
    count        varint      of extents, 1 to 16
    rope         varint      0 none, else 1 + its number
    tokens       varint      0 none, else 1 + the number of the record of repeated tokens
    step         varint      tokens of a block, the last one may have fewer
    keep         varint      how many units after this one may still refer to it
    bases        u8          how many units its prediction uses, then for each a varint: how many units back it is
    settings                 the fields of ``linear.settings.Settings`` in order: whole numbers as varints, true and
                             false as u8 1 and 0, others as IEEE doubles, 8 bytes
    draft        u8          0 none, 1 the extents' values are predicted relative to the draft, 2 scaled; then
    near                     settings for the rows that it reaches; and if scaled
    scales       f32[]       what it is multiplied by, for each stream

Units are numbered over the whole container. Their blocks follow; block ``number`` holds the tokens from
``number * step`` on, of all streams: extent after extent, streams in order.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from struct import pack, unpack
from typing import Any

from kvzip.linear.settings import Settings
from kvzip.streams.extent import Extent
from kvzip.wire import Cursor, put_varint

TYPES = ("BF16", "F16", "F8_E4M3", "F8_E5M2", "F32")
MOST_EXTENTS = 16
MOST_BASES = 4
MOST_KEPT = 1 << 16
MOST_STEP = 1 << 16
MOST_SETTING = 1 << 16
LEAST_SCALE = 2.0**-60  # of a draft
MOST_BYTES = 192 << 20  # of a unit: both sides hold several
MOST_HELD = 1 << 30  # bytes of units that later ones may refer to
MOST_CHANNELS = 1 << 11  # of a stream: what a prediction keeps grows with the square of it
MOST_COLUMNS = 1 << 16  # streams times channels
MOST_STREAMS = 1 << 10
MOST_BASE = 1 << 36  # columns, times the square of those of the base that are used


@dataclass(frozen=True)
class Unit:
    """The record's fields; ``bases`` are distances back."""

    first: int
    count: int
    rope: int
    tokens: int
    step: int
    keep: int
    bases: tuple[int, ...]
    settings: Settings
    near: Settings | None = None  # with a draft
    scales: tuple[float, ...] = ()

    def to_bytes(self) -> bytes:
        """The payload."""
        out = bytearray()
        for number in (self.first, self.count, self.rope, self.tokens, self.step, self.keep):
            put_varint(out, number)
        out.append(len(self.bases))
        for back in self.bases:
            put_varint(out, back)
        _write_settings(self.settings, out)
        out.append(0 if self.near is None else 2 if self.scales else 1)
        if self.near is not None:
            _write_settings(self.near, out)
        return bytes(out + pack(f"<{len(self.scales)}f", *self.scales))

    @classmethod
    def from_bytes(cls, payload: memoryview, where: str) -> Unit:
        """Read and check the payload."""
        cursor = Cursor(payload, f"{where}: a unit's record")
        first, count = cursor.varint(1 << 21), cursor.varint(MOST_EXTENTS)
        rope, tokens = cursor.varint(1 << 21), cursor.varint(1 << 21)
        step, keep = cursor.varint(MOST_STEP), cursor.varint(MOST_KEPT)
        bases = tuple(cursor.varint(MOST_KEPT) for _ in range(min(cursor.u8(), MOST_BASES + 1)))
        if not count or not step or len(bases) > MOST_BASES or 0 in bases:
            raise cursor.damaged("is impossible")
        settings, draft = _read_settings(cursor), cursor.u8()
        near = _read_settings(cursor) if draft else None
        scales = unpack(f"<{cursor.left // 4}f", cursor.take(cursor.left // 4 * 4)) if draft > 1 else ()
        cursor.finish()
        sound = all(LEAST_SCALE < abs(scale) < 1 / LEAST_SCALE for scale in scales)
        if draft > 2 or not sound or (draft > 1 and not scales):
            raise cursor.damaged("is impossible")
        return cls(first, count, rope, tokens, step, keep, bases, settings, near, scales)


def _write_settings(settings: Settings, out: bytearray) -> None:
    for value in astuple(settings):
        if isinstance(value, bool):
            out.append(value)
        elif isinstance(value, int):
            put_varint(out, value)
        else:
            out += pack("<d", value)


def _read_settings(cursor: Cursor) -> Settings:
    values: list[Any] = []
    for default in astuple(Settings()):
        if isinstance(default, bool):
            values.append(bool(cursor.varint(1)))
        elif isinstance(default, int):
            values.append(cursor.varint(MOST_SETTING))
        else:
            (value,) = unpack("<d", cursor.take(8))
            if not 0 <= value <= MOST_SETTING:  # NaN compares false
                raise cursor.damaged("holds a setting out of range")
            values.append(value)
    return Settings(*values)


def can_refer(unit: Unit, extents: tuple[Extent, ...], base: int) -> bool:
    """Whether a unit's prediction from ``base`` columns of others is not too much to keep in memory."""
    columns = sum(extent.streams * extent.axes[-1][1] for extent in extents)
    used = (min(base, settings.bounded().most_base) for settings in (unit.settings, unit.near) if settings)
    return all(columns * most * most <= MOST_BASE for most in used)


def can_join(extents: tuple[Extent, ...]) -> bool:
    """Whether neighbouring extents can be a unit: streams of one layer, type and number of tokens."""
    first = extents[0]
    return (
        sum(extent.nbytes for extent in extents) <= MOST_BYTES
        and len(extents) <= MOST_EXTENTS
        and sum(extent.streams for extent in extents) <= MOST_STREAMS
        and sum(extent.streams * extent.axes[-1][1] for extent in extents if extent.axes) <= MOST_COLUMNS
        and all(
            not extent.opaque
            and extent.layer == first.layer >= 0
            and extent.dtype == first.dtype
            and extent.dtype.name in TYPES
            and extent.axes[-1][1] <= MOST_CHANNELS
            and extent.tokens == first.tokens > 0
            and extent.kind in ("key", "value", "latent", "")
            and not any(label == "layer" or (label == "batch" and size > 1) for label, size in extent.axes)
            for extent in extents
        )
    )
