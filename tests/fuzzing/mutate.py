"""Mutations that know what a container is, so that they come further than to the check of the first record.

    records     one is dropped, repeated, moved, exchanged with another, taken from another container
    fields      numbers of START, MEMBER, UNIT, INDEX, SHARED and of a block's head become others that hurt: limits,
                powers of two, neighbours; names of files become ones that no decoder may follow
    headers     the JSON in a MEMBER record, deflated again, its sizes made to add up or not
    payloads    bytes of one record: flipped, cut, repeated, filled
    bytes       the same of the whole file, without any regard

All but the last are put together with checks, an index (mostly) and a trailer that fit. The source of chance is
given, so that a case is known by its seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from apart import Parts, put_together

from kvzip.container import records
from kvzip.container.shared import rope_payload
from kvzip.container.structures import BlockHead, Index, Member, Start
from kvzip.container.unit import Unit
from kvzip.dtypes import DTYPES_BY_ID
from kvzip.predict.rope import Rope
from kvzip.streams.extent import KINDS, LABELS, Extent
from kvzip.wire import Cursor, put_varint

MOST = 1 << 17  # bytes of what is made
NAMES = (
    "", ".", "..", "../x", "/etc/x", "a/../../x", "a//b", "a\0b", "CON", "nul.txt", "C:\\x", "a\\..\\b", "\u202e.txt",
    "x\x1b[31m", "a" * 300, "a/" * 400 + "b", "a" * 65536, "\u0041\u030a", "\u00c5", "1" * 5000, "b.txt",
    "out", "in.kvz",
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 7, 8, 15, 16, 17, 127, 128, 255, 256, 4096, 65535, 65536, 1 << 20, 1 << 21, 1 << 22, 1 << 26,
           1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 46, 1 << 62, (1 << 63) - 1, 1 << 63,
           (1 << 64) - 1)  # fmt: skip


def number(old: int, source: Random) -> int:
    """A number in the place of another."""
    near = (old - 1, old + 1, 2 * old, old // 2, old ^ 1 << source.randrange(16))
    return max(0, source.choice((*near, source.choice(NUMBERS), source.choice(NUMBERS))))


def split(blob: bytes) -> Parts:
    """The records of what may be no container: those before the first that does not fit, with any checks."""
    parts: Parts = []
    at = len(records.MAGIC)
    while at + 5 <= len(blob) and records.START <= blob[at] <= records.UNIT:
        length = int.from_bytes(blob[at + 1 : at + 5], "little")
        if at + 9 + length > len(blob):
            break
        parts.append((blob[at], blob[at + 5 : at + 5 + length]))
        at += 9 + length
        if parts[-1][0] == records.INDEX:
            break
    return parts


def mutate(blob: bytes, others: Sequence[bytes], source: Random) -> bytes:
    """A container or what is left of it, changed in one or more ways."""
    parts = split(blob)
    if not parts or source.random() < 0.05:
        return spoil(blob, source)[:MOST]
    for _ in range(source.choice((1, 1, 1, 2, 3, 6))):
        if parts and source.random() < 0.25:
            _rearrange(parts, split(source.choice(others)) if others else parts, source)
        elif parts:
            at = source.randrange(len(parts))
            parts[at] = (parts[at][0], changed(*parts[at], source))
    if not parts:
        return blob
    if all(kind != records.INDEX for kind, _ in parts):
        parts.append((records.INDEX, b""))
    return put_together(parts, reindex=source.random() < 0.8)[:MOST]


def changed(kind: int, payload: bytes, source: Random) -> bytes:
    """Another payload of a record."""
    fields = _FIELDS.get(kind)
    if fields is not None and source.random() < (0.3 if kind == records.BLOCK else 0.7):
        with suppress(Exception):  # a payload that was spoilt has no fields, and not every number can be written
            return fields(payload, source)
    return spoil(payload, source)


def spoil(data: bytes, source: Random) -> bytes:
    """Bytes changed near the front, or anywhere."""
    out = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        at = source.randrange(min(len(out), source.choice((8, 40, 400, 1 << 30))) + 1)
        size = source.choice((1, 1, 2, 4, 8, 60))
        what = source.randrange(7)
        if what == 0:
            out[at : at + 1] = bytes((source.choice((0, 1, 2, 3, 127, 128, 255, source.randrange(256))),))
        elif what == 1 and at < len(out):
            out[at] ^= 1 << source.randrange(8)
        elif what == 2:
            del out[at : at + size]
        elif what == 3:
            out[at:at] = source.randbytes(size)
        elif what == 4:
            out[at : at + size] = bytes((source.choice((0, 255, 128)),)) * size
        elif what == 5:
            out[at:at] = out[at : at + 4 * size]
        else:
            _put_number(out, at, source)
    if source.random() < 0.05:
        del out[source.randrange(len(out) + 1) :]
    return bytes(out)


def _put_number(out: bytearray, at: int, source: Random) -> None:
    """Take the varint at a place for another one."""
    cursor = Cursor(out[at:], "")
    with suppress(Exception):
        old = cursor.varint()
        new = bytearray()
        put_varint(new, min(number(old, source), (1 << 64) - 1))
        out[at : at + cursor.at] = new


def _rearrange(parts: Parts, others: Parts, source: Random) -> None:
    i, j = source.randrange(len(parts)), source.randrange(len(parts))
    what = source.randrange(6)
    if what == 0:
        parts[i], parts[j] = parts[j], parts[i]
    elif what == 1:
        parts.insert(i, parts[j])
    elif what == 2:
        del parts[i]
    elif what == 3:
        parts.insert(j, parts.pop(i))
    elif others:
        same = [part for part in others if part[0] == parts[i][0]] if what == 4 else others
        parts[i : i + (source.random() < 0.5)] = [source.choice(same or others)]


# ---- fields


def _start(payload: bytes, source: Random) -> bytes:
    start = Start.from_bytes(memoryview(payload), "")
    field = source.choice(("source", "level", "block_log2", "version", "residuals"))
    if field == "residuals":
        other = source.choice(("", "residuals-2", "xxh3:" + "0" * 32, "x" * 64))
        return replace(start, residuals=other).to_bytes()
    if field == "block_log2":
        return replace(start, block_log2=source.choice((12, 13, 26, 27, 63, 255))).to_bytes()
    return replace(start, **{field: number(getattr(start, field), source) & 255}).to_bytes()


def _member(payload: bytes, source: Random) -> bytes:
    member = Member.from_bytes(memoryview(payload), "")
    what = source.choice(("name", "nature", "size", "header", "extents", "extents", "extent", "extent", "extent"))
    if what == "name":
        return replace(member, name=source.choice(NAMES)).to_bytes()
    if what in ("nature", "size"):
        return replace(member, **{what: number(getattr(member, what), source)}).to_bytes()
    extents, header = list(member.extents), member.header
    if what == "header":
        header = _header(header, source)
    elif what == "extents":
        i, j = source.randrange(len(extents)), source.randrange(len(extents))
        extents[i : i + source.randrange(2)] = [extents[j]] * source.choice((0, 1, 2, 300))
    else:
        i = source.randrange(len(extents))
        extents[i] = _extent(extents[i], source)
    size = len(header) + sum(extent.nbytes for extent in extents) + (source.random() < 0.05)
    return replace(member, header=header, extents=tuple(extents), size=size).to_bytes()


def _extent(extent: Extent, source: Random) -> Extent:
    what = source.choice(("dtype", "kind", "layer", "symbol_bits", "elements", "axes", "axes", "axes"))
    if what == "dtype":
        return replace(extent, dtype=source.choice(list(DTYPES_BY_ID.values())))
    if what == "kind":
        return replace(extent, kind=source.choice(KINDS))
    if what != "axes" or not extent.axes:
        field = what if what in ("layer", "symbol_bits") else "elements"
        return replace(extent, **{field: number(getattr(extent, field), source)})
    axes = list(extent.axes)
    i = source.randrange(len(axes))
    how = source.randrange(5)
    if how == 0:
        axes[i] = (axes[i][0], number(axes[i][1], source))
    elif how == 1:
        axes[i] = (source.choice(LABELS), axes[i][1])
    elif how == 2:
        axes.insert(i, (source.choice(LABELS), number(1, source)))
    elif how == 3:
        del axes[i]
    else:
        j = source.randrange(len(axes))
        axes[i], axes[j] = axes[j], axes[i]
    elements = 1
    for _, size in axes:
        elements *= size
    return replace(extent, axes=tuple(axes), elements=elements)


def _header(header: bytes, source: Random) -> bytes:
    """A dump's header with a number, a name or a byte changed; its length mostly fits."""
    text = header[8:]
    what = source.randrange(4)
    if what < 2 and (found := list(re.finditer(rb"\d+", text))):
        one = source.choice(found)
        text = text[: one.start()] + str(number(int(one[0][:18]), source)).encode() + text[one.end() :]
    elif what == 2 and (found := list(re.finditer(rb'"[^"]*"', text))):
        one, name = source.choice(found), source.choice((*NAMES, "__metadata__", "layers." + "9" * 5000 + ".key"))
        text = text[: one.start() + 1] + name.encode() + text[one.end() - 1 :]
    else:
        text = spoil(text, source)
    length = len(text) if source.random() < 0.95 else number(len(text), source)
    return (length & (1 << 64) - 1).to_bytes(8, "little") + text


