"""Channel classes: equal to a slow twin, what the histograms hold, that they separate what differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.windows.classes import ROUNDS, SAMPLE_TOKENS, classify, room
from kvzip.windows.lengths import LOG2_FRACTION


def log2(n):
    """1/256 bits, as the kernels have it."""
    e = n.bit_length() - 1
    return (e << 8) + int(LOG2_FRACTION[((n << 8) >> e) & 255])


def slow(rows, classes):
    """Labels of channels by Lloyd's algorithm, from the order of mean symbols, the code length as distance."""
    sample = rows[:: max(1, len(rows) // SAMPLE_TOKENS)]
    channels = rows.shape[1]
    counts = [[int((sample[:, c] == s).sum()) for s in range(256)] for c in range(channels)]
    alphabet = [s for s in range(256) if any(row[s] for row in counts)]
    means = [(sum(n * s for s, n in enumerate(row)) * 256 // max(1, sum(row)), c) for c, row in enumerate(counts)]
    ranks = {c: rank for rank, (_, c) in enumerate(sorted(means))}
    labels = [ranks[c] * classes // channels for c in range(channels)]
    for _ in range(ROUNDS if classes > 1 else 0):
        lengths = []
        for k in range(classes):
            mass = {s: 1 + 16 * sum(counts[c][s] for c in range(channels) if labels[c] == k) for s in alphabet}
            lengths.append({s: log2(sum(mass.values())) - log2(mass[s]) for s in alphabet})
        costs = [[sum(row[s] * length[s] for s in alphabet) for length in lengths] for row in counts]
        new = [row.index(min(row)) for row in costs]
        if new == labels:
            break
        labels = new
    by_class = np.zeros((classes, 256), np.int64)
    for c in range(channels):
        by_class[labels[c]] += counts[c]
    return labels, by_class


def found(rows, classes):
    labels, by_class = np.zeros(rows.shape[1], np.uint8), np.zeros((classes, 256), np.int64)
    symbols = np.concatenate([np.full(5, 9, np.uint8), rows.reshape(-1)])
    classify(symbols, 5, *rows.shape, classes, LOG2_FRACTION, labels, by_class, *room(rows.shape[1], classes))
    return labels, by_class


def check(rows, classes):
    labels, by_class = found(rows, classes)
    expected, histograms = slow(rows, classes)
    assert labels.tolist() == expected
    assert np.array_equal(by_class, histograms)
    return labels


@settings(max_examples=40, deadline=None)
@given(some.data())
def test_the_kernel_equals_its_twin(data):
    tokens, channels = data.draw(some.integers(0, 20)), data.draw(some.integers(1, 9))
    top = data.draw(some.sampled_from([1, 4, 255]))
    count = tokens * channels
    flat = data.draw(some.lists(some.integers(0, top), min_size=count, max_size=count))
    check(np.array(flat, np.uint8).reshape(tokens, channels), data.draw(some.sampled_from([1, 2, 4, 16])))


@pytest.mark.parametrize("classes", [1, 2, 8])
def test_the_kernel_equals_its_twin_on_a_cache(classes):
    rng = np.random.default_rng(0)
    rows = np.clip(rng.normal(120, 2, (300, 24)) + rng.normal(0, 4, 24), 0, 255).astype(np.uint8)
    check(rows, classes)


def test_channels_that_differ_part():
    rng = np.random.default_rng(1)
    rows = np.stack([rng.integers(10 * (c % 4), 10 * (c % 4) + 4, 100) for c in range(16)], 1).astype(np.uint8)
    labels = check(rows, 4)
    assert all(len({labels[c] for c in range(k, 16, 4)}) == 1 for k in range(4))
    assert len(set(labels.tolist())) == 4


def test_long_streams_are_sampled():
    rows = np.full((SAMPLE_TOKENS * 10, 3), 7, np.uint8)
    _, by_class = found(rows, 2)
    assert SAMPLE_TOKENS * 3 <= by_class.sum() < 2 * SAMPLE_TOKENS * 3
