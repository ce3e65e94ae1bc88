"""Blocks coded relative to predictions: any bits of any type come back, to the last byte of the payload; what does
not pay is left to the windows; damage never crashes the decoder."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.blocks import codec
from kvzip.blocks.codec import Around, Chain
from kvzip.blocks.predicted import Predicted
from kvzip.blocks.prediction import Choice
from kvzip.dtypes import DTYPES
from kvzip.errors import ContainerError, KvzipError
from kvzip.planes.split import default_symbol_bits
from kvzip.predict.grid import grid_of
from kvzip.predict.rope import Rope, from_spec
from kvzip.predict.tokens import Occurrences
from kvzip.streams.extent import Extent
from kvzip.streams.plan import Block
from kvzip.windows.parameters import LEVELS, Parameters
from kvzip.wire import Cursor

TYPES = [dtype for dtype in DTYPES.values() if grid_of(dtype) is not None]
BF16, F16, F32, FP8 = (DTYPES[name] for name in ("BF16", "F16", "F32", "F8_E4M3"))
PARAMETERS = [
    LEVELS[2],
    LEVELS[3],
    LEVELS[4],
    Parameters().of(table_bits=10, prior_weight=0, alpha=0.9, drift=1.05, theta_low=0.02, theta_new=0.02, warmup=3),
]


def make(kind, dtype, shape, seed):
    """Values of (streams, tokens, channels): of numbers, of bits, or of the patterns that trip coders."""
    source = np.random.default_rng(seed)
    width = np.dtype(f"<u{dtype.container_bytes}")
    if kind == "bits":
        return np.frombuffer(source.bytes(int(np.prod(shape)) * width.itemsize), width).reshape(shape)
    top, sign = ((1 << dtype.exponent) - 1) << dtype.mantissa, 1 << (dtype.bits - 1)
    one = ((1 << (dtype.exponent - 1)) - 1) << dtype.mantissa
    if kind == "special":
        patterns = [
            0,
            sign,
            1,
            sign | 1,
            top,
            sign | top,
            top | 1,
            sign | top | 3,
            top - 1,
            sign | (top - 1),
            one,
            one,
        ]
        return source.choice(np.array(patterns, np.uint64), shape).astype(width)
    if kind == "constant":
        return np.full(shape, one, width)
    if kind == "zero":
        return np.zeros(shape, width)
    scale = 2.0 ** source.integers(-3, 4) if kind == "cache" else 2.0 ** source.integers(-30, 30)
    x = (source.normal(0, 1, shape) * 0.3 + source.normal(0, 1, (shape[0], 1, shape[2]))) * scale
    wide = x.astype(np.float32).view(np.uint32)
    if dtype.bits >= 16 and dtype.name != "F16":
        return (wide >> (32 - dtype.bits)).astype(width)
    if dtype.name == "F16":
        with np.errstate(over="ignore"):
            return x.astype("<f2").view("<u2")
    exponent = np.clip((wide >> 23 & 255).astype(int) - 127 + (one >> dtype.mantissa), 0, (1 << dtype.exponent) - 1)
    fraction = wide >> (23 - dtype.mantissa) & ((1 << dtype.mantissa) - 1)
    return (wide >> 31 << 7 | exponent << dtype.mantissa | fraction).astype(width)


def extent_of(dtype, shape):
    streams, tokens, channels = shape
    axes = (("head", streams), ("token", tokens), ("channel", channels))
    return Extent(dtype, streams * tokens * channels, axes, 0, "key", default_symbol_bits(dtype))


def coders(dtype, shape, parameters=LEVELS[3], ropes=(), tokens=(), kinds=None):
    """An encoder and a decoder of the same chain."""
    kinds = kinds or ("key",) * shape[0]
    return (Predicted(extent_of(dtype, shape), kinds, parameters, list(ropes), list(tokens)) for _ in range(2))


def round_trip(values, dtype, choice, cuts, **options):
    """Code values in blocks that end at ``cuts``; return the payloads."""
    forth, back = coders(dtype, values.shape, **options)
    payloads, start = [], 0
    for stop in cuts:
        part = np.ascontiguousarray(values[:, start:stop])
        payload = forth.encode(part, choice)
        cursor = Cursor(memoryview(payload), "test")
        decoded = back.decode(cursor, part.shape)
        assert decoded.dtype.itemsize == values.dtype.itemsize
        assert decoded.tobytes() == part.tobytes()
        assert cursor.left == 0
        payloads.append(payload)
        start = stop
    for name in ("learned", "token", "angle"):
        assert np.array_equal(getattr(forth.model, name), getattr(back.model, name)), name
    return payloads


def ids_of(source, tokens, most):
    """Token ids, numbered by first appearance."""
    numbers = {}
    return np.array([numbers.setdefault(i, len(numbers)) for i in source.integers(0, most, tokens)], np.int32)


ROPES = [
    None,
    "half:theta=1e4",
    "interleaved:theta=5e5",
    "half:theta=1e4,dim=6,start=3",
    "interleaved:theta=1e4,dim=2,start=1",
]


@settings(max_examples=120, deadline=None)
@given(some.data())
def test_any_bits_of_any_type_and_shape_come_back(data):
    dtype = data.draw(some.sampled_from(TYPES))
    channels = data.draw(some.sampled_from([1, 2, 3, 7, 15, 16, 17, 33, 64]))
    streams, tokens = data.draw(some.integers(1, 3)), data.draw(some.integers(1, 40))
    seed = data.draw(some.integers(0, 1 << 20))
    source = np.random.default_rng(seed)
    values = make(data.draw(some.sampled_from(["bits", "special", "constant", "zero", "cache", "scaled"])), dtype,
                  (streams, tokens, channels), seed)  # fmt: skip
    ropes = []
    text = data.draw(some.sampled_from(ROPES))
    if text and channels > 8:
        ropes = [from_spec("half:theta=1e4", 2), from_spec(text, channels)]
    records = []
    if data.draw(some.booleans()):
        ids = ids_of(source, tokens, data.draw(some.sampled_from([1, 3, 12])))
        records = [Occurrences.of(ids)]
    unique = bool(records) and dtype is not F32 and data.draw(some.booleans())
    if unique:
        values = values[:, [ids.tolist().index(i) for i in ids]]
    cuts = sorted({*data.draw(some.lists(some.integers(1, tokens), max_size=2)), tokens})
    kinds = tuple(data.draw(some.sampled_from(["key", "value", "latent"])) for _ in range(streams))
    choice = Choice(len(ropes), len(records), unique, data.draw(some.integers(0, 3)), data.draw(some.integers(1, 5)))
    parameters = data.draw(some.sampled_from(PARAMETERS))
    round_trip(values, dtype, choice, cuts, parameters=parameters, ropes=ropes, tokens=records, kinds=kinds)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_every_pattern_between_numbers_comes_back(dtype):
    """NaN payloads, infinities, -0 and denormals strewn over a cache, enough of them for everything to be learnt."""
    values = make("cache", dtype, (2, 300, 32), 1).copy()
    strewn = np.random.default_rng(2).random(values.shape) < 0.02
    values[strewn] = make("special", dtype, values.shape, 3)[strewn]
    rope = from_spec("half:theta=1e4", 32)
    round_trip(values, dtype, Choice(rope=1), (128, 300), ropes=[rope])


def test_rotated_keys_cost_less_when_the_rotation_is_known():
    source, rope = np.random.default_rng(0), from_spec("half:theta=1e4", 64)
    x = np.repeat(source.normal(0, 2, (1, 1, 64)), 500, 1) + 0.2 * source.normal(size=(1, 500, 64))
    for pair, (a, b) in enumerate(rope.pairs):
        turned = (x[..., a] + 1j * x[..., b]) * np.exp(1j * rope.angles[pair] * np.arange(500))
        x[..., a], x[..., b] = turned.real, turned.imag
    values = (x.astype(np.float32).view(np.uint32) >> 16).astype("<u2")
    known, unknown = (len(round_trip(values, BF16, c, [500], ropes=[rope])[0]) for c in (Choice(rope=1), Choice()))
    assert known < 0.9 * unknown


def test_repeated_tokens_cost_less_when_they_are_known():
    source = np.random.default_rng(0)
    ids = ids_of(source, 600, 60)
    x = source.normal(0, 1, (1, 60, 64))[:, ids] + 0.1 * source.normal(size=(1, 600, 64))
    values = (x.astype(np.float32).view(np.uint32) >> 16).astype("<u2")
    seen = [Occurrences.of(ids)]
    known, unknown = (len(round_trip(values, BF16, c, [600], tokens=seen)[0]) for c in (Choice(tokens=1), Choice()))
    assert known < 0.85 * unknown


def test_rows_that_came_before_cost_nothing():
    source = np.random.default_rng(0)
    ids = ids_of(source, 400, 20)
    values = make("bits", BF16, (2, 20, 16), 0)[:, ids]
    seen, choice = [Occurrences.of(ids)], Choice(tokens=1, unique=True)
    first, second, third = round_trip(values, BF16, choice, [200, 300, 400], tokens=seen)
    assert len(first) > 2 * 20 * 16 * 2 * 0.9
    assert len(third) < 20
    assert len(second) < 20


def test_zero_tails_cost_nothing_and_may_be_everything():
    values = make("cache", BF16, (2, 120, 32), 0).copy()
    alone = len(round_trip(values[:, :40], BF16, Choice(), [40])[0])
    values[:, 40:] = 0
    tailed = round_trip(values, BF16, Choice(), [60, 120])
    assert len(tailed[0]) <= alone + 2
    assert len(tailed[1]) < 16
    assert len(round_trip(np.zeros((2, 50, 8), "<u2"), BF16, Choice(), [50])[0]) < 24


def test_the_low_halves_of_f32_are_kept_as_they_are():
    values = make("cache", F32, (2, 200, 32), 0)
    (payload,) = round_trip(values, F32, Choice(), [200])
    top = (values >> 16).astype("<u2")
    (upper,) = round_trip(top, BF16, Choice(), [200])
    assert len(payload) <= len(upper) + values.nbytes // 2
    zeros = values & 0xFFFF0000
    round_trip(zeros, F32, Choice(), [50, 200])


# ---- beside the windows


def chains(dtype, shape, choice, ropes=(), tokens=()):
    extent = extent_of(dtype, shape)
    around = Around(("key",) * shape[0], list(ropes), list(tokens))
    block = Block(0, tuple(range(shape[0])), shape[1], shape[2], True)
    return Chain(extent, LEVELS[3], False, around, choice), Chain(extent, LEVELS[3], False, around), block


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_random_bits_cost_what_they_cost_without_prediction(dtype):
    values = make("bits", dtype, (2, 256, 64), 0)
    plain, with_choice = chains(dtype, values.shape, None)[0], chains(dtype, values.shape, Choice())[0]
    for _ in range(2):
        assert with_choice.encode(values) == plain.encode(values)
    assert with_choice.choice is None


def test_a_prediction_that_stops_paying_is_given_up_and_the_chain_goes_on():
    """Numbers, noise, numbers: predicted, stored, windows; the decoder follows."""
    shape = (2, 128, 32)
    forth, back, block = chains(BF16, shape, Choice())
    methods = []
    for kind in ("cache", "bits", "cache", "cache"):
        values = make(kind, BF16, shape, 4)
        payload = forth.encode(values)
        methods.append(payload[0])
        assert np.array_equal(back.decode(memoryview(payload), block, "test"), values)
    assert methods == [codec.PREDICTED, codec.STORED, codec.WINDOWS, codec.WINDOWS]


def test_a_prediction_cannot_go_on_behind_another_method():
    shape = (1, 64, 32)
    forth, back, block = chains(BF16, shape, Choice())
    first, second = (forth.encode(make("cache", BF16, shape, 1)) for _ in range(2))
    stored = bytes((codec.STORED,)) + bytes(64 * 32 * 2)
    with pytest.raises(ContainerError, match="not begun"):
        back.decode(memoryview(second), block, "test")
    back.decode(memoryview(first), block, "test")
    back.decode(memoryview(stored), block, "test")
    with pytest.raises(ContainerError, match="not begun"):
        back.decode(memoryview(second), block, "test")


# ---- damage


@cache
def small(unique=False):
    """A payload with everything in it, and what decodes it."""
    ids = ids_of(np.random.default_rng(0), 20, 7)
    values = make("cache", BF16, (2, 20, 8), 0).copy()
    values[0, 3, 2] = 0x7F81
    values = values[:, [ids.tolist().index(i) for i in ids]]
    rope, seen = from_spec("half:theta=1e4", 8), Occurrences.of(ids)
    choice = Choice(1, 1, unique)
    forth, _ = coders(BF16, values.shape, ropes=[rope], tokens=[seen])
    payload = forth.encode(values, choice)

    def decode(data):
        _, back = coders(BF16, values.shape, ropes=[rope], tokens=[seen])
        return back.decode(Cursor(memoryview(bytes(data)), "test"), values.shape)

    return values, payload, decode


@pytest.mark.parametrize("unique", [False, True])
def test_every_prefix_and_every_flipped_bit_is_refused_or_changes_values(unique):
    values, payload, decode = small(unique)
    assert np.array_equal(decode(payload), values)
    for data in [payload[:end] for end in range(len(payload))] + [payload + b"\0"]:
        with pytest.raises(ContainerError):
            decode(data)
    unnoticed = 0
    for bit in range(8 * len(payload)):
        broken = bytearray(payload)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            unnoticed += np.array_equal(decode(broken), values)
        except ContainerError:
            continue
    assert unnoticed <= 2  # a scale that starts nearly the same


@settings(max_examples=200, deadline=None)
@given(some.data())
def test_garbage_is_refused_or_decoded_but_never_crashes(data):
    values, payload, decode = small(data.draw(some.booleans()))
    broken = bytearray(payload)
    for _ in range(data.draw(some.integers(1, 3))):
        at = data.draw(some.integers(0, min(len(broken) - 1, data.draw(some.sampled_from([12, 1000])))))
        tail = data.draw(some.binary(min_size=1, max_size=30))
        broken[at : at + len(tail)] = tail
    try:
        assert decode(broken).shape == values.shape
    except KvzipError:
        return


@pytest.mark.parametrize(
    ("start", "ropes", "records"),
    [
        (b"\x04\x01\0\0", 0, 0),  # an unknown flag
        (b"\0\x01\x01\0", 0, 0),  # a rope that is not there
        (b"\0\x01\0\x01", 0, 0),  # tokens that are not there
        (b"\x01\x01\0\0", 0, 1),  # unique without tokens
        (b"\0\x01\x01\0", 1, 0),  # a rope for wider rows
        (b"\0\x01\0\x01", 0, 1),  # tokens of another dump
        (b"\x02\x01\x01\0\0", 0, 0),  # one stream together
        (b"\x02\x01\x03\0\0", 0, 0),  # more streams together than there are
    ],
)
def test_impossible_starts_are_refused(start, ropes, records):
    _, back = coders(
        BF16, (2, 20, 8), ropes=[from_spec("half:theta=1e4", 16)] * ropes,
        tokens=[Occurrences.of(np.arange(9, dtype=np.int32))] * records,
    )  # fmt: skip
    payload = b"\x01\0" + start + bytes(4) + b"\0\0\0" + (1 << 16).to_bytes(4, "little")
    with pytest.raises(ContainerError, match=r"impossible|out of range|wider|another dump"):
        back.decode(Cursor(memoryview(payload), "test"), (2, 20, 8))


def test_a_rope_that_turns_nothing_turns_nothing():
    """Such a record is odd, but not wrong."""
    values = make("cache", BF16, (2, 30, 16), 0)
    round_trip(values, BF16, Choice(rope=1), [10, 30], ropes=[Rope.of([], [])])
