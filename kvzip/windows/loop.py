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

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import peek, pointer_of
from kvzip.windows.estimator import CODE_SHIFT, ESCAPE, WINDOW, quantise, rewrite, smooth, widen
from kvzip.windows.rows import code_rows, count_row, decode_rows
from kvzip.windows.triggers import (
    ALPHA_INVERSE,
    BETA,
    DIRTY,
    DRIFT,
    ESCAPE_LENGTH,
    ESCAPES,
    INCREMENT,
    NOVEL_SINCE,
    REBUILDS,
    SINCE_UPDATE,
    SYMBOLS_SINCE,
    TABLE_BITS,
    THETA_LOW,
    TOKEN,
    end_token,
    next_counted,
    note_events,
    tokens_ahead,
    watch_row,
)


@borrowing
def rebuild(counts, probs, codes, slots, span, first, classes, freq, state, parameters):  # type: ignore[no-untyped-def]
    """Make new tables for the windows of one stream; the encoder has no ``slots`` but a spare one."""
    for c in range(classes):
        k = first + c
        total = widen(counts, k, span)
        high = span[k, 1]
        low = min(span[k, 0], high)  # nothing counted yet: no symbols, only the escape
        smooth(counts, probs, k, low, high, total, parameters[BETA])
        quantise(probs, k, low, high, parameters[TABLE_BITS], freq)
        state[REBUILDS] += rewrite(codes, slots, k, c << CODE_SHIFT, low, high, freq, len(slots) > 1)
    state[DIRTY] = 0


@borrowing
def note_row(out, at, channels, class_at, codes, codes_from, lengths, costs, i):  # type: ignore[no-untyped-def]
    """Put what each symbol of a token took into ``costs``, from ``i`` on."""
    for c in range(channels):
        code = out[at + c]
        escaped = code == peek(codes, codes_from + (np.int64(class_at[c]) << CODE_SHIFT) + ESCAPE)
        costs[i + c] = lengths[code & np.uint32(0xFFFF)] + ESCAPE_LENGTH * escaped


def build(decoding: bool) -> Any:
    """The loop for one direction. The other direction's lines are dead code to the compiler."""

    @borrowing
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
        costs,  # if measured: uint16 of every symbol, in 1/256 bit; else empty
        events,  # if measured: int64[4 * all tokens], zeros: triggers and resets after each; else empty
        freq,  # int64[WINDOW], class_at int64[channels], place_at int32[channels]: room to work in
        class_at,
        place_at,
        literals,  # uint8: the escaped symbols in order, one spare entry behind them
        out,  # encoder: uint32 code of every symbol; decoder: uint32[channels] scratch
        lanes,  # decoder: uint32[1 << lanes_log2]
        lanes_log2,
        words,  # decoder: uint16, ``channels`` spare entries behind them
        word_end,
    ):
        """Code every run; return (literals used, words used). What lies past an end reads as the spare entries."""
        bits = parameters[TABLE_BITS]
        flat_codes = pointer_of(codes)
        flat_slots = pointer_of(slots)
        flat_counts = pointer_of(counts)
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
                    rebuild(counts, probs, codes, slots, span, first, classes, freq, state, parameters)
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
                            out[c] = peek(flat_codes, codes_from + np.int64(out[c]))
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
                    if measure:
                        note_row(out, at, channels, class_at, flat_codes, codes_from, lengths, costs, i)
                        note_events(events, i // channels, state, -1)
                    if watchful:
                        low, drifted = watch_row(
                            out, at, channels, escapes, lengths, counts, prior, first, classes, state, parameters
                        )
                    end_token(low, channels, drifted, counts, first, classes, state, parameters)
                    if measure:
                        note_events(events, i // channels, state, 1)
                    i += channels
                    rows -= 1
        return literal, word + overrun

    return run


encode_run = build(False)
decode_run = build(True)
