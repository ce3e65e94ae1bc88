"""Layers coded relative to a draft: whatever it is, they come back; the better it is, the smaller they get."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzip.container.unit import Unit
from kvzip.dtypes import DTYPES
from kvzip.linear.settings import LEVELS, Settings, drafted

from .made import DRAFTS, SETTINGS, SPOILS, TYPES, Layer, digests, encoded, junk
from .test_layer import SHAPES, check

WITHOUT = "877b44e2f98a6bdfffca3c66e8d3dc83026159c89c71b7ebd3e5e58cbf8b9cc4"


def size(layer, chosen=SETTINGS["two"]):
    """Bits of a value."""
    return 8 * sum(check(layer, chosen)) / sum(x.size for x in layer.streams)


@pytest.mark.parametrize("how", DRAFTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_draft(dtype, how):
    for name in ("rows", "coarse"):
        check(Layer(dtype, (20,), (9, 16), 70, base=40).drafted(how), SETTINGS[name], (33, 1))


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_bits(dtype, spoil):
    layer = Layer(dtype, (20,), (9, 16), 70, base=40).drafted()
    layer.spoil(spoil)
    for name in ("two", "coarse"):
        check(layer, SETTINGS[name], (33, 1))
    check(layer.drafted(), SETTINGS["coarse"], (20,))


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape(shape):
    keys, values, tokens = SHAPES[shape]
    check(Layer("F8_E4M3", keys, values, tokens, base=33).drafted(), SETTINGS["coarse"], (3, 14))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.sampled_from(sorted(SETTINGS)),
    st.sampled_from(DRAFTS),
    st.sampled_from(SPOILS),
    st.lists(st.integers(1, 30), max_size=3),
    st.integers(1, 60),
    st.integers(0, 1 << 16),
)
def test_everything_together(dtype, name, how, spoil, steps, tokens, seed):
    layer = Layer(dtype, (6,), (5,), tokens, seed, base=7).drafted(how, seed)
    check(layer.spoil(spoil, seed), SETTINGS[name], steps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("level", [4, 9])
def test_a_perfect_draft_costs_nothing(dtype, level):
    layer = Layer(dtype, (32, 32), (32, 32), 300, base=64)
    if dtype == "F32":
        for x in layer.streams:
            x &= 0xFFFF0000
    layer.drafted("exact")
    assert size(layer, drafted(LEVELS[level], DTYPES[dtype])) < 0.1 + 24 * 8 / (300 * 128)


def test_a_draft_helps():
    layer = Layer(keys=(32,), values=(32,), tokens=300)
    alone = size(layer, SETTINGS["alone"])
    assert size(layer.drafted(), SETTINGS["alone"]) < 0.75 * alone
    assert size(layer.drafted("first"), SETTINGS["alone"]) < 0.75 * alone


def test_intervals_teach_more_than_values():
    layer = Layer("F8_E4M3", (32,), (32,), 400).drafted()
    assert size(layer, Settings(coarse=True)) < 0.97 * size(layer, Settings())


def test_a_draft_that_was_exact_in_some_columns():
    """Nothing is known of their residuals when columns are normalised."""
    layer = Layer(keys=(32,), values=(32,), tokens=300).drafted()
    near = size(layer)
    for x, y in zip(layer.draft, layer.numbers(), strict=True):
        x[:40, ::2] = y[:40, ::2]
    assert size(layer) < 1.1 * near


@pytest.mark.parametrize("tokens", [20, 150])
@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
def test_a_draft_that_was_exact_at_first(dtype, tokens):
    layer = Layer(dtype, (32,), (32,), 300).drafted()
    chosen = drafted(SETTINGS["alone"], DTYPES[dtype])
    near = size(layer, chosen)
    for x, y in zip(layer.draft, layer.numbers(), strict=True):
        x[:tokens] = y[:tokens]
    assert size(layer, chosen) < 1.1 * near


def test_without_a_draft_nothing_changed():
    """Payloads, columns and what junk decodes to are those of the coder before there were drafts."""
    lines = [line for line in digests() if not line.startswith(("coarse", "parts"))]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == WITHOUT


def test_a_draft_of_nothing_changes_little():
    layer = Layer(tokens=100)
    (none,) = encoded(layer, SETTINGS["two"])
    layer.draft = [np.zeros(x.shape, np.float32) for x in layer.streams]
    (zeros,) = encoded(layer, SETTINGS["two"])
    assert abs(len(zeros) - len(none)) < 0.01 * len(none)


@pytest.mark.parametrize("name", ["two", "coarse"])
def test_both_sides_end_alike(name):
    layer = Layer("F8_E4M3", (20,), (9,), 70, base=40).drafted()
    one, two = layer.coder(SETTINGS[name]), layer.coder(SETTINGS[name])
    for streams, *around in layer.blocks((33,)):
        two.decode(one.encode(streams, *around), len(streams[0]), *around)
    for left, right in zip(one._coders, two._coders, strict=True):
        for part in ("one", "two", "cols", "memory"):
            for field, mine, other in zip(
                getattr(left, part)._fields, getattr(left, part), getattr(right, part), strict=True
            ):
                np.testing.assert_array_equal(mine, other, str((part, field)))
        np.testing.assert_array_equal(left.sym.table, right.sym.table)
        np.testing.assert_array_equal(left.sym.moments, right.sym.moments)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
def test_columns_are_what_the_draft_leaves(dtype):
    layer = Layer(dtype, (33, 16), (16, 16), 80).drafted()
    whole = layer.coder(SETTINGS["alone"]).columns(layer.streams, layer.draft)
    coder = layer.coder(SETTINGS["alone"])
    parts = [coder.columns(streams, draft) for streams, _, _, draft in layer.blocks((30, 1))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    left = np.concatenate(layer.numbers(), axis=1) - np.concatenate(layer.draft, axis=1)
    assert np.square(whole).sum() <= np.square(left).sum() * 1.001
    if dtype == "BF16":
        np.testing.assert_allclose(np.square(whole).sum(1), np.square(left).sum(1), rtol=1e-4)


@pytest.mark.parametrize("how", ["all zeros", "no numbers", "noise"])
def test_columns_of_odd_values(how):
    layer = Layer("F8_E4M3", (33, 16), (16, 16), 80).spoil(how).drafted("junk")
    assert np.isfinite(layer.coder(SETTINGS["alone"]).columns(layer.streams, layer.draft)).all()


@pytest.mark.parametrize("how", ["near", "bits"])
def test_noise_decodes_to_something(how):
    layer = Layer("F8_E4M3", (18,), (7,), 40, base=20).drafted(how)
    (whole,) = layer.blocks()
    for seed in range(3):
        restored = layer.coder(SETTINGS["coarse"]).decode(junk(layer, seed), 40, *whole[1:])
        assert [x.shape for x in restored] == [x.shape for x in layer.streams]


def test_records():
    """Every setting is in a record, whatever it is."""
    plain = Unit(0, 1, 0, 0, 1, 0, (), SETTINGS["alone"])
    coarse = Unit(0, 1, 0, 0, 1, 0, (), drafted(SETTINGS["alone"], DTYPES["F8_E4M3"]))
    assert len(coarse.to_bytes()) == len(plain.to_bytes())
    for unit in (plain, coarse):
        assert Unit.from_bytes(memoryview(unit.to_bytes()), "") == unit


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TYPES)
def test_settings_are_within_bounds(dtype, level):
    chosen = drafted(LEVELS[level], DTYPES[dtype])
    assert chosen.bounded() == chosen
