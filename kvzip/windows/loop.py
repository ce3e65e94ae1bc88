"""The coding loop: one source for both directions, so that encoder and decoder cannot drift apart.

A *run* is the tokens of one stream in one block: ``tokens`` rows of ``channels`` symbols. Within a token the tables
are frozen; between tokens ``end_token`` counts the row, decays, looks at the triggers and at drift, and marks
windows dirty; a dirty window's table is rebuilt at the start of the next token that uses it.

The encoder writes one code per symbol for ``rans.encode_lanes`` to put into words backwards; the decoder takes
symbols out of the lanes as it goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from kvzip.coder.memory import peek, poke
from kvzip.windows.estimator import (
    ESCAPE,
    INCREMENT_CEILING,
    WINDOW,
    quantise,
    renormalise,
    rewrite,
    smooth,
    widen,
)

# Slots of a stream's state vector (int64).
TOKEN, INCREMENT, SINCE_UPDATE, SYMBOLS_SINCE, NOVEL_SINCE, DIRTY, FAST, SLOW, SINCE_RESET = range(9)
PERIODIC, CONFIDENCE, NOVELTY, REBUILDS, RESETS, ESCAPES, LENGTH = range(9, 16)
STATE = 16
COUNTERS = slice(PERIODIC, LENGTH + 1)

# Slots of the parameter vector (int64); see windows.parameters for units.
ALPHA_INVERSE, BETA, THETA_LOW, THETA_NEW, N_UPDATE, WARMUP, DRIFT, DRIFT_KEEP, SAMPLING, TABLE_BITS = range(10)
PARAMETERS = 10

DRIFT_FAST = 3  # averages of the code length: rates 2^-3 and 2^-7 per token
DRIFT_SLOW = 7
DRIFT_REST = 32  # tokens after a reset before the next one
ESCAPE_LENGTH = 8 << 8  # an escaped symbol's 8 literal bits, in 1/256 bit


@njit(nogil=True, cache=True, error_model="numpy")
def rebuild(counts, probs, codes, slots, span, first, classes, freq, state, parameters, decoding):  # type: ignore[no-untyped-def]
    """Make new tables for the dirty windows of one stream (bits of ``state[DIRTY]``, one per class)."""
    for c in range(classes):
        if (state[DIRTY] >> c) & 1:
            k = first + c
            total = widen(counts, k, span)
            low, high = span[k]
            smooth(counts, probs, k, low, high, total, parameters[BETA])
            quantise(probs, k, low, high, parameters[TABLE_BITS], freq)
            state[REBUILDS] += rewrite(codes, slots, k, low, high, freq, decoding)
    state[DIRTY] = 0


@njit(nogil=True, cache=True, error_model="numpy")
def sampled_increment(state, parameters):  # type: ignore[no-untyped-def]
    """The weight of the coming token: 0 where sampling skips it. Every token counts up to 64, then every 2nd, 4th..."""
    skip = np.int64(1)
    while skip < (1 << parameters[SAMPLING]) and (skip << 6) <= state[TOKEN]:
        skip <<= 1
    if state[TOKEN] & (skip - 1):
        return np.int64(0)
    return state[INCREMENT]


@njit(nogil=True, cache=True, error_model="numpy")
def row_length(codes, at, channels, escapes, lengths):  # type: ignore[no-untyped-def]
    """The code length of one token in 1/256 bit."""
    length = np.int64(escapes) * ESCAPE_LENGTH
    for c in range(channels):
        length += lengths[codes[at + c] & np.uint32(0xFFFF)]
    return length


@njit(nogil=True, cache=True, error_model="numpy")
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
    for k in range(first, first + classes):
        for s in range(WINDOW):
            fresh = ((prior[k, s] >> 8) * state[INCREMENT]) >> 8
            counts[k, s] = (counts[k, s] * keep + fresh * (256 - keep)) >> 8
    state[SLOW] = state[FAST]
    state[SINCE_RESET] = 0
    state[RESETS] += 1
    return 1


@njit(nogil=True, cache=True, error_model="numpy")
def end_token(low, escapes, channels, drifted, counts, first, classes, state, parameters):  # type: ignore[no-untyped-def]
    """Decay, then the triggers: confidence, novelty, period; mark every window of the stream dirty if one fired."""
    state[TOKEN] += 1
    state[SINCE_UPDATE] += 1
    state[SYMBOLS_SINCE] += channels
    state[NOVEL_SINCE] += escapes
    state[ESCAPES] += escapes
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
    elif state[SINCE_UPDATE] >= min(parameters[N_UPDATE], max(np.int64(1), state[TOKEN] >> 1)):
        reason = np.int64(PERIODIC)
    if reason >= 0:
        state[reason] += 1
    if reason >= 0 or drifted > 0:
        state[INCREMENT] = renormalise(counts, first, classes, state[INCREMENT])
        state[DIRTY] |= (np.int64(1) << classes) - 1
        state[SINCE_UPDATE] = 0
        state[SYMBOLS_SINCE] = 0
        state[NOVEL_SINCE] = 0


def build(decoding: bool) -> Any:
    """The loop for one direction. The other direction's lines are dead code to the compiler."""

    @njit(nogil=True, cache=True, error_model="numpy")
    def run(  # type: ignore[no-untyped-def]
        symbols,  # uint8[all tokens * channels]: read by the encoder, written by the decoder
        tokens,  # int64[streams]: tokens of each stream's run
        channels,
        class_of,  # uint8[streams * channels]
        classes,
        counts,  # int64[streams * classes, WINDOW]; prior and probs alike
        prior,
        probs,
        codes,  # uint32[streams * classes, WINDOW]
        slots,  # uint16[streams * classes, 1 << table bits], the decoder's
        span,  # int64[streams * classes, 2]: the range of symbols a window has counted
        states,  # int64[streams, STATE]
        parameters,
        lengths,
        measure,  # whether to sum the code length into state[LENGTH]
        literals,  # uint8: the escaped symbols in order, one spare byte behind them
        out,  # encoder: uint32 code of every symbol; decoder: uint32[channels] scratch
        lanes,  # decoder: uint64[1 << lanes_log2]
        lanes_log2,
        words,  # decoder: uint16, one spare word behind them
    ):
        """Code every run; return (literals used, words used). What lies past the end reads as the spare entry."""
        bits = parameters[TABLE_BITS]
        freq = np.zeros(WINDOW, np.int64)
        code_at = np.zeros(channels, np.int64)
        slot_at = np.zeros(channels, np.int64)
        flat_codes = codes.reshape(-1)
        flat_slots = slots.reshape(-1)
        flat_counts = counts.reshape(-1)
        mask = np.uint64((1 << bits) - 1)
        up = np.uint64(bits)
        low16 = np.uint64(0xFFFF)
        lane_mask = np.int64((1 << lanes_log2) - 1)
        floor = np.uint64(1 << 16)
        last_word = np.int64(len(words) - 1)
        last_literal = np.int64(len(literals) - 1)
        literal = np.int64(0)
        word = np.int64(0)
        i = np.int64(0)
        for stream in range(len(tokens)):
            state = states[stream]
            first = stream * classes
            for c in range(channels):
                code_at[c] = (first + np.int64(class_of[stream * channels + c])) * WINDOW
                slot_at[c] = (first + np.int64(class_of[stream * channels + c])) << bits
            for _ in range(tokens[stream]):
                if state[DIRTY]:
                    rebuild(counts, probs, codes, slots, span, first, classes, freq, state, parameters, decoding)
                increment = sampled_increment(state, parameters)
                before = literal
                row = i
                at = np.int64(0) if decoding else row
                for c in range(channels):
                    base = peek(code_at, c)
                    if decoding:
                        lane = i & lane_mask
                        x = peek(lanes, lane)
                        slot = x & mask
                        s = np.int64(peek(flat_slots, peek(slot_at, c) + np.int64(slot)))
                        code = peek(flat_codes, base + s)
                        x = (np.uint64(code) & low16) * (x >> up) + slot - np.uint64(code >> np.uint32(16))
                        refill = x < floor
                        filled = (x << np.uint64(16)) | np.uint64(peek(words, min(word, last_word)))
                        x = filled if refill else x
                        word += np.int64(refill)
                        poke(lanes, lane, x)
                        if s == ESCAPE:
                            s = np.int64(peek(literals, min(literal, last_literal)))
                            literal += 1
                            flat_counts[base + ESCAPE] += increment
                        poke(symbols, i, np.uint8(s))
                    else:
                        s = np.int64(peek(symbols, i))
                        code = peek(flat_codes, base + s)
                        if code == 0:
                            code = peek(flat_codes, base + ESCAPE)
                            poke(literals, literal, np.uint8(s))
                            literal += 1
                            flat_counts[base + ESCAPE] += increment
                    poke(out, at + c, code)
                    i += 1
                escapes = literal - before
                if increment > 0:
                    for c in range(channels):
                        place = peek(code_at, c) + np.int64(peek(symbols, row + c))
                        poke(flat_counts, place, peek(flat_counts, place) + increment)
                low = np.int64(65536)
                if parameters[THETA_LOW] > 0:
                    for c in range(channels):
                        low = min(low, np.int64(out[at + c] & np.uint32(0xFFFF)))
                    low = low << (16 - bits)
                drifted = np.int64(0)
                if measure or parameters[DRIFT] > 0:
                    length = row_length(out, at, channels, escapes, lengths)
                    state[LENGTH] += length
                    if parameters[DRIFT] > 0:
                        drifted = watch_drift(length, counts, prior, first, classes, state, parameters)
                end_token(low, escapes, channels, drifted, counts, first, classes, state, parameters)
        return literal, word

    return run


encode_run = build(False)
decode_run = build(True)
