"""The steps of the coding loop over whole rows: prediction, rotation, learning. See ``rows`` for their formulas.

A stream's running numbers are rows of one flat array, as are the row in the making and the tables of gains; the
names below are the rows' numbers.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import step
from kvzip.coder.memory import peek, poke
from kvzip.predict import repeats, rows

MEAN, LAST, VAR_NEW, VAR_KNOWN, PRODUCT, SQUARE, PAIR_PRODUCT, PAIR_SQUARE, PAIR_GAIN, START = range(10)
AVERAGES = 10
BASE, FIRST, MU, VA, STORED_MEAN, STORED_VA, DRAFTED, X, Y = range(9)
WORK_ROWS = 9
GAIN, FACTOR, INVERSE = 0, repeats.MOST_COUNTED, 2 * repeats.MOST_COUNTED
GAINS = 3 * repeats.MOST_COUNTED

# A stream's learning numbers (int64): rows seen, rows of known tokens, rows of known pairs, usual energy.
SEEN, SEEN_KNOWN, SEEN_PAIRS, USUAL = range(4)
LEARNED = 4

MEAN_RATE = np.float32(1 / 32)
VARIANCE_RATE = np.float32(1 / 32)
ONE = np.float32(1)
HEAD_START = np.float32(0.5)  # the variance at the start counts for half a row, as the second row is learnt


@step
def predict_row(  # type: ignore[no-untyped-def]
    groups, count, padded, work, own, gains, rows_of, slot, times, pairs_of, pair, pair_times
):
    """Mean and variance of the next row before rotation, into MU and VA of ``work``."""
    known = slot >= 0 and times > 0
    paired = pair >= 0 and pair_times > 0
    n = (min(times, repeats.MOST_COUNTED) - 1) * padded
    for q in range(count):
        p = peek(groups, 3 * q)
        mean, last, new, old = MEAN * padded + p, LAST * padded + p, VAR_NEW * padded + p, VAR_KNOWN * padded + p
        base, first, mu, va = BASE * padded + p, FIRST * padded + p, MU * padded + p, VA * padded + p
        gain, factor, pair_gain = GAIN * padded + n + p, FACTOR * padded + n + p, PAIR_GAIN * padded + p
        if known and paired:
            rows.recall_pair(
                own, mean, own, last, own, old, rows_of, slot + p, gains, gain, gains, factor, pairs_of, pair + p,
                own, pair_gain, work, base, work, first, work, mu, work, va,
            )  # fmt: skip
        elif known:
            rows.recall(
                own, mean, own, last, own, old, rows_of, slot + p, gains, gain, gains, factor, work, base, work, mu,
                work, va,
            )  # fmt: skip
        elif paired:
            rows.expect_pair(
                own, mean, own, last, own, new, pairs_of, pair + p, own, pair_gain, work, first, work, mu, work, va
            )  # fmt: skip
        else:
            rows.expect(own, mean, own, last, own, new, work, mu, work, va)


@step
def turn_row(groups, count, padded, turned, turn, turn_at, work):  # type: ignore[no-untyped-def]
    """Rotate MU and VA as the values are stored; return where the result's means and variances begin."""
    if turned == 0:
        return MU * padded, VA * padded
    width = 16 * turned
    for q in range(turned):
        p = peek(groups, 3 * q)
        rows.turn(
            work, MU * padded + p, work, MU * padded + width + p, work, VA * padded + p, work,
            VA * padded + width + p, turn, turn_at + p, turn, turn_at + width + p,
            work, STORED_MEAN * padded + p, work, STORED_MEAN * padded + width + p,
            work, STORED_VA * padded + p, work, STORED_VA * padded + width + p,
        )  # fmt: skip
    for q in range(2 * turned, count):
        p = peek(groups, 3 * q)
        rows.copy(work, MU * padded + p, work, STORED_MEAN * padded + p)
        rows.copy(work, VA * padded + p, work, STORED_VA * padded + p)
    return STORED_MEAN * padded, STORED_VA * padded


@step
def unturn_row(groups, count, padded, turned, turn, turn_at, work):  # type: ignore[no-untyped-def]
    """Rotate the coded row, at X of ``work``, back; return where the result begins."""
    if turned == 0:
        return X * padded
    width = 16 * turned
    for q in range(turned):
        p = peek(groups, 3 * q)
        rows.unturn(
            work, X * padded + p, work, X * padded + width + p, turn, turn_at + p, turn, turn_at + width + p,
            work, Y * padded + p, work, Y * padded + width + p,
        )  # fmt: skip
    for q in range(2 * turned, count):
        p = peek(groups, 3 * q)
        rows.copy(work, X * padded + p, work, Y * padded + p)
    return Y * padded