def _unit(payload: bytes, source: Random) -> bytes:
    unit = Unit.from_bytes(memoryview(payload), "")
    what = source.choice(("first", "count", "rope", "tokens", "step", "keep", "bases", "settings", "near", "scales"))
    if what == "bases":
        bases = [number(back, source) for back in unit.bases] + [source.randrange(4)] * source.randrange(3)
        return replace(unit, bases=tuple(bases)).to_bytes()
    if what == "near":
        return replace(unit, near=None if unit.near else unit.settings, scales=()).to_bytes()
    if what == "scales":
        return replace(unit, near=unit.near or unit.settings, scales=(1.5,) * source.randrange(5)).to_bytes()
    if what == "settings":
        names = list(unit.settings.__dataclass_fields__)
        fields: dict[str, Any] = {}
        for name in source.sample(names, source.choice((1, 1, 3))):
            old = getattr(unit.settings, name)
            fields[name] = not old if isinstance(old, bool) else type(old)(number(int(old), source) & 0x1FFFF)
        return replace(unit, settings=replace(unit.settings, **fields)).to_bytes()
    return replace(unit, **{what: number(getattr(unit, what), source)}).to_bytes()


def _block(payload: bytes, source: Random) -> bytes:
    head, rest = BlockHead.split(memoryview(payload), "")
    what = source.choice(("extent", "number", "check", "varint", "varint", "varint"))
    if what == "varint":
        out = bytearray(rest)
        _put_number(out, source.randrange(min(len(out), 16)), source)
        return head.to_bytes() + bytes(out)
    return replace(head, **{what: number(getattr(head, what), source)}).to_bytes() + bytes(rest)


