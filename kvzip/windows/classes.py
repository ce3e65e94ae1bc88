"""Channel classes: which channels of a stream share a window.

The encoder clusters the channels of a stream by their histograms over a sample of tokens (Lloyd's algorithm with the
code length as distance, started from the order of the channels' mean symbols) and writes the map into the block that
starts the stream. Integers only, so the bytes do not depend on the machine. Four classes found so cost 0.06 bits a
value less than four classes cut by mean exponent (measured on SmolLM2 dumps).
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import kernel
from kvzip.coder.memory import peek, poke
from kvzip.windows.lengths import log2_of

ROUNDS = 5
SAMPLE_TOKENS = 128  # at least, and below twice as many


@kernel
def histogram(symbols, begin, tokens, channels, stride):  # type: ignore[no-untyped-def]
    """Every ``stride``-th token's symbols, below 256 tokens: counts (n, channels) int32 of the n symbols that occur,
    and those."""
    counts = np.zeros(channels << 8, np.uint8)
    for t in range(0, tokens, stride):
        row = begin + t * channels
        for c in range(channels):
            s = (c << 8) + np.int64(peek(symbols, row + c))
            poke(counts, s, peek(counts, s) + np.uint8(1))
    occurs = np.zeros(256, np.uint8)
    for c in range(channels):
        for s in range(256):
            poke(occurs, s, peek(occurs, s) | peek(counts, (c << 8) + s))
    alphabet = np.flatnonzero(occurs)
    dense = np.empty((len(alphabet), channels), np.int32)
    flat = dense.reshape(-1)
    for j in range(len(alphabet)):
        for c in range(channels):
            poke(flat, j * channels + c, peek(counts, (c << 8) + alphabet[j]))
    return dense, alphabet


@kernel
def start(counts, alphabet, classes, labels):  # type: ignore[no-untyped-def]
    """Label the channels in equal shares, in the order of their mean symbol (in 1/256)."""
    channels = len(labels)
    mean = np.zeros(channels, np.int64)
    total = np.zeros(channels, np.int64)
    for j in range(len(alphabet)):
        for c in range(channels):
            total[c] += counts[j, c]
            mean[c] += counts[j, c] * alphabet[j]
    for c in range(channels):
        mean[c] = (mean[c] << 8) // max(np.int64(1), total[c])
    for c in range(channels):
        rank = np.int64(0)
        for d in range(channels):
            rank += np.int64(mean[d] < mean[c] or (mean[d] == mean[c] and d < c))
        labels[c] = rank * classes // channels


@kernel
def measure(mass, fraction, lengths):  # type: ignore[no-untyped-def]
    """Code length in 1/256 bit of each symbol in each class, of counts of 16 for each occurrence and 1 for none;
    ``mass`` (classes, n) says how often it occurs."""
    classes, n = mass.shape
    for k in range(classes):
        total = np.int64(n)
        for j in range(n):
            total += mass[k, j] << 4
        whole = log2_of(total, fraction)
        for j in range(n):
            lengths[k, j] = whole - log2_of(np.int64(1) + (mass[k, j] << 4), fraction)


@kernel
def assign(counts, lengths, labels, mass, cost, least, best):  # type: ignore[no-untyped-def]
    """Give each channel the class in which it takes the fewest bits; return how many moved, with their ``mass``."""
    n, channels = counts.shape
    flat = counts.reshape(-1)
    for k in range(len(lengths)):
        cost[:] = 0
        for j in range(n):
            length = np.int32(lengths[k, j])
            for c in range(channels):  # below 256 tokens' worth of lengths below 2^13: 32 bits hold the sum
                poke(cost, c, np.int32(peek(cost, c) + np.int32(length * peek(flat, j * channels + c))))
        for c in range(channels):
            if k == 0 or cost[c] < least[c]:
                least[c] = cost[c]
                best[c] = k
    moved = 0
    for c in range(channels):
        if labels[c] != best[c]:
            moved += 1
            for j in range(n):
                mass[labels[c], j] -= counts[j, c]
                mass[best[c], j] += counts[j, c]
            labels[c] = best[c]
    return moved


@kernel
def classify(symbols, begin, tokens, channels, classes, fraction, labels, by_class):  # type: ignore[no-untyped-def]
    """Classes of one stream's channels into ``labels`` (channels), and the histograms of the sampled tokens by class
    into ``by_class`` (classes, 256), which starts at zero.

    ``symbols`` is flat, the stream's ``tokens * channels`` begin at ``begin``; ``fraction`` is LOG2_FRACTION.
    """
    counts, alphabet = histogram(symbols, begin, tokens, channels, max(np.int64(1), tokens // SAMPLE_TOKENS))
    n = len(alphabet)
    if classes > 1:
        start(counts, alphabet, classes, labels)
    mass = np.zeros((classes, n), np.int64)
    for j in range(n):
        for c in range(channels):
            mass[labels[c], j] += counts[j, c]
    if classes > 1:
        lengths = np.empty((classes, n), np.int64)
        cost, least, best = np.empty(channels, np.int32), np.empty(channels, np.int32), np.empty(channels, np.uint8)
        for _ in range(ROUNDS):
            measure(mass, fraction, lengths)
            if assign(counts, lengths, labels, mass, cost, least, best) == 0:
                break
    for k in range(classes):
        for j in range(n):
            by_class[k, alphabet[j]] = mass[k, j]
