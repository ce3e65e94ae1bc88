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
    """Every ``stride``-th token's symbols, below 256 tokens: flat ``dense`` (n, channels) int32, and ``alphabet``,
    the n symbols that occur; return n. ``counts`` (channels * 256 + 256) uint8 is room to work in."""
    occurs = channels << 8
    for i in range(occurs + 256):
        poke(counts, i, 0)
    for t in range(0, tokens, stride):
        row = begin + t * channels
        for c in range(channels):
            s = (c << 8) + np.int64(peek(symbols, row + c))
            poke(counts, s, peek(counts, s) + np.uint8(1))
    for c in range(channels):
        for s in range(256):
            poke(counts, occurs + s, peek(counts, occurs + s) | peek(counts, (c << 8) + s))
    n = np.int64(0)
    for s in range(256):
        if peek(counts, occurs + s) > 0:
            poke(alphabet, n, s)
            for c in range(channels):
                poke(dense, n * channels + c, peek(counts, (c << 8) + s))
            n += 1
    return n


@borrowing
def start(counts, n, alphabet, classes, mean, total, labels):  # type: ignore[no-untyped-def]
    """Label the channels in equal shares, in the order of their mean symbol (in 1/256), made in ``mean``."""
    channels = len(labels)
    mean[:] = 0
    total[:] = 0
    for j in range(n):
        symbol = peek(alphabet, j)
        for c in range(channels):
            count = np.int64(peek(counts, j * channels + c))
            poke(total, c, peek(total, c) + count)
            poke(mean, c, peek(mean, c) + count * symbol)
    for c in range(channels):
        mean[c] = (mean[c] << 8) // max(np.int64(1), total[c])
    for c in range(channels):
        rank = np.int64(0)
        for d in range(channels):
            rank += np.int64(mean[d] < mean[c] or (mean[d] == mean[c] and d < c))
        labels[c] = rank * classes // channels


@borrowing
def measure(mass, n, classes, fraction, lengths):  # type: ignore[no-untyped-def]
    """Code length in 1/256 bit of each symbol in each class, of counts of 16 for each occurrence and 1 for none;
    flat ``mass`` (classes, n) says how often it occurs."""
    for k in range(classes):
        total = np.int64(n)
        for j in range(k * n, (k + 1) * n):
            total += peek(mass, j) << 4
        whole = log2_of(total, fraction)
        for j in range(k * n, (k + 1) * n):
            poke(lengths, j, whole - log2_of(np.int64(1) + (peek(mass, j) << 4), fraction))


@borrowing
def assign(counts, n, classes, lengths, labels, mass, cost, least, best):  # type: ignore[no-untyped-def]
    """Give each channel the class in which it takes the fewest bits; return how many moved, with their ``mass``."""
    channels = len(labels)
    for k in range(classes):
        cost[:] = 0
        for j in range(n):
            length = np.int32(peek(lengths, k * n + j))
            for c in range(channels):  # below 256 tokens' worth of lengths below 2^13: 32 bits hold the sum
                poke(cost, c, np.int32(peek(cost, c) + np.int32(length * peek(counts, j * channels + c))))
        for c in range(channels):
            if k == 0 or cost[c] < least[c]:
                least[c] = cost[c]
                best[c] = k
    moved = 0
    for c in range(channels):
        if labels[c] != best[c]:
            moved += 1
            for j in range(n):
                count = np.int64(peek(counts, j * channels + c))
                mass[labels[c] * n + j] -= count
                mass[best[c] * n + j] += count
            labels[c] = best[c]
    return moved


@borrowing
def classify(  # type: ignore[no-untyped-def]
    symbols, begin, tokens, channels, classes, fraction, labels, by_class,
    counts, dense, alphabet, mass, lengths, mean, total, cost, least, best,
):  # fmt: skip
    """Classes of one stream's channels into ``labels`` (channels), and the histograms of the sampled tokens by class
    into ``by_class`` (classes, 256), which starts at zero.

    ``symbols`` is flat, the stream's ``tokens * channels`` begin at ``begin``; ``fraction`` is LOG2_FRACTION;
    what follows ``by_class`` is ``room``.
    """
    stride = max(np.int64(1), tokens // SAMPLE_TOKENS)
    n = histogram(symbols, begin, tokens, channels, stride, counts, dense, alphabet)
    if classes > 1:
        start(dense, n, alphabet, classes, mean, total, labels)
    for i in range(classes * n):
        poke(mass, i, 0)
    for j in range(n):
        for c in range(channels):
            mass[labels[c] * n + j] += peek(dense, j * channels + c)
    if classes > 1:
        for _ in range(ROUNDS):
            measure(mass, n, classes, fraction, lengths)
            if assign(dense, n, classes, lengths, labels, mass, cost, least, best) == 0:
                break
    for k in range(classes):
        for j in range(n):
            by_class[k, peek(alphabet, j)] = peek(mass, k * n + j)


def room(channels: int, classes: int) -> tuple[NDArray[Any], ...]:
    """What ``classify`` works in."""
    sizes: tuple[tuple[int, Any], ...] = (
        (channels * 256 + 256, np.uint8), (channels * 256, np.int32), (256, np.int64), (classes * 256, np.int64),
        (classes * 256, np.int64), (channels, np.int64), (channels, np.int64), (channels, np.int32),
        (channels, np.int32), (channels, np.uint8),
    )  # fmt: skip
    return tuple(np.empty(size, dtype) for size, dtype in sizes)
