"""The grid of float types: numbers as the types define them, references at or below predictions, valid contexts."""

from __future__ import annotations

import ml_dtypes
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.coder.lanes import WIDTH
from kvzip.dtypes import DTYPES
from kvzip.predict.grid import K_ABOVE, K_ONE_SIDED, Grid, grid_of, groups_of, pack
from kvzip.predict.model import numbers_of
from kvzip.windows.estimator import CODE_SHIFT

TYPES = {
    "BF16": ml_dtypes.bfloat16,
    "F16": np.float16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
GRIDS = {name: grid_of(DTYPES[name]) for name in TYPES}
FLOATS = some.floats(width=32, allow_nan=False) | some.integers(0, (1 << 32) - 1).map(
    lambda bits: float(np.uint32(bits).view(np.float32))
)


@numba.njit
def packing(mean, variance, energy, grid, lift, out, places):
    m, _, codes, down, offset, normal, _ = grid
    pack(mean, 0, variance, 0, energy, m, down, offset, normal, codes, lift, CODE_SHIFT, out, 0, places, 0)


def packed(grid, mean, variance, energy=1.0):
    """(code, shift, negative, two-sided, context) of sixteen lanes."""
    out, places = np.zeros(WIDTH, np.int32), np.zeros(WIDTH, np.int32)
    lift = np.float32(2.0 ** min(60, grid.bias - 1 + grid.mantissa))
    mean, variance = np.asarray(mean, np.float32), np.asarray(variance, np.float32)
    packing(mean, variance, np.float32(energy), tuple(grid.vector().tolist()), lift, out, places)
    assert np.array_equal(out >> 22 << CODE_SHIFT, places)
    return out & 0xFFFF, out >> 16 & 15, out >> 20 & 1, out >> 21 & 1, out >> 22


def test_which_types_are_predicted():
    found = {name for name, dtype in DTYPES.items() if grid_of(dtype) is not None}
    assert found == {*TYPES, "F32"}
    assert grid_of(DTYPES["F32"]) == GRIDS["BF16"]


@pytest.mark.parametrize("name", TYPES)
def test_bits_stand_for_the_numbers_of_the_type(name):
    grid = GRIDS[name]
    bits = np.arange(1 << grid.bits).astype(f"<u{grid.bits // 8}")
    with np.errstate(invalid="ignore"):
        numbers = bits.view(TYPES[name]).astype(np.float64)
    usual = np.isfinite(numbers) & (abs(numbers) < 2.0**60)
    with np.errstate(over="ignore"):
        expected = np.where(usual, numbers, 0).astype(np.float32)
    found = numbers_of(bits, grid)
    assert np.array_equal(found[usual], expected[usual])
    assert np.isfinite(found).all()
    assert abs(found).max() < 2.0**60


@settings(max_examples=150, deadline=None)
@given(some.data())
def test_whatever_is_predicted_the_context_is_one_of_the_grids(data):
    grid = GRIDS[data.draw(some.sampled_from(list(GRIDS)))]
    mean = data.draw(some.lists(FLOATS, min_size=WIDTH, max_size=WIDTH))
    variance = data.draw(some.lists(FLOATS, min_size=WIDTH, max_size=WIDTH))
    code, shift, _, _, context = packed(grid, mean, variance, data.draw(some.floats(2.0**-9, 2.0**9, width=32)))
    assert ((context >= 0) & (context < grid.contexts)).all()
    assert ((code >= 0) & (code < 1 << (grid.bits - 1))).all()
    assert ((shift >= 0) & (shift < max(1, grid.mantissa))).all()


@pytest.mark.parametrize("name", GRIDS)
def test_the_reference_is_the_value_at_or_below(name):
    """Of |mu|, or of sigma where it is greater; |mu| / sigma decides on sides, shift and sign."""
    grid = GRIDS[name]
    usual = numbers_of(np.arange(1 << (grid.bits - 1)).astype(f"<u{grid.bits // 8}"), grid)
    usual = usual[: np.argmax(usual)]  # those that grow with their code
    source = np.random.default_rng(3)
    for _ in range(40):
        least = max(np.log(usual[1]), -40 * np.log(2))  # sigma is at least 2^-50
        size = np.exp(source.uniform(least, np.log(usual[-1]), WIDTH)).astype(np.float32)
        mean = (size * source.choice([-1, 1], WIDTH)).astype(np.float32)
        for ratio in (0.01, 0.2, 0.9):
            code, shift, negative, two, _ = packed(grid, mean, (ratio * size.astype(np.float64)) ** 2)
            assert np.array_equal(code, np.searchsorted(usual, size, "right") - 1)
            assert np.array_equal(negative, mean < 0)
            assert (two == (ratio > 2**-1.5)).all()
            steps = np.ldexp(ratio * size, grid.mantissa) / 2 ** np.floor(np.log2(size))  # sigma in steps of size
            assert (np.ldexp(1.0, shift) <= np.maximum(1.0, steps)).all()


def test_classes_grow_with_the_share_of_the_mean():
    grid = GRIDS["BF16"]
    ratios = np.ldexp(1.0, np.arange(-3, 13))
    *_, context = packed(grid, ratios, np.ones(WIDTH))
    assert (np.diff(context) >= 0).all()
    assert context[0] == 0
    assert context[-1] // 4 >= (grid.contexts - 5) // 4
    assert 2 * grid.mantissa + 1 + K_ABOVE > K_ONE_SIDED


@given(some.integers(1, 300), some.data())
def test_groups_cover_every_channel_once(channels, data):
    pairs = data.draw(some.integers(0, channels // 2))
    groups, padded = groups_of(channels, pairs)
    covered = [at + i for _, at, count in groups.tolist() for i in range(count)]
    assert covered == list(range(channels))
    assert [place for place, _, _ in groups.tolist()] == list(range(0, padded, WIDTH))
    firsts = -(-pairs // WIDTH)
    assert groups[firsts : 2 * firsts, 1].tolist() == [pairs + at for at in groups[:firsts, 1].tolist()]


def test_grids_are_those_of_ieee_but_for_fnuz():
    assert [GRIDS[n].bias for n in ("BF16", "F16", "F8_E4M3", "F8_E5M2")] == [127, 15, 7, 15]
    assert [GRIDS[n].bias for n in ("F8_E4M3FNUZ", "F8_E5M2FNUZ")] == [8, 16]
    assert Grid(7, 8, 127).contexts == 17 + 44
