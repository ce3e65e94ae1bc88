"""The estimator's kernels equal their twins: renormalise, widen, smooth, quantise, rewrite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import twin
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.windows import estimator, lengths
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, WINDOW

ALL = settings(max_examples=100, deadline=None)
CLASS = 3 << CODE_SHIFT


def sparse(top):
    """A window's 257 numbers, most of them zero."""
    return some.dictionaries(some.integers(0, ESCAPE), some.integers(0, top), max_size=12).map(
        lambda found: [found.get(s, 0) for s in range(WINDOW)]
    )


@some.composite
def probabilities(draw):
    """24-bit probabilities that sum to at most 1, as smoothing leaves them, over few or all symbols."""
    counts = draw(some.one_of(sparse(1 << 30), some.lists(some.integers(0, 9), min_size=WINDOW, max_size=WINDOW)))
    for s in draw(some.lists(some.integers(0, ESCAPE), max_size=3)):  # beside which the others are below a slot
        counts[s] += draw(some.integers(0, 5000))
    total = max(1, sum(counts))
    return [n * (1 << 24) // total for n in counts]


def span_of(*rows):
    live = [s for row in rows for s in range(ESCAPE) if row[s]]
    return (min(live), max(live) + 1) if live else (0, 0)


@ALL
@given(some.lists(sparse(1 << 44), min_size=1, max_size=3), some.integers(16, 1 << 34))
def test_renormalise(windows, increment):
    counts = np.array([[0] * WINDOW, *windows], np.int64)
    expected = [list(row) for row in windows]
    found = estimator.renormalise(counts, 1, len(windows), increment)
    assert found == twin.renormalise(expected, increment)
    assert counts[1:].tolist() == expected
    assert found < estimator.INCREMENT_CEILING
    assert int(counts.sum(1).max()) < estimator.TOTAL_CEILING


@ALL
@given(sparse(1 << 30), some.integers(0, 256), some.integers(0, 256))
def test_widen(window, low, high):
    counts = np.array([window], np.int64)
    span = np.array([[low, high]], np.int64)
    assert estimator.widen(counts, 0, span) == sum(window)
    wide = range(*span[0].tolist())
    assert all(s in wide for s in range(ESCAPE) if window[s])
    assert span[0, 0] <= low
    assert span[0, 1] >= high


@ALL
@given(sparse(1 << 29), probabilities(), some.integers(0, 65535))
def test_smooth(counts, probs, beta):
    low, high = span_of(counts, probs)
    kernel = np.array([probs], np.int64)
    estimator.smooth(np.array([counts], np.int64), kernel, 0, low, high, sum(counts), beta)
    assert kernel[0].tolist() == twin.smooth(counts, probs, beta)


def test_the_first_probabilities_are_the_shares():
    counts, probs = np.zeros((1, WINDOW), np.int64), np.zeros((1, WINDOW), np.int64)
    counts[0, 7], counts[0, 9], counts[0, ESCAPE] = 6, 1, 1
    estimator.smooth(counts, probs, 0, 7, 10, 8, 65000)
    assert probs[0, [7, 9, ESCAPE]].tolist() == pytest.approx([0.75 * 2**24, 2**21, 2**21], abs=2)


@ALL
@given(probabilities(), some.integers(10, 14))
def test_quantise(probs, bits):
    low, high = span_of(probs)
    freq = np.full(WINDOW, -1, np.int64)
    estimator.quantise(np.array([probs], np.int64), 0, low, high, bits, freq)
    expected = twin.quantise(probs, bits)
    assert freq[low:high].tolist() == expected[low:high]
    assert freq[ESCAPE] == expected[ESCAPE]
    assert sum(expected) == 1 << bits
    assert expected[ESCAPE] >= 1
    half = 1 << (23 - bits)
    assert all((freq > 0) == (p >= half) for p, freq in zip(probs[:ESCAPE], expected, strict=False))


def test_what_is_missing_comes_from_the_larger_ones_an_eighth_at_a_time():
    """150 symbols of 0.6 slots get a whole one each, which 40 symbols of 2 to 41 slots pay for."""
    slot = 1 << 14
    probs = [6 * slot // 10] * 150 + [freq * slot for freq in range(2, 42)] + [0] * 66 + [70 * slot]
    freq = np.zeros(WINDOW, np.int64)
    estimator.quantise(np.array([probs], np.int64), 0, 0, 190, 10, freq)
    expected = twin.quantise(probs, 10)
    assert freq[:190].tolist() == expected[:190]
    assert freq[ESCAPE] == expected[ESCAPE]
    assert freq.sum() == 1 << 10


@pytest.mark.parametrize("bits", [10, 14])
def test_frequencies_are_near_the_probabilities(bits):
    p = np.exp(-(((np.arange(256) - 99.3) / 9) ** 2))
    probs = np.append((p / p.sum() * 0.999 * (1 << 24)).astype(np.int64), 16777)
    freq = np.zeros(WINDOW, np.int64)
    estimator.quantise(probs[None], 0, 0, 256, bits, freq)
    live = probs > 0
    share, found = probs[live] / (1 << 24), np.maximum(freq[live], 0.5) / (1 << bits)
    assert (share * np.log2(share / found)).sum() < 0.01


class Table:
    """A window's codes and slots, rewritten by the kernel and compared with cumulative sums."""

    def __init__(self, bits):
        self.codes = np.zeros((2, 1 << CODE_SHIFT), np.uint32)
        self.slots = np.full((2, 1 << bits), 0xFFFF, np.uint16)

    def rewrite(self, freqs, low, high, decoding=True):
        return estimator.rewrite(self.codes, self.slots, 1, CLASS, low, high, np.array(freqs), decoding)

    def check(self, freqs):
        starts = twin.cumulative(freqs)
        expected = [start << 16 | freq if freq else 0 for start, freq in zip(starts, freqs, strict=True)]
        assert self.codes[1, :WINDOW].tolist() == expected
        assert self.slots[1].tolist() == [CLASS | s for s, freq in enumerate(freqs) for _ in range(freq)]
        assert not self.codes[0].any()
        assert (self.slots[0] == 0xFFFF).all()


@ALL
@given(some.lists(probabilities(), min_size=1, max_size=5), some.integers(10, 12))
def test_rewriting_again_and_again_gives_the_cumulative(updates, bits):
    """The span only grows, as ``widen`` makes it."""
    table = Table(bits)
    low, high, last = 0, 0, None
    for probs in updates:
        new = span_of(probs)
        low, high = (min(low, new[0]), max(high, new[1])) if high else new
        freqs = twin.quantise(probs, bits)
        assert table.rewrite(freqs, low, high) == int(freqs != last)
        table.check(freqs)
        last = freqs


def test_only_the_changed_span_is_touched():
    freqs = [0] * WINDOW
    freqs[20:30] = [100] * 10
    freqs[ESCAPE] = 24
    table = Table(10)
    table.rewrite(freqs, 20, 30)
    table.check(freqs)
    table.slots[1, :300] = 0xAAAA  # symbols 20, 21, 22 and, from 600, all behind 25
    table.slots[1, 600:] = 0xAAAA
    freqs[23], freqs[25] = 150, 50
    assert table.rewrite(freqs, 20, 30) == 1
    assert (table.slots[1, :300] == 0xAAAA).all()
    assert (table.slots[1, 600:] == 0xAAAA).all()
    assert table.slots[1, 300:600].tolist() == [CLASS | s for s in (23, 24, 25) for _ in range(freqs[s])]
    assert table.rewrite(freqs, 20, 30) == 0


def test_the_encoder_leaves_the_slots_alone():
    table = Table(10)
    freqs = [0] * 256 + [1024]
    freqs[5], freqs[ESCAPE] = 1000, 24
    table.rewrite(freqs, 5, 6, decoding=False)
    assert (table.slots == 0xFFFF).all()
    assert table.codes[1, 5] == 1000


def test_a_window_that_counted_nothing_gets_an_escape():
    table = Table(10)
    table.rewrite([0] * 256 + [1024], 0, 0)
    table.check([0] * 256 + [1024])


@pytest.mark.parametrize("bits", range(10, 15))
def test_code_lengths_are_logarithms(bits):
    table = lengths.code_lengths(bits)
    freq = np.arange(1, (1 << bits) + 1)
    assert np.abs(table[1:] - 256 * (bits - np.log2(freq))).max() <= 2
    assert table[-1] == 0


def test_the_fractions_of_the_logarithm_are_rounded():
    exact = [256 * math.log2(1 + i / 256) for i in range(256)]
    assert np.abs(lengths.LOG2_FRACTION[:256] - exact).max() <= 0.51
