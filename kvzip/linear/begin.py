"""The first tokens, which running means predict, and what they leave: means and spreads of columns.

The recursion then learns from all of them but the first, which is often unlike any other. Where nothing fits any
more, as after padding of zeros, all begins again.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import poke
from kvzip.linear.block_code import ABSURD
from kvzip.linear.learning import gains
from kvzip.linear.panel import SIDE
from kvzip.linear.state import (
    BACK,
    BASE,
    BLOCKS,
    BOTH,
    KEEP,
    KEEP_TWO,
    LEAST_SPREAD,
    LIMIT,
    OWN,
    SPREAD_FLOOR,
    STRANGE,
    TOKEN,
    USUAL,
    WITH_PARTS,
)
from kvzip.linear.sweep import restart, sweep_known

START = 16
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
BASE_CLIP = np.float32(32.0)
AROUND = 64


@borrowing
def normalise_base(y, base, row, count, centre, inverse, stride):  # type: ignore[no-untyped-def]
    """The base's columns of a token: clipped, and 0 where they are no numbers."""
    for j in range(count):
        v = (np.float64(base[row, j * stride]) - centre[j]) * inverse[j]
        v = min(max(v, -np.float64(BASE_CLIP)), np.float64(BASE_CLIP))
        poke(y, 1 + j, np.float32(v) if v == v else ZERO)


@borrowing
def spreads(rows, blurs, floor, least, count, centre, inverse, shared):  # type: ignore[no-untyped-def]
    """Means and inverse deviations of columns over rows 1 to START - 1, in double precision.

    ``blurs`` are sums of the variances of what is not known of them. The least deviation is ``least`` of the greatest
    one, or of ``floor``. If they are ``shared``, a column's deviation is the geometric mean of its own and the mean
    one of those around it: columns that say more then weigh more.
    """
    greatest = np.float64(floor)
    for j in range(count):
        mean = 0.0
        for t in range(1, START):
            v = np.float64(rows[t, j])
            mean += v if abs(v) < 3e38 else 0.0
        mean /= START - 1
        square = 0.0
        for t in range(1, START):
            v = np.float64(rows[t, j])
            square += (v - mean) * (v - mean) if abs(v) < 3e38 else 0.0
        centre[j] = mean
        inverse[j] = np.sqrt((square + np.float64(blurs[j])) / (START - 1))
        greatest = max(greatest, inverse[j])
    for j in range(count):
        inverse[j] = max(inverse[j], greatest * np.float64(least), 1e-30)
    for start in range(0, count if shared else 0, AROUND):
        stop = min(start + AROUND, count)
        mean = 0.0
        for j in range(start, stop):
            mean += inverse[j]
        mean /= stop - start
        for j in range(start, stop):
            inverse[j] = np.sqrt(inverse[j]) * np.sqrt(mean)
    for j in range(count):
        inverse[j] = 1.0 / inverse[j]


@borrowing
def replay(one, two, cols, work):  # type: ignore[no-untyped-def]
    """Normalise all columns, and let the recursions learn from the first tokens."""
    whole, real = work.whole, work.real
    blocks = whole[BLOCKS]
    first = whole[BASE] * SIDE
    own = whole[OWN]
    history, base_history, means, devs, keep_y = work.history, work.base_history, work.means, work.devs, work.spare
    centres, inverses = work.centres, work.inverses
    base_count = len(centres)
    floor, least, shared = real[SPREAD_FLOOR], real[LEAST_SPREAD], whole[WITH_PARTS]
    spreads(base_history, work.sharp, floor, least, base_count, centres, inverses, shared)
    spreads(history, work.blurs, floor, least, own, means, devs, shared)
    for o in range(own):
        cols.centre[o] = np.float32(means[o])
        cols.inverse[o] = np.float32(devs[o])
        cols.spread[o] = ONE / cols.inverse[o]
    back = whole[BACK]
    for t in range(1, START):
        cols.y[0] = ONE
        normalise_base(cols.y, base_history, t, base_count, centres, inverses, 1)
        for o in range(own):
            y = (history[t, o] - cols.centre[o]) * cols.inverse[o]
            cols.y[first + o] = y if abs(y) < ABSURD else ZERO
        sweep_known(one, cols.y, 0, 0, blocks, blocks, whole[LIMIT])
        gains(one, real[KEEP], ONE)
        restart(one, cols.y, 0)
        if whole[BOTH]:
            for j in range(SIDE):
                keep_y[j] = cols.y[back + j]
                cols.y[back + j] = ONE if j == 0 else ZERO
            small = len(two.n) // SIDE
            sweep_known(two, cols.y, back, 0, small, small, small)
            for j in range(SIDE):
                cols.y[back + j] = keep_y[j]
            gains(two, real[KEEP_TWO], ONE)
            restart(two, cols.y, back)


@borrowing
def forget(r):  # type: ignore[no-untyped-def]
    """Start a recursion anew."""
    for j in range(len(r.lower)):
        poke(r.lower, j, ZERO)
    for j in range(len(r.x)):
        r.x[j] = r.p[j] = r.e[j] = r.g[j] = r.n[j] = ZERO
        r.d[j] = r.delta[j]


@borrowing
def begin_again(one, two, cols, memory, work):  # type: ignore[no-untyped-def]
    """Nothing fits any more, as after padding of zeros: learn means and spreads from the next tokens."""
    whole, real, counters = work.whole, work.real, work.counters
    forget(one)
    if whole[BOTH]:
        forget(two)
    for o in range(whole[OWN]):
        cols.centre[o] = cols.spread[o] = cols.scale[o] = cols.other[o] = cols.shift[o] = ZERO
        cols.variance[o] = real[SPREAD_FLOOR] * real[SPREAD_FLOOR]
        cols.cross[o] = ZERO
        cols.inverse[o] = ONE
        memory.factor[o] = ONE
    for slot in range(len(memory.tags)):
        memory.tags[slot] = -1
    real[USUAL] = ZERO
    counters[TOKEN] = 0
    counters[STRANGE] = 0


@borrowing
def warm_up(cols, history, blurs, t, own):  # type: ignore[no-untyped-def]
    """Means of the tokens so far, as long as there is no recursion."""
    for o in range(own):
        history[t, o] = cols.value[o]
        blurs[o] = blurs[o] + cols.blur[o] if t > 1 else cols.blur[o]  # of tokens 1 to START - 1
        mean = cols.shift[o]
        cols.shift[o] = mean + (cols.value[o] - mean) / np.float32(t + 1)


@borrowing
def first_variances(cols, kinds, own):  # type: ignore[no-untyped-def]
    """After the first token: half its square, half the mean square of its kind."""
    for kind in range(2):
        total = ZERO
        count = ZERO
        for o in range(own):
            if kinds[o] == kind:
                total += cols.residual[o] * cols.residual[o] + cols.blur[o]
                count += ONE
        for o in range(own):
            if kinds[o] == kind:
                cols.variance[o] = np.float32(0.5) * (
                    total / count + (cols.residual[o] * cols.residual[o] + cols.blur[o])
                )
