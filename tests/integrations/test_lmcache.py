"""The serde for LMCache: chunks come back bit for bit, within the size that was estimated.

Against the real package where it is installed, else against its interface as ``lmcache_shapes`` has copied it.
"""

from __future__ import annotations

import importlib.util
import io
import time
from types import SimpleNamespace

import numpy as np
import pytest

import kvzip

from . import lmcache_shapes
from .lmcache_shapes import Chunk

REAL = importlib.util.find_spec("lmcache") is not None
if not REAL:
    lmcache_shapes.install()

from kvzip.integrations import lmcache as serde  # noqa: E402

LAYERS, TOKENS, HEADS, DIM = 3, 64, 2, 32


def made(shapes=((2, LAYERS, TOKENS, HEADS * DIM),), dtypes=("bfloat16",), seed=0):
    """A chunk whose values are like a cache's."""
    chunk = Chunk.empty(list(shapes), list(dtypes))
    source = np.random.default_rng(seed)
    at = 0
    for shape, dtype in zip(shapes, dtypes, strict=True):
        x = (source.normal(size=shape) * source.uniform(0.5, 4, shape[-1:])).astype("<f4").view("<u4")
        width = lmcache_shapes.WIDTHS[dtype]
        part = (x >> (32 - 8 * width)).astype(f"<u{width}").tobytes()
        chunk.byte_array[at : at + len(part)] = part
        at += len(part)
    return chunk


def stored(serializer, chunk, padding=100):
    """A chunk's serialized bytes, in the buffer that LMCache would give, which may be longer."""
    room = serializer.estimate_serialized_size(SimpleNamespace(shapes=chunk.shapes, dtypes=chunk.dtypes))
    out = Chunk([(room,)], ["torch.uint8"], bytearray(b"\xaa" * (room + padding)))
    size = serializer.serialize(chunk, out, None)
    assert size <= room
    assert out.byte_array[room:] == b"\xaa" * padding
    return out, size


CASES = {
    "usual": ([(2, LAYERS, TOKENS, HEADS * DIM)], ["bfloat16"]),
    "half": ([(2, LAYERS, TOKENS, HEADS * DIM)], ["float16"]),
    "fp8": ([(2, LAYERS, TOKENS, HEADS * DIM)], ["uint8"]),
    "typed fp8": ([(2, LAYERS, TOKENS, HEADS * DIM)], ["float8_e4m3fn"]),
    "latent": ([(1, LAYERS, TOKENS, 96)], ["bfloat16"]),
    "token": ([(1, 2, 1, 8)], ["bfloat16"]),
    "groups": ([(2, 2, TOKENS, 64), (2, 1, TOKENS, 128), (TOKENS, 16)], ["bfloat16", "float16", "float32"]),
    "odd heads": ([(2, 1, TOKENS, 34)], ["bfloat16"]),
}


@pytest.mark.parametrize("level", [1, 3, 9])
@pytest.mark.parametrize("case", CASES)
def test_chunks_come_back(case, level):
    chunk = made(*CASES[case])
    packed, _ = stored(serde.KvzipSerializer(level), chunk)
    again = Chunk.empty(*CASES[case])
    serde.KvzipDeserializer().deserialize(packed, again, None)
    assert again.byte_array == chunk.byte_array


def test_a_chunk_is_a_container_of_layers():
    chunk = made()
    packed, size = stored(serde.KvzipSerializer(9, head_dim=DIM), chunk)
    with kvzip.open(io.BytesIO(bytes(packed.byte_array[8:size]))) as container:
        assert [layer.index for layer in container.layers()] == list(range(LAYERS))
        key = container.tensor("K_layer1").bits
    whole = np.frombuffer(chunk.byte_array, "<u2").reshape(2, LAYERS, TOKENS, HEADS, DIM)
    assert (key == whole[0, 1]).all()
    assert size < 0.8 * len(chunk.byte_array)


