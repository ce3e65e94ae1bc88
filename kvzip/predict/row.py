"""A row in the making: what is kept of it from its prediction until it is learnt, while other streams' rows go on."""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import step
from kvzip.coder.memory import bits_of, fetch, float_of, peek, poke
from kvzip.predict import rows
from kvzip.predict.energy import factor
from kvzip.predict.steps import learn_row, predict_row, turn_row, unturn_row

# Numbers of a row (int64): where its means and variances begin, the token's energy, the usual one and what both make
# of variances (the bits of a float32), the sum of its logarithms, its escapes.
MEAN_AT, VARIANCE_AT, ENERGY, USUALLY, LOUD, TOTAL, ESCAPED = range(7)
ROW = 8
LINE = 16  # floats to a line of the cache


@step
def begin_row(  # type: ignore[no-untyped-def]
    row, groups, count, padded, turned, turn, turn_at, work, own, gains, rows_of, slot, times, pairs_of, pair,
    pair_times, energy, usual,
):  # fmt: skip
    """Predict a row as its values are stored."""
    predict_row(groups, count, padded, work, own, gains, rows_of, slot, times, pairs_of, pair, pair_times)
    mean_at, variance_at = turn_row(groups, count, padded, turned, turn, turn_at, work)
    poke(row, MEAN_AT, mean_at)
    poke(row, VARIANCE_AT, variance_at)
    poke(row, ENERGY, energy)
    poke(row, USUALLY, usual)
    poke(row, LOUD, np.int64(bits_of(np.float32(1))))
    poke(row, TOTAL, np.int64(0))
    poke(row, ESCAPED, np.int64(0))


@step
def fetch_row(slot_of, pair_of, t, padded, rows_of, pairs_of, x, at, channels, wide):  # type: ignore[no-untyped-def]
    """Ask for what row ``t`` of a stream needs: its token's rows, and its values at ``at``, ``wide`` to a line."""
    slot, pair = np.int64(peek(slot_of, t)), np.int64(peek(pair_of, t))
    for c in range(0, padded, LINE):
        if slot >= 0:
            fetch(rows_of, slot * padded + c)
        if pair >= 0:
            fetch(pairs_of, pair * padded + c)
    for c in range(0, channels, wide):
        fetch(x, at + c)


@step
def end_row(  # type: ignore[no-untyped-def]
    groups, count, padded, turned, turn, turn_at, work, own, gains, rows_of, slot, times, pairs_of, pair, pair_times,
    learn, live,
):  # fmt: skip
    """Learn from a row."""
    row_at = unturn_row(groups, count, padded, turned, turn, turn_at, work)
    learn_row(
        groups, count, padded, work, row_at, own, gains, rows_of, slot, times, pairs_of, pair, pair_times, learn, live
    )  # fmt: skip


@step
def expect(work, mean_at, draft, at, into):  # type: ignore[no-untyped-def]
    """Add sixteen numbers of a draft to means; where they are then."""
    rows.add(work, mean_at, draft, at, work, into)
    return into


@step
def look(row, looks, before):  # type: ignore[no-untyped-def]
    """What variances are multiplied by: anew if it ``looks`` at the energy, so many channels having been coded."""
    loud = float_of(np.int32(peek(row, LOUD)))
    if looks:
        loud = factor(peek(row, ENERGY), before)
        poke(row, LOUD, np.int64(bits_of(loud)))
    return loud


@step
def grow(row, logarithms, channels):  # type: ignore[no-untyped-def]
    """Add the logarithms of some channels, which sum to so much, to the token's energy."""
    poke(row, TOTAL, peek(row, TOTAL) + logarithms)
    poke(row, ENERGY, peek(row, ENERGY) + logarithms - peek(row, USUALLY) * channels)
