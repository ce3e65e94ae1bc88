"""Repeated tokens: what the earlier rows of the same token say about this one.

For a token seen n times before, with h the running mean of its earlier rows, pm the prediction without it and
r = x - pm, per channel:

    c = S / B    S: average of r (h - pm), B: average of r^2, c drawn towards its mean over channels
    k = min(n, 5);   g = k c / ((k - 1) c + 1)
    mu = pm + g (h - pm);   its variance is that of n = 1 times (1 - c g) / (1 - c^2)

which is the best linear estimate where a row is its token's own mean plus noise that does not repeat; c is the share
of the former. A second memory holds the last row after the same *pair* of tokens; it corrects what is left by
mu += g2 (h2 - mu), g2 = average of (x - mu)(h2 - mu) over average of (h2 - mu)^2.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import peek, poke

MOST_COUNTED = 5  # earlier rows beyond this make no difference
ROW_RATE = np.float32(0.5)  # h follows its rows at least so fast
PAIR_RATE = np.float32(0.7)
AVERAGE_RATE = np.float32(1 / 256)  # of S, B and their like, at least 1 / n
SHRINK = np.float32(48)  # rows that the mean over channels counts for
MOST_SHARE = np.float32(0.999)
REFRESH = 128  # rows between two refreshes of the gains, after those at 1, 2, 4, 8...
LEAST = np.float32(2.0**-90)


@borrowing
def due(n):  # type: ignore[no-untyped-def]
    """Whether the gains are made anew after the ``n``-th row."""
    return n % REFRESH == 0 if n >= REFRESH else n & (n - 1) == 0


@borrowing
def shares(own, product, square, n, most, live, padded, out, at):  # type: ignore[no-untyped-def]
    """c of each channel from the averages at ``product`` and ``square`` of ``own``, drawn towards the mean over the
    ``live`` channels, within 0 and ``most``."""
    mean = np.float32(0)
    count = np.float32(0)
    for c in range(padded):
        share = peek(own, product + c) / max(peek(own, square + c), LEAST)
        share = max(np.float32(-1), min(np.float32(1), share))
        poke(out, at + c, share)
        if peek(live, c):
            mean += share
            count += np.float32(1)
    mean = mean / count
    weight = SHRINK / (np.float32(n) + SHRINK)
    for c in range(padded):
        share = peek(out, at + c)
        poke(out, at + c, min(most, max(np.float32(0), share + weight * (mean - share))))


@borrowing
def gains(share, at, padded, out):  # type: ignore[no-untyped-def]
    """Tables (5 rows each) of g, of the variance's factor and of its inverse, for n = 1..5."""
    for n in range(MOST_COUNTED):
        k = np.float32(n + 1)
        for c in range(padded):
            s = peek(share, at + c)
            g = k * s / ((k - np.float32(1)) * s + np.float32(1))
            f = (np.float32(1) - s * g) / (np.float32(1) - s * s)
            poke(out, n * padded + c, g)
            poke(out, (MOST_COUNTED + n) * padded + c, f)
            poke(out, (2 * MOST_COUNTED + n) * padded + c, np.float32(1) / f)
