"""Blocks coded relative to a draft: any bits of any type come back whatever the draft is, to the last byte of the
payload; an exact draft costs next to nothing; damage never crashes the decoder."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from test_predicted import BF16, F16, F32, FP8, PARAMETERS, ROPES, TYPES, extent_of, ids_of, make

from kvzip.blocks import codec
from kvzip.blocks.codec import Around, Chain
from kvzip.blocks.draft import DraftRows
from kvzip.blocks.drafted import PRIMED, Drafted
from kvzip.blocks.prediction import Choice
from kvzip.dtypes import DTYPES
from kvzip.errors import ContainerError, KvzipError
from kvzip.predict.rope import from_spec
from kvzip.predict.tokens import Occurrences
from kvzip.streams.plan import Block
from kvzip.windows.parameters import LEVELS
from kvzip.wire import Cursor

KINDS = ["bits", "special", "constant", "zero", "cache", "scaled"]
STATE = ("token", "learned", "angle")
BY_CHANNEL = ("averages", "gains", "memory", "pair_memory")


def coders(dtype, shape, draft, parameters=LEVELS[3], ropes=(), tokens=(), kinds=None):
    """An encoder and a decoder of the same chain."""
    kinds = kinds or ("key",) * shape[0]
    around = (parameters, list(ropes), list(tokens))
    return [Drafted(extent_of(dtype, shape), kinds, *around, draft) for _ in range(2)]


def round_trip(values, dtype, draft, choice=None, cuts=None, **options):
    """Code values in blocks that end at ``cuts``; return the payloads."""
    forth, back = coders(dtype, values.shape, draft, **options)
    payloads, start = [], 0
    for stop in cuts or [values.shape[1]]:
        part = np.ascontiguousarray(values[:, start:stop])
        payload = forth.encode(part, choice or Choice())
        cursor = Cursor(memoryview(payload), "test")
        decoded = back.decode(cursor, part.shape, first=start == 0)
        assert decoded.dtype.itemsize == values.dtype.itemsize
        assert decoded.tobytes() == part.tobytes()
        assert cursor.left == 0
        payloads.append(payload)
        start = stop
    assert forth.token == back.token
    assert np.array_equal(forth.past, back.past)
    for side in ("near", "far"):
        ours, theirs = getattr(forth, side), getattr(back, side)
        assert (ours is None) == (theirs is None)
        for name in STATE if ours else ():
            assert np.array_equal(getattr(ours.model, name), getattr(theirs.model, name)), (side, name)
        if ours:
            assert ours.began == theirs.began
            assert np.array_equal(ours.model.tables.counts, theirs.model.tables.counts), side
            live = ours.model.live != 0
            for name in BY_CHANNEL:
                a, b = (getattr(m, name).reshape(-1, len(live))[:, live] for m in (ours.model, theirs.model))
                assert np.array_equal(a, b), (side, name)
    return payloads


def drawn_draft(data, values, dtype):
    """A draft of any type and length: anything, or what ``values`` are from one place to another."""
    streams, tokens, channels = values.shape
    own = data.draw(some.booleans())
    kind = dtype if own else data.draw(some.sampled_from(TYPES))
    reach = data.draw(some.sampled_from([1, max(1, tokens // 2), tokens, tokens + 7]) | some.integers(1, 50))
    bits = make(data.draw(some.sampled_from(KINDS)), kind, (streams, reach, channels), data.draw(some.integers(0, 9)))
    if own:
        bits = bits.copy()
        start = data.draw(some.sampled_from([0, 0, tokens // 2]))
        stop = min(reach, data.draw(some.sampled_from([0, tokens // 2, tokens, tokens])))
        bits[:, start:stop] = values[:, start:stop]
    return DraftRows(bits, kind)


@settings(max_examples=150, deadline=None)
@given(some.data())
def test_any_bits_come_back_whatever_the_draft_is(data):
    dtype = data.draw(some.sampled_from(TYPES))
    channels = data.draw(some.sampled_from([1, 2, 3, 7, 15, 16, 17, 33, 64]))
    streams, tokens = data.draw(some.integers(1, 5)), data.draw(some.integers(1, 40))
    seed = data.draw(some.integers(0, 1 << 20))
    source = np.random.default_rng(seed)
    values = make(data.draw(some.sampled_from(KINDS)), dtype, (streams, tokens, channels), seed)
    if data.draw(some.booleans()):
        values = values.copy()
        values[:, data.draw(some.integers(0, tokens)) :] = 0
    ropes, text = [], data.draw(some.sampled_from(ROPES))
    if text and channels > 8:
        ropes = [from_spec("half:theta=1e4", 2), from_spec(text, channels)]
    records = []
    if data.draw(some.booleans()):
        records = [Occurrences.of(ids_of(source, tokens, data.draw(some.sampled_from([1, 3, 12]))))]
    draft = drawn_draft(data, values, dtype)
    cuts = sorted({*data.draw(some.lists(some.integers(1, tokens), max_size=4)), tokens})
    kinds = tuple(data.draw(some.sampled_from(["key", "value", "latent"])) for _ in range(streams))
    choice = Choice(len(ropes), len(records), False, data.draw(some.integers(0, 3)), data.draw(some.integers(1, 5)))
    parameters = data.draw(some.sampled_from(PARAMETERS))
    round_trip(
        values, dtype, draft, choice, cuts, parameters=parameters, ropes=ropes, tokens=records, kinds=kinds
    )  # fmt: skip


@pytest.mark.parametrize("drafted", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_every_pattern_between_numbers_comes_back(dtype, drafted):
    """NaN payloads, infinities, -0 and denormals strewn over both; the draft ends in the middle of a block."""
    shape = (2, 160, 24)
    sides = [make("cache", kind, shape, 1).copy() for kind in (dtype, drafted)]
    for kind, bits, seed in zip((dtype, drafted), sides, (2, 3), strict=True):
        strewn = np.random.default_rng(seed).random(shape) < 0.02
        bits[strewn] = make("special", kind, shape, seed)[strewn]
    draft = DraftRows(sides[1][:, :100], drafted)
    round_trip(sides[0], dtype, draft, Choice(1), (64, 128, 160), ropes=[from_spec("half:theta=1e4", 24)])


# ---- what a draft is worth


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("kind", ["bits", "special", "cache"])
def test_an_exact_draft_costs_a_few_bytes_a_block(dtype, kind):
    values = make(kind, dtype, (3, 90, 32), 5)
    longer = np.concatenate([values, values[:, :9]], axis=1)
    for draft in (values, longer):
        payloads = round_trip(values, dtype, DraftRows(draft, dtype), cuts=[50, 90])
        assert sum(map(len, payloads)) < 20


@pytest.mark.parametrize("stream", ["zero", "constant NaN"])
def test_an_exact_draft_costs_a_few_bytes_if_a_stream_has_no_numbers(stream):
    values = make("cache", BF16, (3, 90, 32), 5).copy()
    values[1] = 0 if stream == "zero" else 0x7FC0
    (payload,) = round_trip(values, BF16, DraftRows(values, BF16))
    assert len(payload) < 20


def test_rows_that_the_draft_has_cost_nothing_up_to_the_first_that_differs():
    values, draft = (make("cache", BF16, (2, 80, 16), seed).copy() for seed in (0, 1))
    (alone,) = round_trip(values[:, 60:], BF16, DraftRows(draft[:, 60:], BF16))
    draft[:, :60] = values[:, :60]
    first, second = round_trip(values, BF16, DraftRows(draft, BF16), cuts=[40, 80])
    assert len(first) < 20
    assert len(second) < len(alone) + 100


@pytest.mark.parametrize("other", [F16, F32, FP8, DTYPES["F8_E5M2"]], ids=lambda d: d.name)
def test_a_draft_in_other_numbers_helps(other):
    source = np.random.default_rng(0)
    x = source.normal(size=(2, 256, 64)).astype(np.float32)
    draft = DraftRows(_rounded(x, other), other)
    values = _rounded(x, BF16)
    near, far = (len(round_trip(values, BF16, d)[0]) for d in (draft, DraftRows(draft.bits[:, :1], other)))
    assert near < (0.75 if other.bits == 8 else 0.2) * far


@pytest.mark.parametrize("factor", [-3.0, 0.02, 448.0])
def test_a_draft_of_another_scale_helps_as_much(factor):
    x = np.random.default_rng(0).normal(size=(2, 256, 64)).astype(np.float32)
    values = _rounded(x, BF16)
    plain, scaled = (
        len(round_trip(values, BF16, DraftRows((x * np.float32(f)).view("<u4"), F32))[0]) for f in (1, factor)
    )
    assert scaled < 1.1 * plain


def test_what_lies_beyond_the_draft_learns_from_what_it_reaches():
    """The mean of a channel, say: it is known by the time the draft ends."""
    source = np.random.default_rng(0)
    x = (source.normal(size=(1, 1, 64)) * 9 + source.normal(size=(1, PRIMED + 4, 64))).astype(np.float32)
    values = _rounded(x, BF16)
    reached = DraftRows(values[:, :PRIMED], BF16)
    unknown = len(round_trip(values[:, PRIMED:], BF16, DraftRows(values[:, :1, ::-1], BF16))[0])
    for cuts in ([PRIMED, PRIMED + 4], [100, PRIMED + 4]):
        assert sum(map(len, round_trip(values, BF16, reached, cuts=cuts))) < 0.9 * unknown


def _rounded(x, dtype):
    """float32 as the type's bits, to nearest."""
    if dtype.name == "F32":
        return x.view("<u4")
    if dtype.name == "F16":
        return x.astype("<f2").view("<u2")
    import ml_dtypes

    names = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    return x.astype(getattr(ml_dtypes, names[dtype.name])).view(f"<u{dtype.bits // 8}")


