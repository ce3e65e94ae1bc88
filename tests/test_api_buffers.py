"""From buffer to buffer: the same bytes as by files, never more than the bound, never past the end."""

from __future__ import annotations

import io
import json
import mmap
import struct
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_api import DATA, PACKED

import kvzip
from kvzip.dumps.safetensors import dump_bytes


def into(dump, extra=0, **options):
    """Compress with the bound for room; the container, after what lies behind it was found untouched."""
    room = kvzip.bound(len(dump)) + extra
    target = bytearray(b"\xaa" * (room + 16))
    size = kvzip.compress_into(dump, memoryview(target)[:room], **options)
    assert size <= kvzip.bound(len(dump))
    assert target[room:] == b"\xaa" * 16
    return bytes(target[:size])


@pytest.mark.parametrize("level", [1, 3, 9])
def test_the_same_bytes_as_by_files(level):
    assert into(DATA, level=level, threads=2) == kvzip.compress(DATA, level=level)


def test_every_kind_of_buffer():
    array = np.zeros((7, 1000), np.uint8)
    with mmap.mmap(-1, 1 << 16) as mapped:
        for target in (bytearray(kvzip.bound(len(DATA))), array, mapped):
            size = kvzip.compress_into(np.frombuffer(DATA, np.uint8), target)
            assert bytes(memoryview(target).cast("B")[:size]) == PACKED
    restored = np.zeros(len(DATA), np.uint8)
    for source in (PACKED, bytearray(PACKED), memoryview(PACKED), np.frombuffer(PACKED, np.uint8)):
        restored[:] = 0
        assert kvzip.decompressed_size(source) == len(DATA)
        assert kvzip.decompress_into(source, restored) == len(DATA)
        assert restored.tobytes() == DATA


def test_what_cannot_be_written_to():
    for target in (bytes(1 << 16), np.zeros((100, 100), np.uint8)[:, ::2]):
        with pytest.raises(kvzip.TargetError, match="cannot be written"):
            kvzip.compress_into(DATA, target)
        with pytest.raises(kvzip.TargetError, match="cannot be written"):
            kvzip.decompress_into(PACKED, target)


def test_too_little_room_is_told_and_nothing_is_written_past_it():
    for room in (0, 7, len(PACKED) - 1):
        target = bytearray(b"\xaa" * (room + 16))
        with pytest.raises(kvzip.TargetError, match=str(kvzip.bound(len(DATA)))):
            kvzip.compress_into(DATA, memoryview(target)[:room])
        assert target[room:] == b"\xaa" * 16
    assert kvzip.compress_into(DATA, bytearray(len(PACKED))) == len(PACKED)
    target = bytearray(b"\xaa" * len(DATA))
    with pytest.raises(kvzip.TargetError, match=str(len(DATA))):
        kvzip.decompress_into(PACKED, memoryview(target)[:-1])
    assert target == b"\xaa" * len(DATA)


def tiny(count, name_length=1):
    """A dump of many tensors of a byte or none, whose container by tensors is larger than it."""
    return dump_bytes([(f"{n:0{name_length}d}", "U8", (n % 2,), bytes(n % 2)) for n in range(count)])


def noise(tensors, nbytes, seed):
    source = np.random.default_rng(seed)
    return dump_bytes(
        [
            (f"layers.{n}.key", "BF16", (1, 1, nbytes // 64, 32), source.bytes(nbytes // 64 * 64))
            for n in range(tensors)
        ]
    )


@pytest.mark.parametrize("level", [1, 3, 6])
@pytest.mark.parametrize(
    "dump",
    [dump_bytes([]), tiny(3000), tiny(1), noise(1, 3 << 20, 1), noise(40, 1088, 2), noise(3, 4096, 3)],
    ids=["empty", "many", "one", "noise", "small noise", "blocks"],
)
def test_the_bound_holds_for_what_cannot_be_compressed(dump, level):
    for options in ({}, {"block_log2": 12}):
        packed = into(dump, level=level, **options)
        restored = bytearray(len(dump))
        assert kvzip.decompress_into(packed, restored) == len(dump)
        assert restored == dump


def test_what_came_out_larger_is_stored(monkeypatch):
    real = kvzip.bound
    monkeypatch.setattr("kvzip.api_buffers.bound", lambda size: 100)
    dump = noise(40, 1088, 2)
    target = bytearray(2 * len(dump))
    size = kvzip.compress_into(dump, target, block_log2=12)
    assert size < real(len(dump))
    assert kvzip.decompress(target[:size]) == dump
    assert kvzip.open(io.BytesIO(target[:size])).names() == []


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab.k0", max_size=9), st.binary(max_size=700)), max_size=8, unique_by=lambda x: x[0])
)
def test_the_bound_holds(tensors):
    dump = dump_bytes([(name, "U8", (len(data),), data) for name, data in tensors])
    assert kvzip.decompress(into(dump, threads=1)) == dump


def test_the_bound_of_stored_bytes_is_what_the_docstring_says():
    """Sizes around the borders of blocks, as if they were stored: no more than the bound."""
    for size in (1, 255, 256, 257, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (4 << 20) + 257):
        dump = _padded(size)
        target = bytearray(kvzip.bound(len(dump)))
        assert kvzip.compress_into(dump, target, level=1, threads=2) <= kvzip.bound(len(dump))


def _padded(size):
    raw = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(raw)) + raw + np.random.default_rng(size).bytes(size)


def test_damaged_or_other_input():
    with pytest.raises(kvzip.DumpError):
        kvzip.compress_into(b"no dump", bytearray(2000))
    for wrong in (PACKED[:-1], PACKED[: len(PACKED) // 2], b"", DATA):
        with pytest.raises(kvzip.ContainerError):
            kvzip.decompress_into(wrong, bytearray(len(DATA)))
        with pytest.raises(kvzip.ContainerError):
            kvzip.decompressed_size(wrong)


def test_several_threads_at_once():
    dumps = [noise(2, 1 << 14, seed) for seed in range(8)]
    wanted = [kvzip.compress(dump) for dump in dumps]
    found = [b""] * len(dumps)

    def work(number):
        for _ in range(3):
            packed = into(dumps[number], threads=1)
            restored = bytearray(len(dumps[number]))
            kvzip.decompress_into(packed, restored, threads=1)
            assert restored == dumps[number]
            found[number] = packed

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(dumps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == wanted
