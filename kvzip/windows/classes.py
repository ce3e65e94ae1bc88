"""Channel classes: which channels of a stream share a window.

The encoder clusters the channels of a stream by their histograms over a sample of tokens (Lloyd's algorithm with the
code length as distance, started from the order of the channels' mean symbols) and writes the map into the block that
starts the stream. Integers only, so the bytes do not depend on the machine. Four classes found so cost 0.06 bits a
value less than four classes cut by mean exponent (measured on SmolLM2 dumps).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import peek, poke
from kvzip.windows.lengths import log2_of

ROUNDS = 5
SAMPLE_TOKENS = 128  # at least, and below twice as many


@borrowing
def histogram(symbols, begin, tokens, channels, stride, counts, dense, alphabet):  # type: ignore[no-untyped-def]
    """Every ``stride``-th token's symbols per channel, into flat ``dense`` (channels, n) int32 and ``alphabet``, the
    n symbols that occur; return n. ``counts`` (channels * 256) int32 is room to work in."""
    for i in range(channels << 8):
        poke(counts, i, 0)
    for t in range(0, tokens, stride):
        row = begin + t * channels
        for c in range(channels):
            s = (c << 8) + np.int64(peek(symbols, row + c))
            poke(counts, s, peek(counts, s) + 1)
    for s in range(256):  # for now ``dense`` has the sums of all channels
        poke(dense, s, 0)
    for c in range(channels):
        for s in range(256):
            poke(dense, s, peek(dense, s) + peek(counts, (c << 8) + s))
    n = np.int64(0)
    for s in range(256):
        if peek(dense, s) > 0:
            poke(alphabet, n, s)
            n += 1
    for c in range(channels):
        for j in range(n):
            poke(dense, c * n + j, peek(counts, (c << 8) + peek(alphabet, j)))
    return n


@borrowing
def start(counts, n, alphabet, classes, mean, labels):  # type: ignore[no-untyped-def]
    """Label the channels in equal shares, in the order of their mean symbol (in 1/256), made in ``mean``."""
    channels = len(labels)
    for c in range(channels):
        total = np.int64(0)
        weighted = np.int64(0)
        for j in range(n):
            count = np.int64(peek(counts, c * n + j))
            total += count
            weighted += count * alphabet[j]
        mean[c] = (weighted << 8) // max(np.int64(1), total)
    for c in range(channels):
        rank = np.int64(0)
        for d in range(channels):
            rank += np.int64(mean[d] < mean[c] or (mean[d] == mean[c] and d < c))
        labels[c] = rank * classes // channels


@borrowing
def measure(counts, n, labels, classes, fraction, lengths):  # type: ignore[no-untyped-def]
    """Code length in 1/256 bit of each symbol in each class, of counts of 16 for each occurrence and 1 for none."""
    for i in range(classes * n):
        poke(lengths, i, 1)
    for c in range(len(labels)):
        k = np.int64(labels[c])
        for j in range(n):
            poke(lengths, k * n + j, peek(lengths, k * n + j) + (peek(counts, c * n + j) << 4))
    for k in range(classes):
        total = np.int64(0)
        for j in range(n):
            total += peek(lengths, k * n + j)
        whole = log2_of(total, fraction)
        for j in range(n):
            poke(lengths, k * n + j, whole - log2_of(np.int64(peek(lengths, k * n + j)), fraction))


@borrowing
def assign(counts, n, classes, lengths, labels):  # type: ignore[no-untyped-def]
    """Give each channel the class in which it takes the fewest bits; return how many moved."""
    moved = 0
    for c in range(len(labels)):
        best = np.int64(-1)
        chosen = np.int64(0)
        for k in range(classes):
            length = np.int32(0)  # below 256 tokens' worth of lengths below 2^13: 32 bits hold it, and vectorise
            for j in range(n):
                term = np.int32(peek(counts, c * n + j) * peek(lengths, k * n + j))
                length = np.int32(length + term)
            if best < 0 or length < best:
                best = np.int64(length)
                chosen = np.int64(k)
        moved += int(labels[c] != chosen)
        labels[c] = chosen
    return moved


@borrowing
def classify(  # type: ignore[no-untyped-def]
    symbols, begin, tokens, channels, classes, fraction, labels, by_class, counts, dense, lengths, alphabet, mean
):
    """Classes of one stream's channels into ``labels`` (channels), and the histograms of the sampled tokens by class
    into ``by_class`` (classes, 256), which starts at zero.

    ``symbols`` is flat, the stream's ``tokens * channels`` begin at ``begin``; ``fraction`` is LOG2_FRACTION;
    what follows ``by_class`` is ``room``.
    """
    stride = max(np.int64(1), tokens // SAMPLE_TOKENS)
    n = histogram(symbols, begin, tokens, channels, stride, counts, dense, alphabet)
    if classes > 1:
        start(dense, n, alphabet, classes, mean, labels)
        for _ in range(ROUNDS):
            measure(dense, n, labels, classes, fraction, lengths)
            if assign(dense, n, classes, lengths, labels) == 0:
                break
    for c in range(channels):
        for j in range(n):
            by_class[labels[c], peek(alphabet, j)] += peek(dense, c * n + j)


def room(channels: int, classes: int) -> tuple[NDArray[Any], ...]:
    """What ``classify`` works in."""
    counts = (channels * 256, channels * 256, classes * 256)
    return *(np.empty(count, np.int32) for count in counts), np.empty(256, np.int64), np.empty(channels, np.int64)
