"""Planes: cutting and joining are exact for every type, and equal to slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.dtypes import DTYPES
from kvzip.planes import split as planes
from kvzip.planes.split import default_symbol_bits, planes_of

FLOATS = [d for d in DTYPES.values() if d.is_float]
ALL = settings(max_examples=60, deadline=None)


def turned(x, dtype):
    """[sign | exponent | mantissa] -> [exponent | sign | mantissa], digit by digit."""
    digits = f"{x:0{dtype.bits}b}"
    if not dtype.is_float:
        return x
    return int(digits[1 : 1 + dtype.exponent] + digits[0] + digits[1 + dtype.exponent :], 2)


@some.composite
def arrays(draw):
    """A type, symbol bits, whether modelled, and values of any bits."""
    dtype = draw(some.sampled_from(list(DTYPES.values())))
    size = dtype.container_bytes
    values = np.frombuffer(
        draw(some.binary(max_size=40 * size).map(lambda b: b[: len(b) // size * size])), f"<u{size}"
    )
    return dtype, draw(some.integers(8, 16)), draw(some.booleans()), values


def join(cut, found, turn, dtype):
    joined = np.full(len(cut.symbols[0]), 0xFF, dtype)
    for number, (plane, symbols) in enumerate(zip(found, cut.symbols, strict=True)):
        planes.lay(symbols, plane.shift, joined, number == 0, *(turn if number == len(found) - 1 else (0, 0)))
    return joined


@ALL
@given(arrays())
def test_cutting_is_the_twins_and_joining_its_inverse(case):
    dtype, bits, modelled, values = case
    turn = (dtype.exponent, dtype.mantissa)
    found = planes_of(dtype, bits, modelled)
    live = values[: 1 + max(np.flatnonzero(values), default=-1)]  # one channel: a zero is a row of zeros
    cut = planes.cut(values.reshape(1, -1, 1), *turn, found)
    assert cut.tokens.tolist() == [len(live)]
    for plane, symbols in zip(found, cut.symbols, strict=True):
        mask = (1 << plane.width) - 1
        assert symbols.tolist() == [turned(x, dtype) >> plane.shift & mask for x in live.tolist()]
    assert np.array_equal(join(cut, found, turn, live.dtype), live)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_special_values_survive(dtype):
    """NaN payloads, infinities, -0, denormals: every pattern of narrow types, the edges of wide ones."""
    edges = [0, 1, (1 << dtype.mantissa) - 1, 1 << dtype.mantissa]
    top = ((1 << dtype.exponent) - 1) << dtype.mantissa
    edges += [top, top | 1, top | (1 << dtype.mantissa >> 1), top - 1]
    patterns = edges + [x | 1 << (dtype.bits - 1) for x in edges]
    values = np.arange(1 << dtype.bits) if dtype.bits <= 16 else np.array(patterns, np.uint64)
    values = values.astype(f"<u{dtype.container_bytes}")
    found, turn = planes_of(dtype, default_symbol_bits(dtype), True), (dtype.exponent, dtype.mantissa)
    cut = planes.cut(values.reshape(1, 1, -1), *turn, found)
    assert np.array_equal(join(cut, found, turn, values.dtype), values)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda d: d.name)
@pytest.mark.parametrize("bits", range(8, 17))
def test_planes_cover_every_bit_once(dtype, bits):
    found = planes_of(dtype, bits, True)
    top = 8 * dtype.container_bytes
    for plane in found:
        assert 1 <= plane.width <= 8
        assert plane.shift + plane.width == top
        top = plane.shift
    assert top == 0
    wanted = min(bits, 8 * dtype.container_bytes)
    assert sum(plane.width for plane in found if plane.modelled) == wanted
    assert not any(plane.modelled for plane in planes_of(dtype, bits, False))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("bits", range(8, 17))
def test_the_fields_are_where_exponent_and_sign_are(dtype, bits):
    for plane in planes_of(dtype, bits, True):
        kinds = "e" * dtype.exponent + "s" + "m" * dtype.mantissa
        part = kinds[dtype.bits - plane.shift - plane.width : dtype.bits - plane.shift]
        fields = plane.fields
        named = "e" * fields.exponent + "s" * fields.sign + "m" * fields.rest
        if part.count("e") in (0, dtype.exponent):
            assert named == part
        else:
            assert (fields.exponent, fields.sign) == (0, 0)


def test_defaults_model_exponent_and_sign():
    wanted = {"BF16": 9, "F16": 8, "F32": 9, "F64": 12, "F8_E4M3": 8, "F8_E5M2": 8, "I32": 8, "F4": 4, "U8": 8}
    assert {name: default_symbol_bits(DTYPES[name]) for name in wanted} == wanted


@ALL
@given(some.integers(1, 8), some.lists(some.integers(0, 255), max_size=40))
def test_packing_is_the_twins(width, values):
    symbols = np.array([v & ((1 << width) - 1) for v in values], np.uint8)
    packed = planes.pack(symbols, width)
    number = sum(int(s) << (i * width) for i, s in enumerate(symbols))
    assert packed.tobytes() == number.to_bytes((len(symbols) * width + 7) // 8, "little")
    assert np.array_equal(planes.unpack(packed, width, len(symbols)), symbols)


@ALL
@given(some.data())
def test_last_rows_of_zeros_are_left_out_by_stream(data):
    streams, tokens, channels = (data.draw(some.integers(1, 4)) for _ in range(3))
    flat = data.draw(some.lists(some.sampled_from([0, 0, 0, 0, 0x8000]), min_size=64, max_size=64))
    values = np.array(flat, np.uint16)[: streams * tokens * channels].reshape(streams, tokens, channels)
    found = planes_of(DTYPES["U16"], 8, True)
    cut = planes.cut(values, 0, 0, found)
    kept = [1 + max((t for t in range(tokens) if stream[t].any()), default=-1) for stream in values]
    assert cut.tokens.tolist() == kept
    rest = np.concatenate([stream[:count].reshape(-1) for stream, count in zip(values, kept, strict=True)])
    assert np.array_equal(join(cut, found, (0, 0), values.dtype), rest)


@pytest.mark.parametrize("symbols", [[], [7], [7] * 40, [7, 7, 8, 7], [7] * 63 + [6]])
def test_what_is_constant_and_what_a_sample_takes(symbols):
    values = np.array(symbols, np.uint8).reshape(1, 1, -1)
    cut = planes.cut(values, 0, 0, planes_of(DTYPES["U8"], 8, True))
    assert cut.constant == [len(set(symbols)) <= 1]
    assert cut.sampled == [len(symbols)]
    share = np.bincount(symbols or [0]) / max(1, len(symbols))
    bits = -sum(p * np.log2(p) for p in share if p) * len(symbols)
    assert cut.bits[0] / 256 == pytest.approx(bits, abs=0.01 * max(1, len(symbols)))
