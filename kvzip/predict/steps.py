"""The steps of the coding loop over whole rows: prediction, rotation, learning. See ``rows`` for their formulas.

A stream's running numbers are rows of one flat array, as are the row in the making and the tables of gains; the
names below are the rows' numbers.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import step
from kvzip.coder.memory import peek, poke
from kvzip.predict import repeats, rows

MEAN, LAST, VAR_NEW, VAR_KNOWN, PRODUCT, SQUARE, PAIR_PRODUCT, PAIR_SQUARE, PAIR_GAIN, ONES, START = range(11)
AVERAGES = 11
BASE, FIRST, MU, VA, STORED_MEAN, STORED_VA, DRAFTED, X, Y = range(9)
WORK_ROWS = 9
GAIN, FACTOR, INVERSE = 0, repeats.MOST_COUNTED, 2 * repeats.MOST_COUNTED
GAINS = 3 * repeats.MOST_COUNTED

# A stream's learning numbers (int64): rows seen, rows of known tokens, rows of known pairs, usual energy.
SEEN, SEEN_KNOWN, SEEN_PAIRS, USUAL = range(4)
LEARNED = 4

MEAN_RATE = np.float32(1 / 32)
VARIANCE_RATE = np.float32(1 / 32)
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
        rows.lean(own, MEAN * padded + p, own, LAST * padded + p, work, BASE * padded + p, work, FIRST * padded + p)
        if known:
            rows.recall(
                work, BASE * padded + p, rows_of, slot + p, gains, GAIN * padded + n + p,
                own, VAR_KNOWN * padded + p, gains, FACTOR * padded + n + p,
                work, FIRST * padded + p, work, VA * padded + p,
            )  # fmt: skip
        else:
            rows.copy(own, VAR_NEW * padded + p, work, VA * padded + p)
        if paired:
            rows.move(
                work, FIRST * padded + p, pairs_of, pair + p, own, PAIR_GAIN * padded + p, work, MU * padded + p
            )
        else:
            rows.copy(work, FIRST * padded + p, work, MU * padded + p)


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
    n = peek(learn, SEEN)
    known = slot >= 0 and times > 0
    learn_known(groups, count, padded, work, row_at, own, gains, rows_of, slot, times, learn, live, known)
    if pair >= 0:
        learn_pair(groups, count, padded, work, row_at, own, pairs_of, pair, pair_times, learn, live)
    rate = max(np.float32(1) / np.float32(n + 1), MEAN_RATE)
    row_rate = max(np.float32(1) / np.float32(times + 1), repeats.ROW_RATE)
    var_rate = max(np.float32(1) / (np.float32(n) + HEAD_START), VARIANCE_RATE)
    for q in range(count):
        p = peek(groups, 3 * q)
        if n == 0:
            rows.copy(own, START * padded + p, own, VAR_NEW * padded + p)
        elif not known:
            rows.learn_variance(
                work, row_at + p, work, MU * padded + p, own, ONES * padded + p, own, VAR_NEW * padded + p, var_rate,
                own, VAR_NEW * padded + p,
            )  # fmt: skip
        if peek(learn, SEEN_KNOWN) == 0:
            rows.copy(own, VAR_NEW * padded + p, own, VAR_KNOWN * padded + p)
        rows.learn(work, row_at + p, own, MEAN * padded + p, rate, own, MEAN * padded + p, own, LAST * padded + p)
        if slot >= 0:
            rows.approach(work, row_at + p, rows_of, slot + p, row_rate, rows_of, slot + p)
    poke(learn, SEEN, n + 1)


@step
def learn_known(groups, count, padded, work, row_at, own, gains, rows_of, slot, times, learn, live, known):  # type: ignore[no-untyped-def]
    """What a token whose earlier rows are known teaches about variance and gains."""
    if not known:
        return
    m = peek(learn, SEEN_KNOWN)
    nth = (min(times, repeats.MOST_COUNTED) - 1) * padded
    var_rate = max(np.float32(1) / np.float32(m + 3), VARIANCE_RATE)
    rate = max(np.float32(1) / np.float32(m + 1), repeats.AVERAGE_RATE)
    for q in range(count):
        p = peek(groups, 3 * q)
        rows.learn_variance(
            work, row_at + p, work, MU * padded + p, gains, INVERSE * padded + nth + p, own, VAR_KNOWN * padded + p,
            var_rate, own, VAR_KNOWN * padded + p,
        )  # fmt: skip
        rows.learn_repeat(
            work, row_at + p, work, BASE * padded + p, rows_of, slot + p, own, PRODUCT * padded + p,
            own, SQUARE * padded + p, rate, own, PRODUCT * padded + p, own, SQUARE * padded + p,
        )  # fmt: skip
    poke(learn, SEEN_KNOWN, m + 1)
    if repeats.due(m + 1):
        repeats.shares(
            own, PRODUCT * padded, SQUARE * padded, m, repeats.MOST_SHARE, live, padded, work, BASE * padded
        )
        repeats.gains(work, BASE * padded, padded, gains)


@step
def learn_pair(groups, count, padded, work, row_at, own, pairs_of, pair, pair_times, learn, live):  # type: ignore[no-untyped-def]
    """The same for a pair of tokens, and its memory."""
    m = peek(learn, SEEN_PAIRS)
    rate = max(np.float32(1) / np.float32(m + 1), repeats.AVERAGE_RATE)
    row_rate = repeats.PAIR_RATE if pair_times > 0 else np.float32(1)
    for q in range(count):
        p = peek(groups, 3 * q)
        if pair_times > 0:
            rows.learn_pair(
                work, row_at + p, work, FIRST * padded + p, pairs_of, pair + p, own, PAIR_PRODUCT * padded + p,
                own, PAIR_SQUARE * padded + p, rate, own, PAIR_PRODUCT * padded + p, own, PAIR_SQUARE * padded + p,
            )  # fmt: skip
        rows.approach(work, row_at + p, pairs_of, pair + p, row_rate, pairs_of, pair + p)
    if pair_times > 0:
        poke(learn, SEEN_PAIRS, m + 1)
        if repeats.due(m + 1):
            repeats.shares(
                own,
                PAIR_PRODUCT * padded,
                PAIR_SQUARE * padded,
                m,
                np.float32(1),
                live,
                padded,
                own,
                PAIR_GAIN * padded,
            )
