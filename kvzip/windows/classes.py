"""Channel classes: which channels of a stream share a window.

The encoder clusters the channels of a stream by their histograms over a sample of tokens (Lloyd's algorithm with the
code length as distance, started from the order of the channels' mean symbols) and writes the map into the block that
starts the stream. Integers only, so the bytes do not depend on the machine. Four classes found so cost 0.06 bits a
value less than four classes cut by mean exponent (measured on SmolLM2 dumps).
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, kernel
from kvzip.coder.memory import peek, pointer_of, poke
from kvzip.windows.lengths import log2_of

ROUNDS = 5
SAMPLE_TOKENS = 128  # at least, and below twice as many


@kernel
def histogram(symbols, begin, tokens, channels, stride):  # type: ignore[no-untyped-def]
    """Every ``stride``-th token's symbols per channel: counts (channels, n) int32 and the n symbols that occur."""
    counts = np.zeros((channels, 256), np.int32)
    flat = pointer_of(counts)
    for t in range(0, tokens, stride):
        row = begin + t * channels
        for c in range(channels):
            s = (c << 8) + np.int64(peek(symbols, row + c))
            poke(flat, s, peek(flat, s) + 1)
    totals = np.zeros(256, np.int32)
    for c in range(channels):
        for s in range(256):
            poke(totals, s, peek(totals, s) + peek(flat, (c << 8) + s))
    alphabet = np.zeros(256, np.int64)
    n = 0
    for s in range(256):
        if totals[s] > 0:
            alphabet[n] = s
            n += 1
    dense = np.zeros((channels, n), np.int32)
    for c in range(channels):
        for j in range(n):
            dense[c, j] = counts[c, alphabet[j]]
    return dense, alphabet[:n]


@kernel
def start(counts, alphabet, classes, labels):  # type: ignore[no-untyped-def]
    """Label the channels in equal shares, in the order of their mean symbol (in 1/256)."""
    channels = len(labels)
    mean = np.zeros(channels, np.int64)
    for c in range(channels):
        total = np.int64(0)
        weighted = np.int64(0)
        for j in range(len(alphabet)):
            total += counts[c, j]
            weighted += counts[c, j] * alphabet[j]
        mean[c] = (weighted << 8) // max(np.int64(1), total)
    for c in range(channels):
        rank = np.int64(0)
        for d in range(channels):
            rank += np.int64(mean[d] < mean[c] or (mean[d] == mean[c] and d < c))
        labels[c] = rank * classes // channels


@borrowing
def measure(counts, labels, classes, fraction, lengths):  # type: ignore[no-untyped-def]
    """Code length in 1/256 bit of each symbol in each class, of counts of 16 for each occurrence and 1 for none."""
    n = counts.shape[1]
    for k in range(classes):
        for j in range(n):
            lengths[k, j] = 1
    for c in range(len(labels)):
        k = np.int64(labels[c])
        for j in range(n):
            lengths[k, j] += counts[c, j] << 4
    for k in range(classes):
        total = np.int64(0)
        for j in range(n):
            total += lengths[k, j]
        whole = log2_of(total, fraction)
        for j in range(n):
            lengths[k, j] = whole - log2_of(np.int64(lengths[k, j]), fraction)


@borrowing
def assign(counts, classes, lengths, labels):  # type: ignore[no-untyped-def]
    """Give each channel the class in which it takes the fewest bits; return how many moved."""
    n = counts.shape[1]
    flat_counts = pointer_of(counts)
    flat_lengths = pointer_of(lengths)
    moved = 0
    for c in range(len(labels)):
        best = np.int64(-1)
        chosen = np.int64(0)
        for k in range(classes):
            length = np.int32(0)  # below 256 tokens' worth of lengths below 2^13: 32 bits hold it, and vectorise
            for j in range(n):
                term = np.int32(peek(flat_counts, c * n + j) * peek(flat_lengths, k * n + j))
                length = np.int32(length + term)
            if best < 0 or length < best:
                best = np.int64(length)
                chosen = np.int64(k)
        moved += int(labels[c] != chosen)
        labels[c] = chosen
    return moved


@kernel
def classify(symbols, begin, tokens, channels, classes, fraction, labels, by_class):  # type: ignore[no-untyped-def]
    """Classes of one stream's channels into ``labels`` (channels), and the histograms of the sampled tokens by class
    into ``by_class`` (classes, 256), which starts at zero.

    ``symbols`` is flat, the stream's ``tokens * channels`` begin at ``begin``; ``fraction`` is LOG2_FRACTION.
    """
    counts, alphabet = histogram(symbols, begin, tokens, channels, max(np.int64(1), tokens // SAMPLE_TOKENS))
    if classes > 1:
        lengths = np.zeros((classes, len(alphabet)), np.int32)
        start(counts, alphabet, classes, labels)
        for _ in range(ROUNDS):
            measure(counts, labels, classes, fraction, lengths)
            if assign(counts, classes, lengths, labels) == 0:
                break
    for c in range(channels):
        for j in range(len(alphabet)):
            by_class[labels[c], alphabet[j]] += counts[c, j]
