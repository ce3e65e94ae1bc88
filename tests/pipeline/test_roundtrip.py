"""compress, then decompress, is the identity; damage is always noticed; nothing grows by more than a hair."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import kvzip
from kvzip.dtypes import DTYPES
from kvzip.windows.parameters import SETTINGS

GROWTH = 1.001
FIXED = 1024


def dump(tensors, metadata=None):
    """A safetensors file of (name, dtype, shape, bytes)."""
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"".join(data for *_, data in tensors)


def cache(layers=2, heads=2, tokens=64, channels=32, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for name in (f"layers.{i}.{kind}" for i in range(layers) for kind in ("key", "value")):
        x = rng.normal(0, 1, (1, heads, tokens, channels)) * rng.uniform(0.2, 3, channels)
        bits = (x.astype("<f4").view("<u4") >> 16).astype("<u2")
        out.append((name, "BF16", x.shape, bits.tobytes()))
    return dump(out)


@some.composite
def dumps(draw):
    """A few tensors of any type, shape and bits, under names that layouts know or not."""
    tensors = []
    for i in range(draw(some.integers(0, 4))):
        dtype = DTYPES[draw(some.sampled_from(list(DTYPES)))]
        shape = draw(some.lists(some.integers(0, 9), max_size=4))
        if shape and dtype.bits < 8:
            shape[-1] *= 4
        if not shape and dtype.bits < 8:
            shape = [8]
        size = int(np.prod(shape, dtype=np.int64)) * dtype.bits // 8
        pattern = draw(some.binary(min_size=1, max_size=64))
        name = draw(some.sampled_from([f"layers.{i}.key", f"{i}.0", f"x{i}", f"K_layer{i}", f"a.{i}.kv_cache"]))
        tensors.append((name, dtype.name, shape, (pattern * (size // len(pattern) + 1))[:size]))
    return dump(tensors, draw(some.none() | some.just({"a": "b"})))


@settings(max_examples=100, deadline=None)
@given(dumps(), some.integers(1, 9), some.sampled_from([12, 21]))
def test_any_dump_comes_back_whatever_the_options(data, level, block_log2):
    packed = kvzip.compress(data, level=level, block_log2=block_log2, threads=1)
    assert kvzip.decompress(packed, threads=1) == data


def test_opaque_tensors_of_odd_lengths_do_not_grow():
    """Forty tensors of 257 random integers, of two types in turn so that none is joined with the next."""
    rng = np.random.default_rng(0)
    data = dump([(f"x{i}", ("I64", "U64")[i % 2], (257,), rng.bytes(2056)) for i in range(40)])
    assert len(kvzip.compress(data)) <= len(data) * GROWTH + FIXED


@settings(max_examples=40, deadline=None)
@given(some.data())
def test_any_parameters_come_back(data):
    chosen = {}
    for setting in SETTINGS:
        if setting.name == "classes":
            chosen["classes"] = data.draw(some.sampled_from([1, 2, 4, 8, 16]))
        elif setting.scale == 1:
            chosen[setting.name] = data.draw(some.integers(int(setting.low), int(setting.high)))
        else:
            chosen[setting.name] = data.draw(some.floats(setting.low, setting.high))
    source = cache(1, 2, 40, 16)
    assert kvzip.decompress(kvzip.compress(source, **chosen)) == source


def test_no_prior():
    source = cache()
    assert kvzip.decompress(kvzip.compress(source, prior_weight=0)) == source


@pytest.mark.parametrize("layout", [None, "opaque"])
@pytest.mark.parametrize("name", DTYPES)
def test_random_bytes_of_any_type_do_not_grow(name, layout):
    bits = DTYPES[name].bits
    shape = (1, 4, 512, 64)
    noise = np.random.default_rng(0).bytes(int(np.prod(shape)) * bits // 8)
    data = dump([("layers.0.key", name, shape, noise)])
    for level in (1, 3):
        packed = kvzip.compress(data, level=level, layout=layout)
        assert len(packed) <= len(data) * GROWTH + FIXED
        assert kvzip.decompress(packed) == data


@pytest.mark.parametrize("options", [{}, {"preset": "classic"}, {"block_log2": 12}, {"level": 1}, {"drift": 1.1}])
def test_the_output_does_not_depend_on_the_threads(options):
    data = cache(3, 4, 300, 32)
    outputs = {kvzip.compress(data, threads=threads, **options) for threads in (1, 2, 5)}
    assert len(outputs) == 1
    (packed,) = outputs
    assert all(kvzip.decompress(packed, threads=threads) == data for threads in (1, 2, 5))


def test_compressing_twice_gives_the_same():
    assert kvzip.compress(cache()) == kvzip.compress(cache())


SMALL = dump(
    [*[("layers.0.key", "BF16", (1, 1, 16, 16), cache(1, 1, 16, 16)[-512:])] * 1, ("ids", "U8", (9,), b"123456789")]
)


def test_every_prefix_is_refused():
    packed = kvzip.compress(SMALL)
    for end in range(len(packed)):
        with pytest.raises(kvzip.ContainerError):
            kvzip.decompress(packed[:end], threads=1)


def test_every_flipped_bit_is_refused():
    packed = kvzip.compress(SMALL)
    for bit in range(8 * len(packed)):
        broken = bytearray(packed)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(kvzip.KvzipError):
            kvzip.decompress(bytes(broken), threads=1)


def test_verify_gives_the_same_container():
    assert kvzip.compress(cache(), verify=True) == kvzip.compress(cache())


def test_verify_notices_a_coder_that_fails(monkeypatch):
    from kvzip.blocks.codec import Chain

    real = Chain.decode

    def wrong(self, payload, block, where):
        return real(self, payload, block, where) ^ 1

    monkeypatch.setattr(Chain, "decode", wrong)
    with pytest.raises(kvzip.KvzipError, match="did not survive --verify"):
        kvzip.compress(cache(), verify=True)


def test_a_dump_that_ends_early_is_refused():
    data = cache()
    for source in (data[:-1], io.BytesIO(data[:-1])):
        with pytest.raises(kvzip.DumpError, match="incomplete"):
            kvzip.compress(source)


def test_a_dump_with_bytes_after_it_is_refused():
    data = cache()
    for source in (data + b"x", io.BytesIO(data + b"x")):
        with pytest.raises(kvzip.DumpError, match="header describes"):
            kvzip.compress(source)


def test_progress_is_told_of_every_block_and_ends_at_the_sizes():
    seen = []
    data = cache()
    packed = kvzip.compress(data, progress=lambda done, written: seen.append((done, written)))
    assert seen == sorted(seen)
    assert seen[-1][0] <= len(data)
    back = []
    kvzip.decompress(packed, progress=lambda done, read: back.append(done))
    assert back == sorted(back)
    assert back[-1] == len(data)
