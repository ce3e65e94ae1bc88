"""Random access gives the same bits as decompression, touches only what it needs, and refuses what does not fit."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from test_roundtrip import cache, dump

import kvzip
from kvzip.pipeline.reader import Reader

RNG = np.random.default_rng(0)
MIXED = [
    ("layers.1.key", "BF16", (1, 2, 40, 16), RNG.bytes(2560)),
    ("layers.1.value", "BF16", (1, 2, 40, 16), bytes(2560)),
    ("empty", "F32", (0, 4), b""),
    ("layers.0.key", "F32", (1, 2, 40, 16), RNG.bytes(5120)),
    ("ids", "I32", (40,), RNG.bytes(160)),
    ("scalar", "F64", (), RNG.bytes(8)),
    ("packed", "F4", (4, 8), RNG.bytes(16)),
    ("flags", "BOOL", (3,), b"\0\1\0"),
]


def opened(data, **options):
    return Reader(io.BytesIO(kvzip.compress(data, **options)), "test.kvz")


@pytest.mark.parametrize("block_log2", [12, 21])
def test_every_tensor_has_its_bits(block_log2):
    reader = opened(dump(MIXED), block_log2=block_log2)
    assert reader.names() == [name for name, *_ in MIXED]
    for name, dtype, shape, data in MIXED:
        tensor = reader.tensor(name)
        assert (tensor.name, tensor.dtype, tensor.shape) == (name, dtype, tuple(shape))
        assert tensor.bits.tobytes() == data
        if dtype != "F4":
            assert tensor.bits.shape == tuple(shape)


def test_layers_come_in_order_and_the_rest_last():
    layers = list(opened(dump(MIXED)).layers())
    assert [layer.index for layer in layers] == [0, 1, None]
    assert set(layers[1].tensors) == {"layers.1.key", "layers.1.value"}
    assert {t.kind for t in layers[1].tensors.values()} == {"key", "value"}
    assert set(layers[2].tensors) == {"empty", "ids", "scalar", "packed", "flags"}


def test_one_tensor_reads_only_its_blocks():
    """Every byte of the other tensors' blocks may be wrong."""
    data = cache(4, 2, 64, 32)
    blob = bytearray(kvzip.compress(data))
    reader = Reader(io.BytesIO(bytes(blob)), "test.kvz")
    offsets = [offset for _, extents in reader.index.members for offset in extents]
    for low, high in [(offsets[0], offsets[2]), (offsets[3], offsets[-1])]:
        blob[low + 5 : high] = bytes(high - low - 5)
    broken = Reader(io.BytesIO(bytes(blob)), "test.kvz")
    name = reader.names()[2]
    assert np.array_equal(broken.tensor(name).bits, reader.tensor(name).bits)
    with pytest.raises(kvzip.KvzipError):
        broken.tensor(reader.names()[1])


def test_tensors_that_share_bytes_share_bits():
    entry = {"dtype": "BF16", "shape": [1, 1, 8, 8], "data_offsets": [0, 128]}
    raw = json.dumps({"a": entry}).encode()
    raw = raw[:-1] + b',"\\u0061":' + json.dumps(entry).encode() + b"}"
    data = len(raw).to_bytes(8, "little") + raw + RNG.bytes(128)
    reader = opened(data)
    assert reader.names() == ["a"]
    assert reader.tensor("a").bits.tobytes() == data[-128:]


def test_a_tensor_that_is_not_there_is_named():
    with pytest.raises(kvzip.KvzipError, match="no tensor 'nope'"):
        opened(dump(MIXED)).tensor("nope")


def test_a_pipe_cannot_be_read_at_random():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(kvzip.KvzipError, match="pipe"):
        Reader(Pipe(kvzip.compress(dump(MIXED))), "test.kvz")


def test_every_prefix_is_refused():
    blob = kvzip.compress(dump(MIXED[-4:]))
    for end in range(len(blob)):
        with pytest.raises(kvzip.KvzipError):
            Reader(io.BytesIO(blob[:end]), "test.kvz")


def test_flipped_bits_never_give_wrong_values():
    small = dump([("layers.0.key", "BF16", (1, 1, 16, 8), RNG.bytes(256)), ("x", "U8", (4,), b"1234")])
    blob = kvzip.compress(small)
    right = {name: Reader(io.BytesIO(blob), "t").tensor(name).bits.tobytes() for name in ("layers.0.key", "x")}
    for bit in range(8 * len(blob)):
        broken = bytearray(blob)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            reader = Reader(io.BytesIO(bytes(broken)), "t", 1)
            found = {name: reader.tensor(name).bits.tobytes() for name in right}
        except kvzip.KvzipError:
            continue
        assert found == right


def test_members_of_a_directory_are_named(tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    for i in range(2):
        shape, data = (2, 16, 2, 8), RNG.bytes(1024)
        name = f"model.layers.{i}.self_attn.attn.safetensors"
        (folder / name).write_bytes(dump([("kv_cache", "BF16", shape, data)]))
    (folder / "notes.txt").write_text("hello")
    kvzip.compress(folder, tmp_path / "out.kvz")
    with kvzip.open(tmp_path / "out.kvz") as reader:
        names = reader.names()
        assert names == [f"model.layers.{i}.self_attn.attn.safetensors:kv_cache" for i in range(2)]
        assert reader.tensor(names[1]).bits.tobytes() == data
        assert [layer.index for layer in reader.layers()] == [0, 1]
