"""Tokens that were seen before: the mean of a token's earlier rows corrects what the recursion predicts.

For a token whose id has earlier rows with mean h, and a recursion that predicts pm for a column,

    mean = pm + gain * (h - pm);   gain = E[r d] / E[d^2];   variance * (1 - gain * E[r d] / E[r^2])

where r is what came minus pm and d is h - pm. The moments are tracked for each column, apart for tokens seen once
and more often, and the gains shrunk towards that of all columns. Rows are kept in ``slots`` places; an id takes the
place of another that has the same remainder.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek, poke
from kvzip.linear.panel import SIDE

TRUST_FADE = np.float32(0.95)  # from block to block
MOST_TRUST = np.float32(3.0)
TRUST_RIDGE = np.float32(3.0)
LEVELS = 3  # seen once, twice, more often
REFRESH = 16  # repeated tokens between two looks at the gains
SHRINK = np.float32(48.0)
BLEND = np.float32(0.4)
FADE = np.float32(0.999)
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
LEAST = np.float32(1e-30)
CLIP = np.float32(16.0)
LEAST_FACTOR = np.float32(0.05)


class Memory(NamedTuple):
    """Rows of earlier tokens, flat, and what they were worth; moments and gains by LEVELS, then by own column."""

    rows: NDArray[np.float32]
    tags: NDArray[np.int64]
    seen: NDArray[np.int64]
    both: NDArray[np.float32]  # sums of r * d
    power: NDArray[np.float32]  # sums of r^2
    other: NDArray[np.float32]  # sums of d^2
    gain: NDArray[np.float32]
    left: NDArray[np.float32]  # of the variance
    factor: NDArray[np.float32]  # on this token's variances
    tokens: NDArray[np.int64]  # repeated tokens so far, by level


@borrowing
def recall(memory, cols, token, own):  # type: ignore[no-untyped-def]
    """Set up means for a token; whether it has a history."""
    slot = token % len(memory.tags)
    if token < 0 or memory.tags[slot] != token:
        for o in range(own):
            poke(cols.scale, o, peek(cols.spread, o))
            poke(cols.shift, o, peek(cols.centre, o))
            poke(memory.factor, o, ONE)
        return False
    level = min(memory.seen[slot], LEVELS) - 1
    for o in range(own):
        poke(memory.factor, o, peek(memory.left, level * own + o))
    return True


@step
def lean(memory, cols, token, block, own, sums):  # type: ignore[no-untyped-def]
    """Means for a block of a token that has a history, its gains multiplied by what the token earned so far."""
    trust = min(max((sums[0] + TRUST_RIDGE) / (sums[1] + TRUST_RIDGE), ZERO), MOST_TRUST)
    slot = token % len(memory.tags)
    row = (min(memory.seen[slot], LEVELS) - 1) * own
    at = slot * own
    for o in range(block * SIDE, block * SIDE + SIDE):
        gain = min(peek(memory.gain, row + o) * trust, ONE)
        poke(cols.scale, o, peek(cols.spread, o) * (ONE - gain))
        poke(cols.shift, o, peek(cols.centre, o) * (ONE - gain) + gain * peek(memory.rows, at + o))


@step
def compare(memory, cols, token, block, own, first, n, energy, sums):  # type: ignore[no-untyped-def]
    """How far the block went the way of its history: adds to sums of r * u and u^2, u the step that gains propose."""
    slot = token % len(memory.tags)
    row = (min(memory.seen[slot], LEVELS) - 1) * own
    at = slot * own
    ru = ZERO
    uu = ZERO
    for o in range(block * SIDE, block * SIDE + SIDE):
        r = peek(n, first + o) * peek(cols.spread, o)
        u = peek(memory.gain, row + o) * (peek(memory.rows, at + o) - (peek(cols.value, o) - r))
        w = ONE / max(peek(cols.variance, o) * energy, LEAST)
        w = w if r * r * w < CLIP else ZERO
        ru += w * r * u
        uu += w * u * u
    return sums[0] * TRUST_FADE + ru, sums[1] * TRUST_FADE + uu


@borrowing
def refresh(memory, level, own):  # type: ignore[no-untyped-def]
    """New gains for every column: its own, shrunk towards the mean of all."""
    both = ZERO
    other = LEAST
    row = level * own
    for o in range(row, row + own):
        weight = ONE / (peek(memory.power, o) + LEAST)  # every column counts alike
        both += peek(memory.both, o) * weight
        other += peek(memory.other, o) * weight
    mean = both / other
    count = np.float32(memory.tokens[level])
    trust = count / (count + SHRINK)
    for o in range(row, row + own):
        mine = peek(memory.both, o) / (peek(memory.other, o) + LEAST)
        gain = min(max(mean + (mine - mean) * trust, ZERO), ONE)
        poke(memory.gain, o, gain)
        left = ONE + gain * (gain * peek(memory.other, o) - np.float32(2) * peek(memory.both, o)) / (
            peek(memory.power, o) + LEAST
        )
        poke(memory.left, o, min(max(left, LEAST_FACTOR), ONE))


@borrowing
def memorise(memory, cols, token, known, first, own, n, energy):  # type: ignore[no-untyped-def]
    """Add the token's row, and what the history was worth, the less the more energy the token has.

    ``n`` are the recursion's residuals from ``first`` on.
    """
    if token < 0:
        return
    slot = token % len(memory.tags)
    at = slot * own
    if not known:
        for o in range(own):
            poke(memory.rows, at + o, peek(cols.value, o))
        memory.tags[slot] = token
        memory.seen[slot] = 1
        return
    level = min(memory.seen[slot], LEVELS) - 1
    row = level * own
    calm = ONE / energy
    for o in range(own):
        r = peek(n, first + o) * peek(cols.spread, o)
        d = peek(memory.rows, at + o) - (peek(cols.value, o) - r)
        most = CLIP * (peek(cols.variance, o) * energy)
        q = r * r
        use = calm if q < most else ZERO
        poke(memory.both, row + o, peek(memory.both, row + o) * FADE + use * r * d)
        poke(memory.power, row + o, peek(memory.power, row + o) * FADE + use * q)
        poke(memory.other, row + o, peek(memory.other, row + o) * FADE + use * d * d)
    memory.tokens[level] += 1
    if memory.tokens[level] % REFRESH == 0 or memory.tokens[level] == 4:
        refresh(memory, level, own)
    rate = max(ONE / np.float32(memory.seen[slot] + 1), BLEND)
    for o in range(own):
        h = peek(memory.rows, at + o)
        poke(memory.rows, at + o, h + (peek(cols.value, o) - h) * rate)
    memory.seen[slot] += 1