@step
def learn_row(  # type: ignore[no-untyped-def]
    groups, count, padded, work, row_at, own, gains, rows_of, slot, times, pairs_of, pair, pair_times, learn, live
):
    """Update means, variances, gains and the memories of repeated tokens with the row at ``row_at`` of ``work``."""
    n, m, pairs = peek(learn, SEEN), peek(learn, SEEN_KNOWN), peek(learn, SEEN_PAIRS)
    known = slot >= 0 and times > 0
    paired = pair >= 0 and pair_times > 0
    rate = max(ONE / np.float32(n + 1), MEAN_RATE)
    row_rate = max(ONE / np.float32(times + 1), repeats.ROW_RATE)
    var_rate = max(ONE / (np.float32(n) + HEAD_START), VARIANCE_RATE)
    known_rate = max(ONE / np.float32(m + 3), VARIANCE_RATE)
    gain_rate = max(ONE / np.float32(m + 1), repeats.AVERAGE_RATE)
    pair_rate = max(ONE / np.float32(pairs + 1), repeats.AVERAGE_RATE)
    inverse = INVERSE * padded + (min(times, repeats.MOST_COUNTED) - 1) * padded
    for q in range(count):
        p = peek(groups, 3 * q)
        x, base, first, mu = row_at + p, BASE * padded + p, FIRST * padded + p, MU * padded + p
        mean, last, new, old = MEAN * padded + p, LAST * padded + p, VAR_NEW * padded + p, VAR_KNOWN * padded + p
        if known:
            product, square = PRODUCT * padded + p, SQUARE * padded + p
            rows.learn_known(
                work, x, work, mu, gains, inverse + p, own, old, work, base, rows_of, slot + p, own, product, own,
                square, own, mean, rate, known_rate, gain_rate, row_rate,
                own, old, own, product, own, square, own, mean, own, last, rows_of, slot + p,
            )  # fmt: skip
        elif n == 0:
            rows.copy(own, START * padded + p, own, new)
            rows.learn(work, x, own, mean, rate, own, mean, own, last)
        else:
            rows.learn_new(
                work, x, work, mu, own, new, own, mean, rate, var_rate, own, new, own, mean, own, last
            )  # fmt: skip
        if slot >= 0 and not known:
            rows.approach(work, x, rows_of, slot + p, row_rate, rows_of, slot + p)
        if m == 0 and not known:
            rows.copy(own, new, own, old)
        if paired:
            product, square = PAIR_PRODUCT * padded + p, PAIR_SQUARE * padded + p
            rows.learn_pair(
                work, x, work, first, pairs_of, pair + p, own, product, own, square, pair_rate, repeats.PAIR_RATE,
                own, product, own, square, pairs_of, pair + p,
            )  # fmt: skip
        elif pair >= 0:
            rows.approach(work, x, pairs_of, pair + p, ONE, pairs_of, pair + p)
    poke(learn, SEEN, n + 1)
    if known:
        learn_gains(padded, work, own, gains, learn, live)
    if paired:
        learn_pair_gains(padded, own, learn, live)


@step
def learn_gains(padded, work, own, gains, learn, live):  # type: ignore[no-untyped-def]
    """After one more row of a known token: gains, if they are due."""
    m = peek(learn, SEEN_KNOWN)
    poke(learn, SEEN_KNOWN, m + 1)
    if repeats.due(m + 1):
        repeats.shares(
            own, PRODUCT * padded, SQUARE * padded, m, repeats.MOST_SHARE, live, padded, work, BASE * padded
        )
        repeats.gains(work, BASE * padded, padded, gains)


@step
def learn_pair_gains(padded, own, learn, live):  # type: ignore[no-untyped-def]
    """The same for a pair of tokens."""
    m = peek(learn, SEEN_PAIRS)
    poke(learn, SEEN_PAIRS, m + 1)
    if repeats.due(m + 1):
        repeats.shares(
            own, PAIR_PRODUCT * padded, PAIR_SQUARE * padded, m, ONE, live, padded, own, PAIR_GAIN * padded
        )
