"""What records hold comes back; anything else in them is refused, not believed."""

from __future__ import annotations

import zlib
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.container.structures import (
    DIRECTORY,
    DUMP,
    FORMAT_VERSION,
    MAX_EXTENTS,
    OTHER_FILE,
    SINGLE,
    BlockHead,
    Index,
    Member,
    Start,
)
from kvzip.dtypes import DTYPES
from kvzip.errors import ContainerError, KvzipError, UnsupportedError
from kvzip.streams.extent import Extent
from kvzip.windows.parameters import LEVELS
from kvzip.wire import put_bytes, put_varint

EXTENTS = (
    Extent(DTYPES["BF16"], 2560, (("head", 2), ("token", 40), ("channel", 32)), 3, "key", 9),
    Extent(DTYPES["I32"], 40),
)
HEADER = b"\x10" + bytes(7) + b'{"a":{"x":"y"}} '
MEMBER = Member("dir/ä.safetensors", DUMP, len(HEADER) + 5120 + 160, HEADER, EXTENTS)
START = Start(SINGLE, 21, 3, LEVELS[3])
INDEX = Index([(50, [100, 200]), (300, []), (350, [360])], [70, 310], [100, 360], bytes(range(16)))


def member(payload):
    return Member.from_bytes(memoryview(payload), "test.kvz")


def start(payload):
    return Start.from_bytes(memoryview(payload), "test.kvz")


def index(payload):
    return Index.from_bytes(memoryview(payload), "test.kvz")


@pytest.mark.parametrize("source", [SINGLE, DIRECTORY])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("block_log2", [12, 26])
def test_start_comes_back(source, level, block_log2):
    made = Start(source, block_log2, level, LEVELS[level])
    assert start(made.to_bytes()) == made


@pytest.mark.parametrize("header", [HEADER, b"\x00" * 5000])
@pytest.mark.parametrize("extents", [(), EXTENTS, EXTENTS * 20])
def test_member_comes_back_deflated_or_not(header, extents):
    made = Member("a", DUMP, len(header) + sum(e.nbytes for e in extents), header, extents)
    assert member(made.to_bytes()) == made


def test_members_that_repeat_themselves_are_deflated():
    made = Member("", DUMP, 50_000, b" " * 50_000, ())
    assert len(made.to_bytes()) < 200


@settings(max_examples=60)
@given(some.lists(some.tuples(some.integers(0, 99), some.lists(some.integers(0, 1 << 40), max_size=4)), max_size=4))
def test_index_comes_back(steps):
    made, at = Index(digest=b"\7" * 16), 0
    for step, more in steps:
        offset = at = at + step
        extents = [at := at + one for one in more]
        made.members.append((offset, extents))
    assert index(made.to_bytes()) == made


@given(
    some.integers(0, MAX_EXTENTS),
    some.integers(0, (1 << 64) - 1),
    some.integers(0, (1 << 64) - 1),
    some.binary(max_size=9),
)
def test_block_heads_come_back(extent, number, check, rest):
    head = BlockHead(extent, number, check)
    found, payload = BlockHead.split(memoryview(head.to_bytes() + rest), "test.kvz")
    assert found == head
    assert bytes(payload) == rest


@pytest.mark.parametrize(
    ("read", "payload"),
    [(start, START.to_bytes()), (member, MEMBER.to_bytes()), (index, INDEX.to_bytes())],
    ids=["start", "member", "index"],
)
class TestDamage:
    def test_every_prefix_is_refused(self, read, payload):
        for end in range(len(payload)):
            with pytest.raises(ContainerError):
                read(payload[:end])

    def test_a_byte_more_is_refused(self, read, payload):
        with pytest.raises(ContainerError):
            read(payload + b"\0")

    def test_flipped_bits_are_refused_or_read_as_something_else(self, read, payload):
        original = read(payload)
        for bit in range(8 * len(payload)):
            broken = bytearray(payload)
            broken[bit // 8] ^= 1 << bit % 8
            try:
                assert read(bytes(broken)) != original
            except KvzipError:
                continue

    @settings(max_examples=100)
    @given(some.data())
    def test_garbage_never_crashes(self, read, payload, data):
        broken = bytearray(payload)
        at = data.draw(some.integers(0, len(payload)))
        tail = data.draw(some.binary(max_size=20))
        broken[at : at + len(tail)] = tail
        with suppress(KvzipError):
            read(bytes(broken))


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 1 << 40])
def test_other_versions_are_unsupported(version):
    out = bytearray()
    put_varint(out, version)
    with pytest.raises(UnsupportedError, match=f"format version {version}"):
        start(bytes(out) + START.to_bytes()[1:])


def test_another_prior_is_unsupported():
    with pytest.raises(UnsupportedError, match="prior"):
        start(START.to_bytes().replace(b"exponents-1", b"exponents-2"))


@pytest.mark.parametrize("wrong", [{"source": 2}, {"block_log2": 11}, {"block_log2": 27}])
def test_an_impossible_start_is_refused(wrong):
    with pytest.raises(ContainerError):
        start(replace(START, **wrong).to_bytes())


@pytest.mark.parametrize(
    "wrong",
    [{"size": MEMBER.size + 1}, {"nature": OTHER_FILE}, {"extents": EXTENTS[:1]}, {"header": b""}],
    ids=str,
)
def test_a_member_that_does_not_add_up_is_refused(wrong):
    with pytest.raises(ContainerError, match="add up"):
        member(replace(MEMBER, **wrong).to_bytes())


def test_another_nature_is_unsupported():
    with pytest.raises(UnsupportedError, match="kind"):
        member(replace(MEMBER, nature=2).to_bytes())


def raw(inner, length, deflated):
    out = bytearray()
    put_bytes(out, b"name")
    out.append(0)
    put_varint(out, 0)
    out.append(deflated)
    put_varint(out, length)
    return bytes(out + inner)


def test_a_deflate_bomb_is_stopped_at_its_length():
    import tracemalloc

    bomb = zlib.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    with pytest.raises(ContainerError, match="inflate"):
        member(raw(bomb, 1000, 1))
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    "inner", [b"", b"junk", zlib.compress(b"\0\0")[:-1], zlib.compress(b"\0\0") + b"x", zlib.compress(b"\0")]
)
def test_what_does_not_inflate_to_its_length_is_refused(inner):
    assert member(raw(zlib.compress(b"\0\0"), 2, 1)) == Member("name", DUMP, 0, b"", ())
    with pytest.raises(ContainerError, match="inflate"):
        member(raw(inner, 2, 1))
