"""Framing: records come back, and every prefix and flipped bit is noticed; numbers are read with suspicion."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.container import records
from kvzip.container.records import RecordReader, RecordWriter
from kvzip.errors import ContainerError, KvzipError, UnsupportedError
from kvzip.wire import Cursor, put_bytes, put_varint

KINDS = some.integers(records.START, records.UNIT)


def container(parts):
    out = io.BytesIO()
    writer = RecordWriter(out)
    offsets = [writer.record(kind, payload) for kind, payload in parts]
    writer.close(offsets[-1])
    assert writer.offset == len(out.getvalue())
    return out.getvalue(), offsets


def read(blob, count):
    reader = RecordReader(io.BytesIO(blob), "test.kvz")
    found = [reader.next() for _ in range(count)]
    reader.finish(found[-1].offset)
    assert reader.offset == len(blob)
    return found


class Trickle(io.RawIOBase):
    """A file that gives a byte or two at a time."""

    def __init__(self, data):
        self.file = io.BytesIO(data)

    def read(self, count=-1):
        return self.file.read(min(count, 2))


@settings(max_examples=60, deadline=None)
@given(some.lists(some.tuples(KINDS, some.binary(max_size=50)), min_size=1, max_size=4))
def test_records_come_back(parts):
    blob, offsets = container(parts)
    found = read(blob, len(parts))
    assert [(r.type, bytes(r.payload)) for r in found] == parts
    assert [r.offset for r in found] == offsets
    for offset, (kind, payload) in zip(offsets, parts, strict=True):
        record = RecordReader.at(io.BytesIO(blob), "test.kvz", offset).next()
        assert (record.type, bytes(record.payload)) == (kind, payload)


def test_short_reads_are_put_together():
    blob, _ = container([(records.START, b"x" * 100)])
    reader = RecordReader(Trickle(blob), "test.kvz")
    assert bytes(reader.next().payload) == b"x" * 100


PARTS = [(records.START, b"first"), (records.BLOCK, b""), (records.INDEX, bytes(16))]


def test_every_prefix_is_refused():
    blob, _ = container(PARTS)
    for end in range(len(blob)):
        with pytest.raises(ContainerError):
            read(blob[:end], len(PARTS))


def test_every_flipped_bit_is_refused():
    blob, _ = container(PARTS)
    for bit in range(8 * len(blob)):
        broken = bytearray(blob)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(KvzipError) as caught:
            read(bytes(broken), len(PARTS))
        assert str(caught.value).startswith("test.kvz: ")


def test_bytes_after_the_end_are_refused():
    blob, _ = container(PARTS)
    with pytest.raises(ContainerError, match="after the end"):
        read(blob + b"\0", len(PARTS))


def test_a_long_record_is_not_allocated_for():
    """A record that claims more than it has costs no more memory than there is."""
    import tracemalloc

    blob = records.MAGIC + bytes((records.BLOCK,)) + records.MAX_PAYLOAD.to_bytes(4, "little") + bytes(10)
    tracemalloc.start()
    with pytest.raises(ContainerError, match="cut short"):
        RecordReader(io.BytesIO(blob), "test.kvz").next()
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_length_beyond_the_limit_is_refused():
    blob = records.MAGIC + bytes((records.BLOCK,)) + (records.MAX_PAYLOAD + 1).to_bytes(4, "little") + bytes(10)
    with pytest.raises(ContainerError, match="impossible length"):
        RecordReader(io.BytesIO(blob), "test.kvz").next()


@pytest.mark.parametrize("kind", [0, records.UNIT + 1, 255])
def test_an_unknown_record_needs_a_newer_kvzip(kind):
    blob, offsets = container(PARTS)
    blob = blob[: offsets[0]] + bytes((kind,)) + blob[offsets[0] + 1 :]
    with pytest.raises(UnsupportedError, match=f"type {kind} at byte 8"):
        read(blob, 1)


def test_what_is_no_container_is_named():
    with pytest.raises(ContainerError, match=r"not a \.kvz file"):
        RecordReader(io.BytesIO(b"PK\x03\x04 something"), "test.kvz")


@given(some.integers(0, (1 << 64) - 1))
def test_varints_come_back(value):
    out = bytearray()
    put_varint(out, value)
    cursor = Cursor(out, "test")
    assert cursor.varint() == value
    cursor.finish()
    assert len(out) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\xff" * 9, b"\x80\x00", b"\xff" * 10 + b"\1", b"\xff" * 9 + b"\x02"]
)
def test_bad_varints_are_refused(data):
    with pytest.raises(ContainerError):
        Cursor(data, "test").varint()


def test_ceilings_hold():
    with pytest.raises(ContainerError, match="out of range"):
        Cursor(b"\x05", "test").varint(4)
    assert Cursor(b"\x05", "test").varint(5) == 5


@given(some.binary(max_size=200))
def test_byte_strings_come_back_and_every_prefix_is_refused(data):
    out = bytearray()
    put_bytes(out, data)
    assert Cursor(out, "test").bytes(200) == data
    with pytest.raises(ContainerError):
        Cursor(out[:-1], "test").bytes(200)
