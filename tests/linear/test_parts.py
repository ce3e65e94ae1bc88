"""The parts by themselves: alphabets, columns, distributions, tiles, lanes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kvzip.dtypes import DTYPES
from kvzip.linear import panel
from kvzip.linear.columns import make_groups
from kvzip.linear.group import _floats
from kvzip.linear.quantile import CELLS, COUNT_ROW, COUNTS, INVERSE_ROW, ROW, adapt, invert, start_table
from kvzip.linear.range64 import TOTAL, encode_symbols
from kvzip.linear.symbols import alphabet, arrange, choose_scale, restore

from .made import TYPES, rope

KNOWN = {"F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F16": np.float16,
         "BF16": ml_dtypes.bfloat16}  # fmt: skip


def every(dtype):
    """All patterns of a type's modelled bits, and their ordered integers."""
    row = DTYPES[dtype]
    width = min(16, row.bits)
    patterns = np.arange(1 << width).astype(f"u{row.bits // 8}") << np.array(row.bits - width, f"u{row.bits // 8}")
    ks = np.empty((1 << width, 1), np.uint16)
    arrange(patterns[:, None], row.bits - width, 1 << (width - 1), np.zeros(1, np.int64), 0, ks)
    return patterns, ks


@pytest.mark.parametrize("dtype", TYPES)
def test_ordered_integers(dtype):
    patterns, ks = every(dtype)
    assert sorted(ks[:, 0]) == list(range(len(ks)))
    back = np.empty((len(ks), 1), patterns.dtype)
    restore(ks, alphabet(DTYPES[dtype], 0).raw, len(ks) // 2, np.zeros(1, np.int64), 0, back)
    np.testing.assert_array_equal(back[:, 0], patterns)


@pytest.mark.parametrize("scale", [0, -100, 110])
@pytest.mark.parametrize("dtype", KNOWN)
def test_values(dtype, scale):
    patterns, ks = every(dtype)
    with np.errstate(all="ignore"):
        true = np.ldexp(patterns.view(KNOWN[dtype]).astype(np.float64), scale)
        true[~(abs(true) <= 1e18)] = np.nan
    np.testing.assert_array_equal(alphabet(DTYPES[dtype], scale).values[ks[:, 0]], true.astype(np.float32))


@pytest.mark.parametrize("scale", [0, -100, 110])
@pytest.mark.parametrize("dtype", TYPES)
def test_borders_lie_between_values(dtype, scale):
    letters = alphabet(DTYPES[dtype], scale)
    assert (np.diff(letters.edges) >= 0).all()
    number = ~np.isnan(letters.values)
    assert (letters.edges[:-1][number] <= letters.values[number]).all()
    assert (letters.values[number] <= letters.edges[1:][number]).all()
    np.testing.assert_array_equal(letters.edges, -letters.edges[::-1])


def test_scales():
    ones = np.full((100, 4), 0x3F80, np.uint16)
    assert choose_scale(ones, DTYPES["BF16"]) == (0, 1)
    assert choose_scale(np.full((100, 4), 0x7F00, np.uint16), DTYPES["BF16"]) == (-120, 0)
    assert choose_scale(np.full((100, 4), 0x0080, np.uint16), DTYPES["BF16"]) == (120, 0)
    assert choose_scale(np.full((100, 4), 0x7FC0, np.uint16), DTYPES["BF16"]) == (0, 0)


def test_every_channel_has_one_column():
    kinds = ["key", "value", "key", "key", "value"]
    channels = [40, 33, 200, 17, 600]
    ropes = [rope(40), None, rope(200), None, None]
    groups = make_groups(kinds, channels, ropes)
    seen = np.concatenate([group.source[group.source >= 0] for group in groups])
    assert sorted(seen) == list(range(sum(channels)))
    assert len(groups) == 3  # the second head is too wide for company
    for group in groups:
        assert len(group.source) % 16 == 0
        assert len(group.kinds) * 16 == len(group.source)
        for column, channel in enumerate(group.source):
            assert channel < 0 or group.column_of[channel] == column
        counts = 2 * group.kinds[:, 0] + group.kinds[:, 1]
        for block, count in enumerate(counts):
            assert ((group.source[16 * block : 16 * block + 16] >= 0) == (np.arange(16) < count)).all()


def sound(table, top):
    return table[0] == 0 and (table[CELLS:] == top).all() and (np.diff(table.astype(np.int64)) >= 0).all()


@pytest.mark.parametrize("symbols", [1 << 8, 1 << 16])
def test_distributions_adapt(symbols):
    top = TOTAL - symbols
    table = start_table(symbols)
    assert sound(table, top)
    counts = np.zeros(2 * COUNT_ROW, np.int64)
    counts[:COUNT_ROW] = 1 << 16
    counts[32:48] = 1 << 22
    before = table.astype(np.int64).copy()
    adapt(table, 0, counts, 0, np.zeros(COUNT_ROW, np.int64), top)
    assert sound(table, top)
    low, high = np.searchsorted(before, 32 << 24), np.searchsorted(before, 48 << 24)
    share = (int(table[high]) - int(table[low])) / top
    assert abs(share - 16 * 64 / (16 * 64 + 112)) < 0.1
    assert (counts[:COUNTS] == counts[0]).all()
    for _ in range(50):  # nothing but one cell: frequencies vanish elsewhere
        counts[COUNTS - 1] += 1 << 30
        adapt(table, 0, counts, 0, np.zeros(COUNT_ROW, np.int64), top)
        assert sound(table, top)
    inverse = np.zeros(INVERSE_ROW, np.float32)
    invert(table, 0, inverse, 0)
    assert (np.diff(inverse) >= 0).all()
    assert len(table) == ROW


@pytest.mark.parametrize("tiles", [0, 1, 3])
def test_tiles_equal_their_slow_twins(tiles):
    rng = np.random.default_rng(tiles)
    rows = rng.normal(size=6 * 256).astype(np.float32)
    rows[rng.integers(0, len(rows), 9)] = (np.nan, np.inf, -np.inf, 0, -0.0, 1e38, -1e38, 1e-40, 1e-45)
    arrays = []
    for fast in (True, False):
        lower, x, p, y = _floats(1536), _floats(64), _floats(64), _floats(16)
        e, g, n = _floats(16), _floats(16), _floats(16)
        lower[:] = rows
        for seed, array in enumerate((x, p, y, e, g, n)):
            array[:] = np.random.default_rng(seed).normal(size=len(array))
        kernels = (panel.known16, panel.panel16) if fast else (panel._slow_known, panel._slow_panel)
        with np.errstate(all="ignore"):
            if fast:
                run_tiles(lower, x, p, e, g, n, y, tiles)
            else:
                kernels[0](lower, 0, x, 0, p, 0, e, 0, g, 0, n, 0, y, 0)
                kernels[1](lower, 256, x, 16, p, 16, e, 0, g, 0, n, 0, tiles)
        arrays.append([array.copy() for array in (lower, x, p, n)])
    for fast, slow in zip(*arrays, strict=True):
        np.testing.assert_array_equal(fast, slow)


@panel.kernel
def run_tiles(lower, x, p, e, g, n, y, tiles):
    panel.known16(lower, 0, x, 0, p, 0, e, 0, g, 0, n, 0, y, 0)
    panel.panel16(lower, 256, x, 16, p, 16, e, 0, g, 0, n, 0, tiles)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1000])
def test_lanes(count):
    rng = np.random.default_rng(count)
    freqs = np.exp(rng.uniform(0, np.log(TOTAL), count)).astype(np.uint32)
    starts = (rng.random(count) * (TOTAL - freqs.astype(np.int64) + 1)).astype(np.uint32)
    words = np.empty(count + 4, np.uint32)
    at = int(encode_symbols(starts, freqs, count, words))
    a, b, c, d, *rest = (int(word) for word in words[at:])
    states = [a | b << 32, c | d << 32]
    for i in range(count):
        x = states[i % 2]
        slot = x % TOTAL
        assert starts[i] <= slot < int(starts[i]) + int(freqs[i])
        x = int(freqs[i]) * (x >> 31) + slot - int(starts[i])
        states[i % 2] = x << 32 | rest.pop(0) if x < TOTAL else x
    assert states == [TOTAL, TOTAL]
    assert not rest
    cost = np.sum(31 - np.log2(np.maximum(freqs, 1))) / 32
    assert len(words) - at <= 4 + cost + 0.001 * count + 1
