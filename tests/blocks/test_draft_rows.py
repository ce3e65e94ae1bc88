"""A draft's values: what numbers they are, how far they are the dump's, how they are scaled, whether they help."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from test_predicted import BF16, F16, F32, TYPES, extent_of, make

from kvzip.blocks.draft import DraftRows, UnitDraft, can_draft
from kvzip.blocks.drafted import Drafted, scales_to, try_both, worth
from kvzip.blocks.prediction import Choice
from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import read_header
from kvzip.predict.grid import grid_of
from kvzip.predict.rope import from_spec
from kvzip.windows.parameters import LEVELS

REAL = Path(__file__).parents[2] / "fixtures/real"
KINDS = ["bits", "special", "constant", "zero", "cache", "scaled"]
ROPE = from_spec("half:theta=1e5", 64)


def number(bits, dtype):
    """What one bit pattern stands for, infinities and NaN as if they were numbers; 0 for what is huge."""
    code, sign = bits & ((1 << (dtype.bits - 1)) - 1), -1 if bits >> (dtype.bits - 1) else 1
    exponent, fraction = code >> dtype.mantissa, code & ((1 << dtype.mantissa) - 1)
    bias = (1 << (dtype.exponent - 1)) - (0 if "FNUZ" in dtype.name else 1)
    whole = fraction + (1 << dtype.mantissa if exponent else 0)
    size = whole * 2.0 ** (max(exponent, 1) - bias - dtype.mantissa)
    return sign * size if size < 2.0**60 else 0.0


@settings(max_examples=60, deadline=None)
@given(some.sampled_from(TYPES), some.sampled_from(KINDS), some.integers(0, 99), some.data())
def test_numbers_are_what_the_bits_stand_for_times_a_scale(dtype, kind, seed, data):
    draft = DraftRows(make(kind, dtype, (2, 9, 5), seed), dtype)
    start = data.draw(some.integers(0, 9))
    stop = data.draw(some.integers(start, 9))
    found = draft.numbers(start, stop)
    expected = np.array([number(b, dtype) for b in draft.bits[:, start:stop].ravel().tolist()], np.float32)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected.reshape(2, stop - start, 5))
    scales = np.array([-3.7, 2.0**59], np.float32)
    scaled = draft.numbers(start, stop, scales)
    products = found * scales[:, None, None]
    assert np.array_equal(scaled, np.where(np.abs(products) < 2.0**60, products, 0))


@settings(max_examples=100, deadline=None)
@given(some.sampled_from(TYPES), some.integers(1, 3), some.integers(1, 150), some.data())
def test_same_counts_the_rows_up_to_the_first_that_differs_in_a_bit(dtype, streams, reach, data):
    draft = DraftRows(make("special", dtype, (streams, reach, 3), 0), dtype)
    start = data.draw(some.integers(0, reach + 2))
    values = draft.bits[:, start:].copy()
    rows = values.shape[1]
    at = data.draw(some.integers(0, rows))
    if at < rows:
        values[data.draw(some.integers(0, streams - 1)), at, data.draw(some.integers(0, 2))] ^= 1
    longer = np.concatenate([values, make("bits", dtype, (streams, 5, 3), 1)], axis=1)
    for mine in (values, longer):
        assert draft.same(mine, dtype, start) == at
    for other in set(TYPES) - {dtype}:
        assert draft.same(values, other, start) == 0


def test_of_picks_streams_by_number():
    draft = DraftRows(make("bits", BF16, (3, 4, 5), 0), BF16)
    for streams in ((0,), (2,), (0, 1), (1, 2), (2, 0), (0, 1, 2)):
        assert np.array_equal(draft.of(streams).bits, draft.bits[list(streams)])
    assert draft.of((1,)).tokens == draft.tokens == 4


def test_only_floats_that_are_predicted_can_be_drafts():
    assert {dtype.name for dtype in DTYPES.values() if can_draft(dtype)} == {dtype.name for dtype in TYPES}
    assert {"BF16", "F16", "F32", "F8_E4M3", "F8_E5M2"} <= {dtype.name for dtype in TYPES}


# ---- of a unit


@settings(max_examples=60, deadline=None)
@given(some.lists(some.integers(1, 12), min_size=1, max_size=3), some.booleans(), some.data())
def test_a_units_draft_reaches_as_far_as_all_of_its_extents_do(reaches, scaled, data):
    parts = [make("cache", F16, (2, reach, 3 + i), i) for i, reach in enumerate(reaches)]
    scales = tuple(np.arange(1, 2 * len(parts) + 1) / 4) if scaled else ()
    draft = UnitDraft(tuple(DraftRows(part, F16) for part in parts), scales)
    assert draft.tokens == min(reaches)
    start = data.draw(some.integers(0, 14))
    stop = data.draw(some.integers(start, 14))
    streams = [stream for part in parts for stream in part]
    found = draft.numbers(start, stop)
    assert len(found) == len(streams)
    for at, (rows, bits) in enumerate(zip(found, streams, strict=True)):
        whole = np.zeros((14, bits.shape[1]), np.float32)
        whole[: min(reaches)] = bits.view(np.float16)[: min(reaches)]
        assert np.array_equal(rows, whole[start:stop] * np.float32(scales[at] if scaled else 1))
    values = [part[:, start:] for part in parts]
    assert draft.same(values, F16, start) == (0 if scaled else max(0, min(reaches) - start))


def test_an_extent_that_differs_ends_what_is_the_draft_of_a_unit():
    parts = [make("cache", BF16, (2, 9, 4), seed) for seed in (0, 1)]
    draft = UnitDraft(tuple(DraftRows(part.copy(), BF16) for part in parts))
    assert draft.same(parts, BF16, 0) == 9
    parts[1][1, 4, 3] ^= 1
    assert [draft.same([part[:, at:] for part in parts], BF16, at) for at in (0, 3, 4, 5)] == [4, 1, 0, 4]
    assert draft.same(parts, F16, 0) == 0


# ---- scales


@settings(max_examples=60, deadline=None)
@given(some.lists(some.sampled_from([1.0, 0.25, -1.0, 3.0, 448.0, 2.0**-20]), min_size=2, max_size=2))
def test_scales_are_those_that_make_the_draft_the_values(factors):
    x = np.random.default_rng(0).normal(size=(2, 40, 8)).astype(np.float32)
    values = x.astype("<f2").view("<u2")
    draft = (x / np.array(factors, np.float32)[:, None, None]).astype("<f4").view("<u4")
    found = scales_to(values, grid_of(F16), DraftRows(draft, F32))
    if all(factor == 1 for factor in factors):
        assert found is None
    else:
        assert found == pytest.approx(factors, rel=1e-3)


@settings(max_examples=100, deadline=None)
@given(some.sampled_from(TYPES), some.sampled_from(TYPES), some.sampled_from(KINDS), some.sampled_from(KINDS))
def test_scales_are_ones_that_the_decoder_takes(dtype, drafted, kind, other):
    values, draft = make(kind, dtype, (3, 20, 4), 0), make(other, drafted, (3, 9, 4), 1)
    found = scales_to(values >> 16 if dtype is F32 else values, grid_of(dtype), DraftRows(draft, drafted))
    assert found is None or ((np.abs(found) > 2.0**-60) & (np.abs(found) < 2.0**60)).all()


# ---- whether a draft helps


@cache
def real(name):
    """The tensors of a dump of 256 tokens: (3, 256, 64) of bits by name."""
    with open(REAL / f"{name}.safetensors", "rb") as file:
        header = read_header(file, name)
        data = file.read()
    return {
        e.name: np.frombuffer(data[e.start : e.stop], "<u2").reshape(e.shape[1:])
        for e in header.entries
    }  # fmt: skip


def trial(values, draft, kind="key", dtype=BF16):
    drafted = Drafted(extent_of(dtype, values.shape), (kind,) * len(values), LEVELS[3], [ROPE], [], draft)
    return drafted, values, Choice(rope=int(kind == "key"))


CASES = [(layer, kind, count) for layer in (0, 15, 29) for kind in ("key", "value") for count in (128, 256)]


@pytest.mark.parametrize(("layer", "kind", "count"), CASES)
def test_a_draft_in_other_numbers_is_taken_and_one_of_other_tokens_is_not(layer, kind, count):
    name = f"layers.{layer}.{kind}"
    values = real("chat_bf16")[name][:, :count]
    same = DraftRows(real("chat_fp16")[name], F16)
    assert worth(*trial(values, same, kind))
    near, far = try_both(*trial(values, same, kind), 0)
    assert near < 0.52 * far
    near, far = try_both(*trial(values, DraftRows(real("prose_bf16")[name], BF16), kind), 0)
    assert near >= Choice.bar * far


@pytest.mark.parametrize("reach", [1, 15, 16, 40, 256])
def test_an_exact_draft_is_taken_unless_it_is_very_short(reach):
    values = real("prose_bf16")["layers.7.key"]
    assert worth(*trial(values, DraftRows(values[:, :reach], BF16))) == (reach > 15)


def test_what_counts_are_the_rows_behind_those_that_are_the_same():
    values, other = real("prose_bf16")["layers.7.key"], real("chat_bf16")["layers.7.key"]
    parted = np.concatenate([values[:, :100], other[:, 100:]], axis=1)
    near, far = try_both(*trial(values, DraftRows(parted, BF16)), 100)
    assert near >= Choice.bar * far > 0
    near, far = try_both(*trial(values, DraftRows(np.where(values == parted, values, values ^ 1), BF16)), 100)
    assert near < 0.5 * far


def test_trying_leaves_no_trace():
    values = real("prose_bf16")["layers.7.key"]
    drafted, *rest = trial(values, DraftRows(values ^ 1, BF16))
    try_both(drafted, *rest, 0)
    assert (drafted.token, drafted.choice, drafted.near, drafted.far) == (0, None, None, None)
    assert drafted.encode(*rest) == trial(values, DraftRows(values ^ 1, BF16))[0].encode(*rest)
