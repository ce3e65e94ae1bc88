"""The entropy coder: equal to its pure-Python twin, bounds of its length, what it carries for nothing."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.coder import rans

FLOOR = 1 << 16


def slow_encode(intervals, lanes_log2, bits, starts):
    """Final states and words of (start, freq) pairs; lane i mod lanes, last symbol first."""
    states, words = list(starts), []
    for i in reversed(range(len(intervals))):
        start, freq = intervals[i]
        lane = i % (1 << lanes_log2)
        x = states[lane]
        if x >= freq << (32 - bits):
            words.append(x & 0xFFFF)
            x >>= 16
        states[lane] = (x // freq << bits) + start + x % freq
    return states, words[::-1]


def slow_decode(count, freqs, lanes_log2, bits, states, words):
    """The symbols of a run with one table of frequencies, the states at the end, the words left over."""
    starts = np.concatenate([[0], np.cumsum(freqs)]).tolist()
    states, words, symbols = list(states), list(words), []
    for i in range(count):
        lane = i % (1 << lanes_log2)
        x = states[lane]
        slot = x & ((1 << bits) - 1)
        s = max(k for k in range(len(freqs)) if starts[k] <= slot and freqs[k])
        x = freqs[s] * (x >> bits) + slot - starts[s]
        if x < FLOOR:
            x = x << 16 | words.pop(0)
        states[lane] = x
        symbols.append(s)
    return symbols, states, words


def encode(intervals, lanes_log2, bits, starts):
    codes = np.array([start << 16 | freq for start, freq in intervals], np.uint32)
    states = np.array(starts, np.uint64)
    words = np.empty(len(codes) + rans.SPARE_WORDS, np.uint16)
    first = rans.encode_lanes(codes, len(codes), lanes_log2, bits, rans.reciprocals(bits), states, words)
    return states.tolist(), words[first:].tolist()


@settings(max_examples=60, deadline=None)
@given(some.data())
def test_rows_of_symbols_and_low_bits_equal_their_twin(data):
    """Each group: its codes, then its lows; both of value i on lane i mod lanes."""
    bits, lanes_log2 = data.draw(some.integers(10, 15)), data.draw(some.integers(0, rans.MAX_LANES_LOG2))
    sizes = data.draw(some.lists(some.sampled_from([1, 3, 15, 16, 16]), max_size=20))
    edges = np.cumsum([0, *sizes])
    count = int(edges[-1])
    source = np.random.default_rng(data.draw(some.integers(0, 1 << 30)))
    freqs = source.integers(1, (1 << bits) + 1, (2, count)) >> source.integers(0, bits + 1, (2, count))
    freqs = np.maximum(freqs, 1)
    freqs[1] = 1 << source.integers(0, bits + 1, count)
    starts = source.integers(0, (1 << bits) - freqs + 1)
    codes, lows = (starts << 16 | freqs).astype(np.uint32)
    begin = (FLOOR + source.integers(0, FLOOR, 1 << lanes_log2)).tolist()
    order = [(i, part) for first, stop in pairwise(edges.tolist()) for part in (0, 1) for i in range(first, stop)]
    expected, words = list(begin), []
    for i, part in reversed(order):
        start, freq, lane = int(starts[part, i]), int(freqs[part, i]), i % (1 << lanes_log2)
        (state,), more = slow_encode([(start, freq)], 0, bits, [expected[lane]])
        expected[lane] = state
        words = more + words
    states, out = np.array(begin, np.uint32), np.empty(2 * count + rans.SPARE_WORDS, np.uint16)
    codes, lows = np.append(codes, np.zeros(16, np.uint32)), np.append(lows, np.zeros(16, np.uint32))
    first = rans.encode_groups(codes, lows, edges, lanes_log2, bits, rans.reciprocals(bits), states, out)
    assert (states.tolist(), out[first:].tolist()) == (expected, words)


@some.composite
def runs(draw):
    """Table bits, lanes, frequencies with some zeros, symbols that have one, and what the lanes carry."""
    bits = draw(some.integers(1, 15))
    lanes_log2 = draw(some.integers(0, 3))
    cuts = draw(some.lists(some.integers(0, 1 << bits), max_size=8))
    edges = [0, *sorted(cuts), 1 << bits]
    freqs = [b - a for a, b in pairwise(edges)]
    usable = [s for s, freq in enumerate(freqs) if freq]
    symbols = draw(some.lists(some.sampled_from(usable), max_size=60))
    carried = draw(some.lists(some.integers(0, 0xFFFF), min_size=1 << lanes_log2, max_size=1 << lanes_log2))
    return bits, lanes_log2, freqs, symbols, carried


@settings(max_examples=150, deadline=None)
@given(runs())
def test_the_kernel_equals_its_twin_and_decodes(run):
    bits, lanes_log2, freqs, symbols, carried = run
    starts = np.concatenate([[0], np.cumsum(freqs)]).tolist()
    intervals = [(starts[s], freqs[s]) for s in symbols]
    begin = [FLOOR + c for c in carried]
    states, words = encode(intervals, lanes_log2, bits, begin)
    assert (states, words) == slow_encode(intervals, lanes_log2, bits, begin)
    assert all(FLOOR <= x < 1 << 32 for x in states)
    decoded, end, left = slow_decode(len(symbols), freqs, lanes_log2, bits, states, words)
    assert decoded == symbols
    assert end == begin  # what the lanes carried comes out, and every word was used
    assert left == []


@pytest.mark.parametrize("bits", range(1, rans.MAX_TABLE_BITS + 1))
def test_reciprocals_divide_exactly_up_to_the_bound(bits):
    table = rans.reciprocals(bits)
    for freq in {1, 2, 3, 5, 7, (1 << bits) - 1, 1 << bits, (1 << bits) // 3 + 1} & set(range(1, (1 << bits) + 1)):
        top = (freq << (32 - bits)) - 1
        for x in {0, 1, freq - 1, freq, top, top - 1, top - top % freq, top - top % freq - 1, top // 2}:
            product = x * int(table[freq])
            assert product < 1 << 64
            assert product >> (32 + bits) == x // freq


@pytest.mark.parametrize("freqs", [[2048, 2048], [4000, 90, 5, 1], [16] * 256, [4095, 1]])
@pytest.mark.parametrize("lanes_log2", [0, 3])
def test_the_length_is_the_models(freqs, lanes_log2):
    """Within 0.01 % of the sum of -log2 p and 4 bytes a lane."""
    bits = 12
    source = np.random.default_rng(1)
    starts = np.concatenate([[0], np.cumsum(freqs)])
    symbols = source.choice(len(freqs), 50_000, p=np.array(freqs) / (1 << bits))
    _, words = encode([(int(starts[s]), freqs[s]) for s in symbols], lanes_log2, bits, [FLOOR] * (1 << lanes_log2))
    ideal = sum(-math.log2(freqs[s] / (1 << bits)) for s in symbols) / 8
    assert ideal - 4 * (1 << lanes_log2) <= 2 * len(words) <= ideal * 1.0001 + 4 * (1 << lanes_log2)


def test_certain_symbols_cost_nothing():
    states, words = encode([(0, 4096)] * 1000, 0, 12, [FLOOR + 5])
    assert (states, words) == ([FLOOR + 5], [])


def test_lanes_grow_with_the_run():
    lanes = [rans.lanes_log2(n) for n in (0, 1, 1023, 1024, 2047, 2048, 131072, 1 << 30)]
    assert lanes == [0, 0, 0, 0, 0, 1, 7, rans.MAX_LANES_LOG2]
