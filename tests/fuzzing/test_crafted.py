"""Small containers that say they are large, each of which once took all memory or all day."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from math import prod

import numpy as np
import pytest
import xxhash
from apart import put_together, take_apart

import kvzip
from fuzzing.judge import Claims, judge
from fuzzing.seeds import cache
from kvzip.container import records
from kvzip.container.shared import tokens_payload
from kvzip.container.structures import BlockHead, Member, Start
from kvzip.container.unit import (
    MOST_CHANNELS,
    MOST_COLUMNS,
    MOST_HELD,
    MOST_STREAMS,
    Unit,
    can_join,
    can_refer,
)
from kvzip.dtypes import DTYPES
from kvzip.linear.settings import LEVELS
from kvzip.streams.extent import Extent

LAST = [records.MEMBER_END, records.INDEX]


@pytest.fixture(scope="module")
def parts():
    """The records of a container of level 9."""
    return take_apart(kvzip.compress(cache("BF16"), level=9, threads=1))


def extent(*axes, dtype="BF16", **more):
    return Extent(DTYPES[dtype], prod(size for _, size in axes), axes, **more)


def stream(channels, heads=1, tokens=1, kind="key", layer=0):
    return extent(("head", heads), ("token", tokens), ("channel", channels), layer=layer, kind=kind)


def of_extents(parts, *extents, block_log2=21):
    """A container that says it has these, each of one block that holds nothing."""
    start, member = of_kind(parts, records.START), of_kind(parts, records.MEMBER)
    start = replace(Start.from_bytes(memoryview(start), ""), block_log2=block_log2)
    blocks = [(records.BLOCK, BlockHead(n, 0, 0).to_bytes() + b"\1") for n in range(len(extents))]
    return put_together([
        (records.START, start.to_bytes()), (records.MEMBER, holding(member, extents)), *blocks,
        *(part for part in parts if part[0] in LAST),
    ])  # fmt: skip


def of_units(parts, extents, units, payload, keep=2, check=0, **settings):
    """A container of so many units of these extents, each of one block, referring to the one before."""
    member, unit = of_kind(parts, records.MEMBER), Unit.from_bytes(memoryview(of_kind(parts, records.UNIT)), "")
    out = [parts[0], (records.MEMBER, holding(member, extents * units))]
    for number in range(units):
        made = replace(
            unit, first=number * len(extents), count=len(extents), rope=0, tokens=0, step=1 << 16, keep=keep,
            bases=(1,) if number else (), settings=replace(unit.settings, **settings),
        )  # fmt: skip
        head = BlockHead(number * len(extents), 0, check).to_bytes()
        out += [(records.UNIT, made.to_bytes()), (records.BLOCK, head + payload)]
    return put_together(out + [part for part in parts if part[0] in LAST])


def of_kind(parts, wanted):
    return next(payload for kind, payload in parts if kind == wanted)


def holding(payload, extents):
    member = Member.from_bytes(memoryview(payload), "")
    size = len(member.header) + sum(extent.nbytes for extent in extents)
    return replace(member, extents=tuple(extents), size=size).to_bytes()


def refused(blob):
    """It is, within what so few bytes have earned."""
    assert len(blob) < 64 << 10
    found = judge(blob, {})
    assert found["decompress"] == "ContainerError"
    assert found["test"] == "ContainerError"


@pytest.mark.parametrize("heads", [1 << 22, 1 << 40], ids=["2^22", "2^40"])
def test_streams_are_not_counted_one_by_one(parts, heads):
    refused(of_extents(parts, extent(("kind", 2), ("head", heads), ("token", 1), ("channel", 1))))


@pytest.mark.parametrize("axes", [(1 << 26, 1, 1), (1, 1, 1 << 16), (1 << 20, 1 << 6, 1)], ids=str)
def test_blocks_of_a_slab_are_not_made_before_they_come(parts, axes):
    heads, tokens, channels = axes
    shape = ("head", heads), ("token", tokens), ("channel", channels)
    refused(of_extents(parts, extent(*shape, dtype="U8"), block_log2=26))


def test_tokens_are_not_looked_at_before_they_are_used(parts):
    many = tokens_payload(np.zeros(1 << 18, np.int32))
    assert len(many) < 1000
    blob = put_together([parts[0], *[(records.SHARED, many)] * 30, *parts[1:]])
    refused(blob)  # since the blocks refer to one of them, which is another dump's
    assert Claims.of(blob).earned > 100 << 20


def test_tokens_that_nobody_uses_take_no_memory(parts):
    """Behind those that are used, they are only counted."""
    many = (records.SHARED, tokens_payload(np.zeros(1 << 20, np.int32)))
    last = max(at for at, (kind, _) in enumerate(parts) if kind == records.UNIT)
    blob = put_together([*parts[:last], *[many] * 30, *parts[last:]])
    tracemalloc.start()
    assert kvzip.decompress(blob, threads=1) == cache("BF16")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


LINEAR = b"\0" + bytes(400)


@pytest.mark.parametrize(
    ("extents", "settings"),
    [
        ([stream(MOST_CHANNELS, 2), stream(MOST_CHANNELS, 2, kind="value")], {"most_base": 8192}),
        ([stream(1, MOST_STREAMS // 2), stream(1, MOST_STREAMS // 2, kind="value")], {"most_base": 8192}),
        ([stream(16, 8, 2)], {"slots": 65536}),
        ([stream(1 << 16)], {}),
        ([stream(1, 1 << 16)], {}),
        ([stream(128, 1 << 10)], {}),
    ],
    ids=["wide", "many", "slots", "too wide", "too many", "too many columns"],
)
def test_units_that_would_need_much(parts, extents, settings):
    refused(of_units(parts, extents, 2, LINEAR, **settings))


def test_what_a_unit_may_be():
    assert can_join((stream(MOST_CHANNELS, 16), stream(MOST_CHANNELS, 16, kind="value")))
    assert can_join((stream(64, MOST_STREAMS),))
    assert not can_join((stream(MOST_CHANNELS + 1),))
    assert not can_join((stream(1, MOST_STREAMS), stream(1)))
    assert not can_join((stream(64, MOST_STREAMS), stream(1)))
    assert not can_join((Extent(DTYPES["BF16"], 9),))


@pytest.mark.parametrize("level", [level for level, settings in LEVELS.items() if settings])
def test_what_is_compressed_keeps_to_the_bounds(parts, level):
    """Whatever joins may refer to as much as its level wants."""
    unit = replace(Unit.from_bytes(memoryview(of_kind(parts, records.UNIT)), ""), settings=LEVELS[level])
    assert can_refer(unit, (stream(MOST_COLUMNS // 16, 16),), 4 * MOST_COLUMNS)
    assert not can_refer(replace(unit, settings=replace(LEVELS[level], most_base=8192)), (stream(64, 64),), 8192)


def test_units_are_not_kept_without_end(parts, monkeypatch):
    """Each is of zeros, in a few bytes, and a later one might refer to all of them."""
    zeros = [stream(64, 1, 64, "key"), stream(64, 1, 64, "value")]
    size = sum(extent.nbytes for extent in zeros)
    constant = b"\1" + b"\0" + b"\1\0" * 2  # windows, no tails, two planes of nothing but 0
    payload = b"\1" + (bytes((len(constant),)) + constant) * 2
    monkeypatch.setattr("kvzip.pipeline.decode_unit.MOST_HELD", 4 * size)
    for units, keep, error in ((5, 9, ""), (6, 9, "keeps more units"), (6, 4, ""), (6, 5, "keeps more units")):
        blob = of_units(parts, zeros, units, payload, keep, check=xxhash.xxh3_64_intdigest(bytes(size)))
        with pytest.raises(kvzip.ContainerError, match=error or "the file that was restored"):
            kvzip.decompress(blob, threads=2)
    assert MOST_HELD == 1 << 30
