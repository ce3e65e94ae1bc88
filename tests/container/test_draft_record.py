"""What a container says of its draft, and a unit of how it uses it: written and read, cut short, made up."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from kvzip.container.shared import DRAFT, MOST_PARTS, DraftPart, Shared, draft_payload, holds_draft, holds_prior
from kvzip.container.unit import Unit
from kvzip.errors import ContainerError, KvzipError
from kvzip.linear.settings import LEVELS, Settings
from kvzip.streams.extent import KINDS
from kvzip.wire import put_varint

PARTS = some.lists(
    some.builds(
        DraftPart,
        some.integers(-1, 1 << 20) | some.just((1 << 32) - 1),
        some.sampled_from(KINDS),
        *[some.integers(0, 1 << 40)] * 3,
        some.integers(0, 255),
        some.binary(min_size=16, max_size=16),
    ),
    min_size=1,
    max_size=5,
)
PART = DraftPart(7, "key", 3, 256, 64, 15, bytes(range(16)))


def taken_in(payload):
    shared = Shared()
    shared.add(memoryview(payload), "test")
    return shared.draft


@given(PARTS)
def test_what_a_draft_must_be_comes_back(parts):
    payload = draft_payload(parts)
    assert taken_in(payload) == parts
    assert holds_draft(memoryview(payload))
    assert not holds_prior(memoryview(payload))


@given(PARTS)
def test_every_prefix_of_the_record_is_refused(parts):
    payload = draft_payload(parts)
    for data in [payload[:end] for end in range(len(payload))] + [payload + b"\0"]:
        with pytest.raises(ContainerError):
            taken_in(data)


@given(PARTS, some.data())
def test_garbage_is_refused_or_read(parts, data):
    payload = bytearray(draft_payload(parts))
    at = data.draw(some.integers(1, len(payload)))
    payload[at : at + data.draw(some.integers(0, 9))] = data.draw(some.binary(max_size=9))
    with suppress(KvzipError):
        assert draft_payload(taken_in(bytes(payload))) == payload


def record(count, *fields):
    """A record that says it has ``count`` parts."""
    out = bytearray((DRAFT,))
    put_varint(out, count)
    return bytes(out) + b"".join(fields)


@pytest.mark.parametrize(
    "payload",
    [
        record(0),  # of no draft
        record(2, draft_payload([PART])[2:]),  # of more than is said
        record(MOST_PARTS, draft_payload([PART])[2:]),
        record(MOST_PARTS + 1, draft_payload([PART])[2:]),
        record((1 << 64) - 1),
        record(1, b"\x08", bytes((len(KINDS),)), b"\x03\x04\x05\x0f", bytes(16)),  # of an unknown kind
        record(1, b"\x81\x80\x80\x80\x10", b"\x01\x03\x04\x05\x0f", bytes(16)),  # of a layer out of range
        record(1, b"\x08\x01\x80\0\x04\x05\x0f", bytes(16)),  # of an overlong number
    ],
)
def test_records_that_make_no_sense_are_refused(payload):
    with pytest.raises(ContainerError, match="damaged"):
        taken_in(payload)


def test_there_is_one_draft():
    shared = Shared()
    shared.add(memoryview(draft_payload([PART])), "test")
    with pytest.raises(ContainerError, match="out of place"):
        shared.add(memoryview(draft_payload([PART])), "test")


# ---- of a unit

PLAIN = Unit(3, 2, 1, 0, 512, 2, (1, 2), LEVELS[4] or Settings())
FLOATS = some.floats(2.0**-59, 2.0**59, width=32).flatmap(lambda x: some.sampled_from([x, -x]))


@given(some.lists(FLOATS, max_size=9).map(tuple), some.sampled_from([4, 6, 9]))
def test_how_a_unit_uses_its_draft_comes_back(scales, level):
    unit = replace(PLAIN, near=replace(LEVELS[level], delta=600.0, coarse=True), scales=scales)
    assert Unit.from_bytes(memoryview(unit.to_bytes()), "test") == unit
    assert Unit.from_bytes(memoryview(PLAIN.to_bytes()), "test") == PLAIN


@pytest.mark.parametrize("scales", [(), (2.0,), (1.0, -0.5, 448.0)])
def test_every_prefix_of_a_unit_is_refused_or_has_fewer_scales(scales):
    """How many it needs only its extents tell."""
    unit = replace(PLAIN, near=LEVELS[9], scales=scales)
    payload = unit.to_bytes()
    for end in range(len(payload)):
        missing, odd = divmod(len(payload) - end, 4)
        if odd or missing >= max(1, len(scales)):
            with pytest.raises(ContainerError):
                Unit.from_bytes(memoryview(payload[:end]), "test")
        else:
            found = Unit.from_bytes(memoryview(payload[:end]), "test")
            assert found == replace(unit, scales=scales[: len(scales) - missing])
    for more in (b"\0", b"\0\0\0"):
        with pytest.raises(ContainerError):
            Unit.from_bytes(memoryview(payload + more), "test")


@pytest.mark.parametrize("scale", [0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 2.0**-60, 2.0**60, -(2.0**60), 1e-45])
def test_a_scale_that_is_no_use_is_refused(scale):
    payload = replace(PLAIN, near=LEVELS[9], scales=(1.0, 2.0)).to_bytes()[:-4] + struct.pack("<f", scale)
    with pytest.raises(ContainerError, match="impossible"):
        Unit.from_bytes(memoryview(payload), "test")


@pytest.mark.parametrize("how", [2, 3, 255])
def test_a_unit_uses_its_draft_in_a_way_that_is_known(how):
    payload = bytearray(replace(PLAIN, near=LEVELS[9]).to_bytes())
    payload[len(PLAIN.to_bytes()) - 1] = how
    for data in (payload, payload + struct.pack("<f", 1)):
        if how > 2 or data is payload:
            with pytest.raises(ContainerError):
                Unit.from_bytes(memoryview(bytes(data)), "test")
