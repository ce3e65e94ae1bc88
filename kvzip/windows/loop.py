"""The coding loop: one source for both directions, so that encoder and decoder cannot drift apart.

A *run* is the tokens of one stream in one block: ``tokens`` rows of ``channels`` symbols. Within a token the tables
are frozen; between tokens ``end_token`` counts the row, decays, looks at the triggers and at drift, and marks windows
dirty; a dirty window's table is rebuilt when the next token is coded. Tokens up to the next possible update are coded
in one go.

The encoder writes one code per symbol for ``rans.encode_lanes`` to put into words backwards; the decoder takes
symbols out of the lanes as it goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvzip.coder.jit import kernel
from kvzip.windows.estimator import (
    CODE_SHIFT,
    INCREMENT_CEILING,
    WINDOW,
    quantise,
    renormalise,
    rewrite,
    smooth,
    widen,
)
from kvzip.windows.rows import code_rows, count_row, decode_rows

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


@kernel
def rebuild(counts, probs, codes, slots, span, first, classes, freq, state, parameters, decoding):  # type: ignore[no-untyped-def]
    """Make new tables for the dirty windows of one stream (bits of ``state[DIRTY]``, one per class)."""
    for c in range(classes):
        if (state[DIRTY] >> c) & 1:
            k = first + c
            total = widen(counts, k, span)
            high = span[k, 1]
            low = min(span[k, 0], high)  # nothing counted yet: no symbols, only the escape
            smooth(counts, probs, k, low, high, total, parameters[BETA])
            quantise(probs, k, low, high, parameters[TABLE_BITS], freq)
            state[REBUILDS] += rewrite(codes, slots, k, c << CODE_SHIFT, low, high, freq, decoding)
    state[DIRTY] = 0


@kernel
def next_counted(token, parameters):  # type: ignore[no-untyped-def]
    """The first token from ``token`` on that is counted: all are up to 64, then every 2nd, from 128 every 4th..."""
    skip = np.int64(1)
    while skip < (1 << parameters[SAMPLING]) and (skip << 6) <= token:
        skip <<= 1
    return (token + skip - 1) & -skip  # where skip doubles, tokens are multiples of the double


@kernel
def row_length(codes, at, channels, escapes, lengths):  # type: ignore[no-untyped-def]
    """The code length of one token in 1/256 bit."""
    length = np.int64(escapes) * ESCAPE_LENGTH
    for c in range(channels):
        length += lengths[codes[at + c] & np.uint32(0xFFFF)]
    return length


@kernel
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


@kernel
def period(token, parameters):  # type: ignore[no-untyped-def]
    """Tokens between updates after ``token`` tokens: half of what was seen, at most N_update."""
    return min(parameters[N_UPDATE], max(np.int64(1), token >> 1))


@kernel
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
        state[DIRTY] |= (np.int64(1) << classes) - 1
        state[SINCE_UPDATE] = 0
        state[SYMBOLS_SINCE] = 0
        state[NOVEL_SINCE] = 0


@kernel
def tokens_ahead(state, parameters, measure, left):  # type: ignore[no-untyped-def]
    """How many tokens can be coded before anything but the period could fire."""
    watched = parameters[THETA_LOW] + parameters[THETA_NEW] + parameters[DRIFT] > 0 or measure
    if watched or state[TOKEN] < parameters[WARMUP]:
        return np.int64(1)
    ahead = np.int64(1)
    while ahead < left and state[SINCE_UPDATE] + ahead < period(state[TOKEN] + ahead, parameters):
        ahead += 1
    return ahead


@kernel
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


def build(decoding: bool) -> Any:
    """The loop for one direction. The other direction's lines are dead code to the compiler."""

    @kernel
    def run(  # type: ignore[no-untyped-def]
        symbols,  # uint8[all tokens * channels]: read by the encoder, written by the decoder
        tokens,  # int64[streams]: tokens of each stream's run
        channels,
        class_of,  # uint8[streams * channels]
        classes,
        counts,  # int64[streams * classes, WINDOW]; prior and probs alike
        prior,
        probs,
        codes,  # uint32[streams * classes, 1 << CODE_SHIFT]
        slots,  # uint16[streams * classes + 1, 1 << table bits], the decoder's; the last row is spare
        span,  # int64[streams * classes, 2]: the range of symbols a window has counted
        states,  # int64[streams, STATE]
        parameters,
        lengths,
        measure,  # whether to sum the code length into state[LENGTH]
        literals,  # uint8: the escaped symbols in order, one spare entry behind them
        out,  # encoder: uint32 code of every symbol; decoder: uint32[channels] scratch
        lanes,  # decoder: uint32[1 << lanes_log2]
        lanes_log2,
        words,  # decoder: uint16, ``channels`` spare entries behind them
        word_end,
    ):
        """Code every run; return (literals used, words used). What lies past an end reads as the spare entries."""
        bits = parameters[TABLE_BITS]
        freq = np.zeros(WINDOW, np.int64)
        class_at = np.zeros(channels, np.int64)
        place_at = np.zeros(channels, np.int32)
        flat_codes = codes.reshape(-1)
        flat_slots = slots.reshape(-1)
        flat_counts = counts.reshape(-1)
        watchful = measure or parameters[THETA_LOW] + parameters[DRIFT] > 0
        literal = np.int64(0)
        word = np.int64(0)
        overrun = np.int64(0)
        i = np.int64(0)
        for stream in range(len(tokens)):
            state = states[stream]
            first = stream * classes
            for c in range(channels):
                class_at[c] = class_of[stream * channels + c]
                place_at[c] = class_at[c] << (bits if decoding else CODE_SHIFT)
            left = tokens[stream]
            while left > 0:
                if state[DIRTY]:
                    rebuild(counts, probs, codes, slots, span, first, classes, freq, state, parameters, decoding)
                rows = tokens_ahead(state, parameters, measure, left)
                before = literal
                codes_from = first << CODE_SHIFT
                at = np.int64(0) if decoding else i
                if decoding:
                    literal, word, more = decode_rows(
                        symbols, i, rows, channels, place_at, flat_slots, first << bits, flat_codes, codes_from, bits,
                        lanes, np.int64((1 << lanes_log2) - 1), words, word, word_end, out, literals, literal,
                    )  # fmt: skip
                    overrun += more
                    if watchful:
                        for c in range(channels):
                            out[c] = flat_codes[codes_from + np.int64(out[c])]
                else:
                    literal = code_rows(
                        symbols, i, rows, channels, place_at, flat_codes, codes_from, out, at, literals, literal
                    )
                escapes = literal - before
                state[NOVEL_SINCE] += escapes
                state[ESCAPES] += escapes
                low = np.int64(1 << 16)
                drifted = 0
                left -= rows
                while rows > 0:
                    counted = next_counted(state[TOKEN], parameters)
                    if parameters[ALPHA_INVERSE] <= 65536 and counted > state[TOKEN] and rows > 1:
                        passed = min(
                            rows - 1, counted - state[TOKEN]
                        )  # nothing decays, nothing can fire before the last
                        state[TOKEN] += passed
                        state[SINCE_UPDATE] += passed
                        state[SYMBOLS_SINCE] += passed * channels
                        i += passed * channels
                        rows -= passed
                        continue
                    if counted == state[TOKEN]:
                        count_row(
                            symbols, i, channels, class_at, flat_counts, first * WINDOW, flat_codes, codes_from,
                            escapes, state[INCREMENT],
                        )  # fmt: skip
                    if watchful:
                        low, drifted = watch_row(
                            out, at, channels, escapes, lengths, counts, prior, first, classes, state, parameters
                        )
                    end_token(low, channels, drifted, counts, first, classes, state, parameters)
                    i += channels
                    rows -= 1
        return literal, word + overrun

    return run


encode_run = build(False)
decode_run = build(True)