# ---- beside the other methods


def chains(dtype, shape, draft, choice=None):
    block = Block(0, tuple(range(shape[0])), shape[1], shape[2], True)
    around = Around(("key",) * shape[0], draft=draft)
    twins = [Chain(extent_of(dtype, shape), LEVELS[3], False, around, c) for c in (choice or Choice(), None)]
    return *twins, block


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_a_useless_draft_costs_nothing(dtype):
    shape = (2, 256, 64)
    values, other = (make("cache", dtype, shape, seed) for seed in (0, 1))
    plain = Chain(extent_of(dtype, shape), LEVELS[3], False, Around(("key",) * 2), Choice())
    drafted, back, block = chains(dtype, shape, DraftRows(other, dtype))
    payload = drafted.encode(values)
    assert payload == plain.encode(values)
    assert np.array_equal(back.decode(memoryview(payload), block, "test"), values)


def test_a_draft_that_stops_paying_is_given_up_and_the_chain_goes_on():
    shape = (2, 128, 32)
    parts = [make(kind, BF16, shape, 4) for kind in ("cache", "bits", "cache")]
    draft = make("cache", BF16, (2, 384, 32), 5).copy()
    draft[:, :128] = parts[0]
    forth, back, block = chains(BF16, shape, DraftRows(draft, BF16))
    methods = []
    for values in parts:
        payload = forth.encode(values)
        methods.append(payload[0])
        assert np.array_equal(back.decode(memoryview(payload), block, "test"), values)
    assert methods == [codec.DRAFTED, codec.STORED, codec.WINDOWS]