def test_the_estimate_holds_for_noise():
    for level in (1, 3, 9):
        for tokens in (1, 7, 256):
            shape = (2, 2, tokens, 64)
            chunk = Chunk([shape], ["torch.bfloat16"], bytearray(np.random.default_rng(tokens).bytes(512 * tokens)))
            packed, _ = stored(serde.KvzipSerializer(level), chunk)
            again = Chunk.empty([shape], ["bfloat16"])
            serde.KvzipDeserializer().deserialize(packed, again, None)
            assert again.byte_array == chunk.byte_array


def test_damage_and_other_chunks_are_told():
    chunk = made()
    packed, size = stored(serde.KvzipSerializer(), chunk, padding=0)
    wrong = bytearray(packed.byte_array)
    wrong[size // 2] ^= 1
    for data in (wrong, packed.byte_array[: size - 1], b"\xff" * 64, bytes(64)):
        with pytest.raises(kvzip.ContainerError):
            serde.KvzipDeserializer().deserialize(
                Chunk([], [], data), Chunk.empty([(2, 3, 64, 64)], ["bfloat16"]), None
            )
    other = Chunk.empty([(2, LAYERS, TOKENS - 1, HEADS * DIM)], ["bfloat16"])
    with pytest.raises(kvzip.ContainerError, match="another"):
        serde.KvzipDeserializer().deserialize(packed, other, None)


def test_options():
    processor = serde.create({"level": 6, "threads": 2, "head_dim": 64, "max_workers": 2})
    assert processor is not None
    with pytest.raises(kvzip.OptionError, match="no option"):
        serde.create({"levle": 3})
    with pytest.raises(kvzip.OptionError, match="does not divide"):
        stored(serde.KvzipSerializer(head_dim=48), made())
    with pytest.raises(kvzip.OptionError, match="no element type"):
        serde.KvzipSerializer().estimate_serialized_size(SimpleNamespace(shapes=[(2, 2)], dtypes=["torch.qint8"]))
    if REAL:
        processor.close()


def done(query, task):
    for _ in range(600):
        if (result := query(task)) is not None:
            return result
        time.sleep(0.05)
    return None


@pytest.mark.skipif(not REAL, reason="needs lmcache")
def test_with_the_real_package():
    """Its own memory objects, by its own registry and thread pool."""
    import torch
    from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
    from lmcache.v1.distributed.serde import SerdeConfig, create_serde_processor, get_registered_serde_types
    from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj

    assert "kvzip" in get_registered_serde_types()

    def memory(shape, dtype, fmt):
        raw = torch.zeros(torch.Size(shape).numel() * dtype.itemsize, dtype=torch.uint8)
        size = torch.Size(shape)
        metadata = MemoryObjMetadata(size, dtype, 0, raw.numel(), 1, 0, fmt, shapes=[size], dtypes=[dtype])
        return TensorMemoryObj(raw, metadata, None)

    shape = (2, LAYERS, TOKENS, HEADS * DIM)
    source = memory(shape, torch.bfloat16, MemoryFormat.KV_2LTD)
    source.tensor.copy_(torch.randn(shape))
    processor = create_serde_processor(SerdeConfig("kvzip", {"level": 3, "head_dim": DIM}))
    room = processor.estimate_serialized_size(MemoryLayoutDesc([torch.Size(shape)], [torch.bfloat16]))
    packed = memory((room,), torch.uint8, MemoryFormat.BINARY_BUFFER)
    again = memory(shape, torch.bfloat16, MemoryFormat.KV_2LTD)
    key: ObjectKey = None  # content-agnostic
    task = processor.submit_serialize([source], [packed], [key])
    assert done(processor.query_serialize_result, task)
    assert packed.get_size() < source.get_size()
    task = processor.submit_deserialize([packed], [again], [key])
    assert done(processor.query_deserialize_result, task)
    assert torch.equal(source.tensor.view(torch.uint8), again.tensor.view(torch.uint8))
    processor.close()
