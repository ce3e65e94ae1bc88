"""Blocks: any bits of any type come back, whatever way each plane is coded; damage never crashes the decoder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.blocks import codec
from kvzip.blocks.codec import Chain
from kvzip.dtypes import DTYPES
from kvzip.errors import ContainerError, KvzipError, UnsupportedError
from kvzip.planes.split import default_symbol_bits
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block
from kvzip.windows.parameters import LEVELS, Parameters

BF16 = DTYPES["BF16"]


def chains(dtype, shape, parameters=LEVELS[3], opaque=False, measure=False):
    """An encoding and a decoding chain for blocks of this type and shape, and the block."""
    streams, tokens, channels = shape
    axes = () if opaque else (("head", streams), ("token", tokens), ("channel", channels))
    bits = 8 if opaque else default_symbol_bits(dtype)
    extent = Extent(dtype, streams * tokens * channels, axes, symbol_bits=bits)
    block = Block(0, tuple(range(streams)), tokens, channels, True)
    return Chain(extent, parameters, measure), Chain(extent, parameters, measure), block


def round_trip(values, dtype, **options):
    """Encode and decode the same values twice in a chain; return both payloads."""
    forth, back, block = chains(dtype, values.shape, **options)
    payloads = []
    for _ in range(2):
        payloads.append(forth.encode(values))
        decoded = back.decode(memoryview(payloads[-1]), block, "test")
        assert decoded.dtype.itemsize == values.dtype.itemsize
        assert decoded.shape == values.shape
        assert decoded.tobytes() == values.tobytes()
        assert len(payloads[-1]) <= values.nbytes + 1
    return payloads


def cache(shape, seed=0):
    rng = np.random.default_rng(seed)
    x = (rng.normal(0, 1, shape) * rng.uniform(0.2, 3, shape[-1])).astype(np.float32)
    return (x.view(np.uint32) >> 16).astype("<u2")


@settings(max_examples=80, deadline=None)
@given(some.data())
def test_any_bits_of_any_type_come_back(data):
    dtype = data.draw(some.sampled_from(list(DTYPES.values())))
    streams, tokens, channels = data.draw(some.tuples(some.integers(1, 3), some.integers(1, 20), some.integers(1, 5)))
    size = streams * tokens * channels * dtype.container_bytes
    raw = data.draw(some.binary(min_size=size, max_size=size))
    values = np.frombuffer(raw, f"<u{dtype.container_bytes}").reshape(streams, tokens, channels)
    round_trip(values, dtype, parameters=data.draw(some.sampled_from(list(LEVELS.values()))), opaque=streams == 1)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_float], ids=lambda d: d.name)
@pytest.mark.parametrize("level", LEVELS)
def test_special_values_come_back(dtype, level):
    """NaN payloads, infinities, -0, denormals mixed with numbers, enough of them to be modelled."""
    top = ((1 << dtype.exponent) - 1) << dtype.mantissa
    some_nan, sign = top | 1, 1 << (dtype.bits - 1)
    ordinary = (1 << (dtype.exponent - 1)) - 1 << dtype.mantissa
    choices = [0, sign, 1, sign | 1, top, sign | top, some_nan, sign | some_nan, ordinary, ordinary, ordinary]
    picked = np.random.default_rng(0).integers(0, len(choices), (2, 40, 16))
    values = np.array(choices, np.uint64)[picked].astype(f"<u{dtype.container_bytes}")
    first, _ = round_trip(values, dtype, parameters=LEVELS[level])
    assert len(first) < values.nbytes


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_random_bytes_do_not_grow(name, opaque):
    dtype = DTYPES[name]
    raw = np.random.default_rng(0).bytes(1 << 14)
    values = np.frombuffer(raw, f"<u{dtype.container_bytes}").reshape(1, -1, 64)
    for payload in round_trip(values, dtype, opaque=opaque):
        assert len(payload) <= values.nbytes + 1


def test_a_second_block_profits_from_the_first():
    first, second = round_trip(cache((2, 64, 32)), BF16)
    assert len(second) < len(first)


def test_constant_planes_cost_two_bytes_each():
    values = np.full((2, 50, 32), 0x3F80, "<u2")
    for payload in round_trip(values, BF16):
        assert len(payload) == 2 + 2 * 3


def test_zero_tails_cost_nothing():
    values = cache((2, 100, 32))
    values[0, 30:] = 0
    values[1, 50:] = 0
    values[1, 10:12] = 0  # rows of zeros inside are coded
    first, _ = round_trip(values, BF16)
    alone, _ = round_trip(cache((2, 100, 32))[:1, :80], BF16)
    assert len(first) < len(alone) + 300
    assert len(round_trip(np.zeros((3, 40, 8), "<u2"), BF16)[0]) < 12


def test_planes_may_change_how_they_are_coded_from_block_to_block():
    """Modelled, constant, stored, modelled again: a plane that leaves the windows starts afresh."""
    shape = (2, 32, 16)
    noise = np.random.default_rng(5).integers(0, 1 << 16, shape).astype("<u2")
    constant = np.full(shape, 7, "<u2")
    forth, back, block = chains(BF16, shape)
    for values in (cache(shape), constant, cache(shape), noise, cache(shape), cache(shape, 1), constant, constant):
        payload = forth.encode(values)
        assert np.array_equal(back.decode(memoryview(payload), block, "test"), values)


def test_no_prior():
    round_trip(cache((1, 40, 16)), BF16, parameters=Parameters().of(prior_weight=0))


def test_every_prefix_and_every_flipped_bit_is_refused_or_changes_values():
    """A payload carries no check of its own, so the decoder may return other values, but must not crash."""
    values = cache((1, 24, 8))
    forth, _, block = chains(BF16, values.shape)
    payload = forth.encode(values)
    assert payload[0] == codec.WINDOWS
    for end in range(len(payload)):
        with pytest.raises(KvzipError):
            chains(BF16, values.shape)[1].decode(memoryview(payload[:end]), block, "test")
    unnoticed = 0
    for bit in range(8 * len(payload)):
        broken = bytearray(payload)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            decoded = chains(BF16, values.shape)[1].decode(memoryview(broken), block, "test")
        except KvzipError:
            continue
        assert decoded.shape == values.shape
        unnoticed += np.array_equal(decoded, values)
    assert unnoticed == 0


def test_bytes_after_the_payload_are_refused():
    values = cache((1, 24, 8))
    forth, back, block = chains(BF16, values.shape)
    with pytest.raises(ContainerError, match="too many"):
        back.decode(memoryview(forth.encode(values) + b"\0"), block, "test")


@settings(max_examples=150, deadline=None)
@given(some.data())
def test_garbage_is_refused_or_decoded_but_never_crashes(data):
    """A plausible head, then anything."""
    values = cache((2, 16, 8))
    forth, back, block = chains(BF16, values.shape)
    payload = bytearray(forth.encode(values))
    start = data.draw(some.integers(0, len(payload) - 1))
    tail = data.draw(some.binary(max_size=40))
    payload[start : start + len(tail)] = tail
    try:
        assert back.decode(memoryview(payload), block, "test").shape == values.shape
    except KvzipError:
        return


def test_an_unknown_method_needs_a_newer_kvzip():
    _, back, block = chains(BF16, (1, 4, 4))
    with pytest.raises(UnsupportedError, match="method 9"):
        back.decode(memoryview(b"\x09" + bytes(32)), block, "test")


def test_the_tally_knows_the_payload():
    values = cache((2, 64, 32))
    forth, back, block = chains(BF16, values.shape, measure=True)
    payload = forth.encode(values)
    back.decode(memoryview(payload), block, "test")
    for chain in (forth, back):
        tally = chain.finish()
        assert (tally.payload, tally.stored) == (len(payload), 0)