def test_methods_do_not_go_on_with_each_other():
    shape = (1, 64, 32)
    values = make("cache", BF16, shape, 1)
    draft = DraftRows(values ^ 1, BF16)
    with_draft, _, block = chains(BF16, shape, draft)
    without, _, _ = chains(BF16, shape, None)
    drafted, predicted = ([chain.encode(values) for _ in range(2)] for chain in (with_draft, without))
    assert [p[0] for p in drafted + predicted] == [codec.DRAFTED] * 2 + [codec.PREDICTED] * 2
    for first, second in ((drafted, predicted), (predicted, drafted)):
        for payload in second:
            back = chains(BF16, shape, draft)[1]
            back.decode(memoryview(first[0]), block, "test")
            with pytest.raises(ContainerError, match=r"not begun|in the middle"):
                back.decode(memoryview(payload), block, "test")
        with pytest.raises(ContainerError):
            chains(BF16, shape, draft)[1].decode(memoryview(second[1]), block, "test")
    with pytest.raises(ContainerError, match="draft"):
        chains(BF16, shape, None)[1].decode(memoryview(drafted[0]), block, "test")


# ---- damage


@cache
def small(name):
    """A payload, and what decodes it: "scaled", or "long" with rows before, within and beyond the draft's reach."""
    values = make("cache", BF16, (2, 20, 8), 0).copy()
    values[0, 3, 2] = 0x7F81
    rope, seen = from_spec("half:theta=1e4", 8), Occurrences.of(ids_of(np.random.default_rng(0), 20, 7))
    if name == "scaled":
        numbers = np.nan_to_num((values.astype("<u4") << 16).view("<f4"))
        numbers += np.random.default_rng(1).normal(0, 0.05, values.shape).astype("<f4")
        draft = DraftRows(_rounded(3 * numbers, F16), F16)
    else:
        draft = DraftRows(values[:, :14] ^ np.array([0] * 5 + [1] * 9, "<u2")[:, None], BF16)
    options = {"ropes": [rope], "tokens": [seen]}
    payload = coders(BF16, values.shape, draft, **options)[0].encode(values, Choice(1, 1))

    def decode(data):
        back = coders(BF16, values.shape, draft, **options)[1]
        return back.decode(Cursor(memoryview(bytes(data)), "test"), values.shape)

    return values, payload, decode