def _shared(payload: bytes, source: Random) -> bytes:
    if payload[0] == 1 and source.random() < 0.5:
        cursor = Cursor(payload[1:], "")
        rope = Rope.read_from(cursor)
        first = [number(channel, source) if source.random() < 0.3 else channel for channel in rope.first]
        return rope_payload(replace(rope, first=tuple(first)))
    out = bytearray(payload)
    _put_number(out, 1 + source.randrange(min(len(out), 24)), source)
    return bytes(out)


def _index(payload: bytes, source: Random) -> bytes:
    index = Index.from_bytes(memoryview(payload), "")
    lists = [*(extents for _, extents in index.members), index.shared, index.units]
    chosen = source.choice([offsets for offsets in lists if offsets] or [index.shared])
    every = [at for offsets in lists for at in offsets]
    if source.random() < 0.5 and chosen:
        chosen[source.randrange(len(chosen))] = source.choice(every)
    elif chosen:
        del chosen[source.randrange(len(chosen))]
    return index.to_bytes()


_FIELDS: dict[int, Callable[[bytes, Random], bytes]] = {
    records.START: _start,
    records.MEMBER: _member,
    records.UNIT: _unit,
    records.BLOCK: _block,
    records.SHARED: _shared,
    records.INDEX: _index,
}
