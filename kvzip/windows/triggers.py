"""What happens between tokens: decay, sparse counting, the triggers of an update, drift.

A stream's numbers live in a row of ``STATE`` integers, its parameters in a vector; both are named here by slot.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek
from kvzip.windows.estimator import INCREMENT_CEILING, WINDOW, renormalise

# Slots of a stream's state vector (int64).
TOKEN, INCREMENT, SINCE_UPDATE, SYMBOLS_SINCE, NOVEL_SINCE, DIRTY, FAST, SLOW, SINCE_RESET = range(9)
PERIODIC, CONFIDENCE, NOVELTY, REBUILDS, RESETS, ESCAPES, LENGTH = range(9, 16)
STATE = 16
COUNTERS = slice(PERIODIC, LENGTH + 1)

# Slots of the parameter vector (int64); see windows.parameters for units.
ALPHA_INVERSE, BETA, THETA_LOW, THETA_NEW, N_UPDATE, WARMUP, DRIFT, DRIFT_KEEP, SAMPLING, TABLE_BITS = range(10)

DRIFT_FAST = 3  # averages of the code length: rates 2^-3 and 2^-7 per token
DRIFT_SLOW = 7
DRIFT_REST = 32  # tokens after a reset before the next one
ESCAPE_LENGTH = 8 << 8  # an escaped symbol's 8 literal bits, in 1/256 bit


@step
def note_events(events, row, state, sign):  # type: ignore[no-untyped-def]
    """Add the counters of triggers and resets, times ``sign``, to a row's four of ``events``: before and after."""
    for trigger in range(3):
        events[4 * row + trigger] += sign * state[PERIODIC + trigger]
    events[4 * row + 3] += sign * state[RESETS]


@borrowing
def next_counted(token, parameters):  # type: ignore[no-untyped-def]
    """The first token from ``token`` on that is counted: all are up to 64, then every 2nd, from 128 every 4th..."""
    skip = np.int64(1)
    while skip < (1 << peek(parameters, SAMPLING)) and (skip << 6) <= token:
        skip <<= 1
    return (token + skip - 1) & -skip  # where skip doubles, tokens are multiples of the double


@borrowing
def row_length(codes, at, channels, escapes, lengths):  # type: ignore[no-untyped-def]
    """The code length of one token in 1/256 bit."""
    length = np.int64(escapes) * ESCAPE_LENGTH
    for c in range(channels):
        length += lengths[codes[at + c] & np.uint32(0xFFFF)]
    return length


@borrowing
def watch_drift(length, counts, prior, first, classes, state, parameters):  # type: ignore[no-untyped-def]
    """Follow the code length per token; on drift pull the counts back towards the prior. Return 1 on a reset."""
    length <<= 8
    if state[FAST] == 0:
        state[FAST] = length
        state[SLOW] = length
    state[FAST] += (length - state[FAST]) >> DRIFT_FAST
    state[SLOW] += (length - state[SLOW]) >> DRIFT_SLOW
    state[SINCE_RESET] += 1
    if state[SINCE_RESET] < DRIFT_REST or (state[FAST] << 8) <= state[SLOW] * parameters[DRIFT]:
        return 0
    keep = parameters[DRIFT_KEEP]
    state[INCREMENT] = renormalise(counts, first, classes, state[INCREMENT])  # lest counts * keep overflow
    for k in range(first, first + classes):
        for s in range(WINDOW):
            fresh = ((prior[k, s] >> 8) * state[INCREMENT]) >> 8
            counts[k, s] = (counts[k, s] * keep + fresh * (256 - keep)) >> 8
    state[SLOW] = state[FAST]
    state[SINCE_RESET] = 0
    state[RESETS] += 1
    return 1


@borrowing
def period(token, parameters):  # type: ignore[no-untyped-def]
    """Tokens between updates after ``token`` tokens: half of what was seen, at most N_update."""
    return min(parameters[N_UPDATE], max(np.int64(1), token >> 1))


@borrowing
def end_token(low, channels, drifted, counts, first, classes, state, parameters):  # type: ignore[no-untyped-def]
    """Decay, then the triggers: confidence, novelty, period; mark every window of the stream dirty if one fired."""
    state[TOKEN] += 1
    state[SINCE_UPDATE] += 1
    state[SYMBOLS_SINCE] += channels
    if parameters[ALPHA_INVERSE] > 65536:
        state[INCREMENT] = (state[INCREMENT] * parameters[ALPHA_INVERSE]) >> 16
        if state[INCREMENT] >= INCREMENT_CEILING:
            state[INCREMENT] = renormalise(counts, first, classes, state[INCREMENT])
    if state[TOKEN] < parameters[WARMUP]:
        return
    reason = np.int64(-1)
    if low < parameters[THETA_LOW]:
        reason = np.int64(CONFIDENCE)
    elif parameters[THETA_NEW] > 0 and state[NOVEL_SINCE] << 16 > state[SYMBOLS_SINCE] * parameters[THETA_NEW]:
        reason = np.int64(NOVELTY)
    elif state[SINCE_UPDATE] >= period(state[TOKEN], parameters):
        reason = np.int64(PERIODIC)
    if reason >= 0:
        state[reason] += 1
    if reason >= 0 or drifted > 0:
        state[INCREMENT] = renormalise(counts, first, classes, state[INCREMENT])
        state[DIRTY] = 1
        state[SINCE_UPDATE] = 0
        state[SYMBOLS_SINCE] = 0
        state[NOVEL_SINCE] = 0


@borrowing
def tokens_ahead(state, parameters, measure, left):  # type: ignore[no-untyped-def]
    """How many tokens can be coded before anything but the period could fire."""
    watched = parameters[THETA_LOW] + parameters[THETA_NEW] + parameters[DRIFT] > 0 or measure
    if watched or state[TOKEN] < parameters[WARMUP]:
        return np.int64(1)
    ahead = np.int64(1)
    while ahead < left and state[SINCE_UPDATE] + ahead < period(state[TOKEN] + ahead, parameters):
        ahead += 1
    return ahead


@borrowing
def watch_row(out, at, channels, escapes, lengths, counts, prior, first, classes, state, parameters):  # type: ignore[no-untyped-def]
    """What the watchful parameters want to know of a token: its lowest frequency of 2^16, and whether it drifted."""
    low = np.int64(1 << 16)
    if parameters[THETA_LOW] > 0:
        for c in range(channels):
            low = min(low, np.int64(out[at + c] & np.uint32(0xFFFF)))
        low <<= 16 - parameters[TABLE_BITS]
    length = row_length(out, at, channels, escapes, lengths)
    state[LENGTH] += length
    if parameters[DRIFT] > 0:
        return low, watch_drift(length, counts, prior, first, classes, state, parameters)
    return low, 0