@pytest.mark.parametrize("name", ["scaled", "long"])
def test_every_prefix_and_every_flipped_bit_is_refused_or_changes_values(name):
    values, payload, decode = small(name)
    assert np.array_equal(decode(payload), values)
    for data in [payload[:end] for end in range(len(payload))] + [payload + b"\0"]:
        with pytest.raises(ContainerError):
            decode(data)
    unnoticed = []
    for bit in range(8 * len(payload)):
        broken = bytearray(payload)
        broken[bit // 8] ^= 1 << bit % 8
        try:
            if np.array_equal(decode(broken), values):
                unnoticed.append(bit)
        except ContainerError:
            continue
    assert len(unnoticed) <= (16 if name == "scaled" else 2)  # factors that are nearly the same


@settings(max_examples=200, deadline=None)
@given(some.data())
def test_garbage_is_refused_or_decoded_but_never_crashes(data):
    values, payload, decode = small(data.draw(some.sampled_from(["scaled", "long"])))
    broken = bytearray(payload)
    for _ in range(data.draw(some.integers(1, 3))):
        at = data.draw(some.integers(0, min(len(broken) - 1, data.draw(some.sampled_from([12, 40, 1000])))))
        tail = data.draw(some.binary(min_size=1, max_size=30))
        broken[at : at + len(tail)] = tail
    try:
        assert decode(broken).shape == values.shape
    except KvzipError:
        return


@pytest.mark.parametrize(
    ("start", "ropes", "records"),
    [
        (b"\x02\x01\x01\0\0", 0, 0),  # an unknown flag
        (b"\0\x01\0\0\0", 0, 0),  # no stream together
        (b"\0\x01\x03\0\0", 0, 0),  # more streams together than there are
        (b"\0\x01\x01\x01\0", 0, 0),  # a rope that is not there
        (b"\0\x01\x01\0\x01", 0, 0),  # tokens that are not there
        (b"\0\x01\x01\x01\0", 1, 0),  # a rope for wider rows
        (b"\0\x01\x01\0\x01", 0, 1),  # tokens of another dump
        *((b"\x01\x01\x01\0\0" + np.array([1, scale], "<f4").tobytes(), 0, 0)
          for scale in (0, -0.0, np.nan, np.inf, -np.inf, 2.0**-60, 2.0**60, 1e-45)),
        (b"\0\x01\x01\0\0\x15", 0, 0),  # more rows the draft's than it has
        (b"\0\x01\x01\0\0\0\x79\0\0\0", 0, 0),  # a start out of range
    ],
)  # fmt: skip
def test_impossible_starts_are_refused(start, ropes, records):
    draft = DraftRows(make("cache", BF16, (2, 20, 8), 0), BF16)
    _, back = coders(
        BF16, (2, 20, 8), draft, ropes=[from_spec("half:theta=1e4", 16)] * ropes,
        tokens=[Occurrences.of(np.arange(9, dtype=np.int32))] * records,
    )  # fmt: skip
    payload = b"\x01\0" + start + bytes(8) + (1 << 16).to_bytes(4, "little") * 8
    with pytest.raises(ContainerError, match=r"impossible|out of range|wider|another dump"):
        back.decode(Cursor(memoryview(payload), "test"), (2, 20, 8))


@pytest.mark.parametrize("scaled", [False, True])
def test_values_of_another_type_or_scaled_ones_are_not_taken_from_a_draft(scaled):
    draft = DraftRows(make("cache", BF16 if scaled else F16, (1, 4, 2), 0), BF16 if scaled else F16)
    head = bytes((1, 0, scaled, 1, 1, 0, 0)) + np.ones(int(scaled), "<f4").tobytes()
    with pytest.raises(ContainerError, match="another type"):
        coders(BF16, (1, 4, 2), draft)[1].decode(Cursor(head + b"\x04", "test"), (1, 4, 2))
