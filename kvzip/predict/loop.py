"""The predictive coding loop of a block's streams: one source for both directions.

predict  mean and variance of a token's row from the rows before it    steps
pack     what its symbols are relative to                              grid
code     symbols and low bits into codes, or out of the lanes          symbols
learn    means, variances, repeated rows, the token's energy           steps
count    windows and their triggers                                    windows.triggers
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvzip.coder.jit import kernel
from kvzip.coder.lanes import sum16
from kvzip.coder.memory import advance, float_of, peek, pointer_of, poke
from kvzip.predict import symbols as coding
from kvzip.predict.energy import factor, learn_usual
from kvzip.predict.grid import CODES, DOWN, LIFT, MANTISSA, NORMAL, OFFSET, SIGN_AT, pack
from kvzip.predict.sixteen import read, write
from kvzip.predict.steps import AVERAGES, GAINS, LEARNED, USUAL, X, learn_row, predict_row, turn_row, unturn_row
from kvzip.windows.estimator import CODE_SHIFT, WINDOW, quantise, rewrite, smooth, widen
from kvzip.windows.triggers import (
    ALPHA_INVERSE,
    BETA,
    DIRTY,
    DRIFT,
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
    tokens_ahead,
)


@kernel
def rebuild(counts, probs, codes, slots, span, contexts, touched, freq, state, parameters, decoding):  # type: ignore[no-untyped-def]
    """New tables for the windows that were counted in since their last."""
    for k in range(contexts):
        if touched[k]:
            total = widen(counts, k, span)
            high = span[k, 1]
            low = min(span[k, 0], high)
            smooth(counts, probs, k, low, high, total, parameters[BETA])
            quantise(probs, k, low, high, parameters[TABLE_BITS], freq)
            state[REBUILDS] += rewrite(codes, slots, k, k << CODE_SHIFT, low, high, freq, decoding)
            touched[k] = 0
    state[DIRTY] = 0


def build(decoding: bool) -> Any:
    """The loop for one direction. The other direction's lines are dead code to the compiler."""

    @kernel
    def run(  # type: ignore[no-untyped-def]
        values,  # flat, unsigned, sixteen spare ones behind them: read by the encoder, written by the decoder
        streams,
        tokens,
        channels,
        groups,  # int64[groups, 3], see grid.groups_of
        padded,  # width of a padded row
        turned_of,  # int64[streams]: how many groups hold first channels of pairs to rotate
        turn,  # float32[tokens * 2 * 16 * most of those]: cosines and sines by token
        slot_of,  # int32[tokens]: the token's place in the memory of repeated tokens, -1 for none
        times,  # int32[tokens]: how often it was seen before
        pair_of,  # the same two for pairs of tokens
        pair_times,
        energy_step,  # groups between two looks at a token's energy; 0: never
        grid,
        averages,  # float32[streams, AVERAGES * padded]
        gains,  # float32[streams, GAINS * padded]
        memory,  # float32[streams, slots * padded]
        pair_memory,
        learned,  # int64[streams, LEARNED]
        live,  # int32[padded]: -1 for channels, 0 for padding
        scratch,  # float32[WORK_ROWS * padded]
        integers,  # int32[4 * padded]
        naturals,  # uint32[2 * padded]
        symbols,  # uint8[padded]
        counts,
        prior,
        probs,
        codes,
        slots,
        span,
        touched,  # uint8[contexts]
        contexts,
        states,
        parameters,
        lengths,
        measure,  # whether to add up in ``spent`` what streams take
        spent,  # int64[streams, 3]
        literals,
        out,  # encoder: uint32[2 * (n + 16)]: codes of symbols, then of low bits
        lanes,
        lanes_log2,
        words,
        word_end,
    ):
        """Code every stream; return (literals used, words used). What lies past an end reads as the spare entries."""
        bits = parameters[TABLE_BITS]
        up = bits if decoding else np.int64(CODE_SHIFT)
        freq = np.zeros(WINDOW, np.int64)
        energies = np.zeros(tokens, np.int64)
        lift = float_of(np.int32((127 + min(np.int64(60), grid[LIFT])) << 23))
        unit = float_of(np.int32(max(np.int64(0), 127 - grid[LIFT]) << 23))  # 0: below what is learnt from
        sign_at, mask, mantissa, down = grid[SIGN_AT], grid[CODES], grid[MANTISSA], grid[DOWN]
        offset, normal, least = grid[OFFSET], grid[NORMAL], np.int64(1) << grid[MANTISSA]
        watched = measure or parameters[THETA_LOW] + parameters[DRIFT] > 0
        decays = parameters[ALPHA_INVERSE] > 65536
        count = len(groups)
        group_of, settings = pointer_of(groups), pointer_of(parameters)
        x, taken, cosines, living = pointer_of(values), pointer_of(literals), pointer_of(turn), pointer_of(live)
        work, row_symbols, coded = pointer_of(scratch), pointer_of(symbols), pointer_of(out)
        packed, lows = pointer_of(integers), pointer_of(naturals)
        places, row_widths, logs = advance(packed, padded), advance(packed, 2 * padded), advance(packed, 3 * padded)
        entries = advance(lows, padded)
        coded_lows = advance(coded, len(out) >> 1)
        lane, word_of = pointer_of(lanes), pointer_of(words)
        lane_mask = np.int64((1 << lanes_log2) - 1)
        literals_end = len(literals) - 1
        state, touched_of, code_of = pointer_of(states), pointer_of(touched), pointer_of(codes)
        slot_at, count_of = pointer_of(slots), pointer_of(counts)
        quiet = np.int64(0)
        literal = np.int64(0)
        word = np.int64(0)
        overrun = np.int64(0)
        i = np.int64(0)
        for stream in range(streams):
            learn = advance(pointer_of(learned), stream * LEARNED)
            own = advance(pointer_of(averages), stream * AVERAGES * padded)
            own_gains = advance(pointer_of(gains), stream * GAINS * padded)
            rows_of = advance(pointer_of(memory), stream * memory.shape[1])
            pairs_of = advance(pointer_of(pair_memory), stream * pair_memory.shape[1])
            turned = turned_of[stream]
            for t in range(tokens):
                if peek(state, DIRTY):
                    rebuild(
                        counts, probs, codes, slots, span, contexts, touched, freq, states, parameters, decoding
                    )  # fmt: skip
                if quiet == 0:
                    quiet = tokens_ahead(states, parameters, measure, np.int64(1 << 30))
                slot, seen = np.int64(slot_of[t]) * padded, np.int64(times[t])
                pair, pair_seen = np.int64(pair_of[t]) * padded, np.int64(pair_times[t])
                predict_row(
                    group_of, count, padded, work, own, own_gains, rows_of, slot, seen, pairs_of, pair, pair_seen,
                )  # fmt: skip
                turn_at = t * 32 * turned
                mean_at, variance_at = turn_row(group_of, count, padded, turned, cosines, turn_at, work)
                before = literal
                total = np.int64(0)
                usual = peek(learn, USUAL) >> 8
                energy, loud = energies[t], np.float32(1)
                for q in range(count):
                    p, live = peek(group_of, 3 * q), peek(group_of, 3 * q + 2)
                    at = i + peek(group_of, 3 * q + 1)
                    if energy_step and q % energy_step == 0:
                        coded_before = stream * channels + peek(group_of, 3 * q + 1)
                        loud = factor(energy, coded_before)
                    pack(
                        work, mean_at + p, work, variance_at + p, loud, mantissa, down, offset, normal, mask, lift,
                        up, packed, p, places, p,
                    )  # fmt: skip
                    if decoding:
                        word = coding.take_group(
                            at, live, p, packed, places, slot_at, code_of, bits, lane, lane_mask, word_of, word,
                            entries, row_widths, lows,
                        )  # fmt: skip
                        read(
                            entries, p, lows, p, packed, p, work, mean_at + p, work, variance_at + p, living, p,
                            sign_at, mask, least, offset, down, unit, x, at, row_symbols, p, work, X * padded + p,
                            logs, 0,
                        )  # fmt: skip
                    found = literal
                    if decoding:
                        found = coding.read_literals(x, at, live, p, entries, taken, literals_end, literal)
                    if not decoding or found > literal:
                        write(
                            x, at, packed, p, work, mean_at + p, work, variance_at + p, living, p, sign_at, mask,
                            bits, least, offset, down, unit, row_symbols, p, lows, p, work, X * padded + p, logs, 0,
                        )  # fmt: skip
                    if decoding:
                        literal = found
                    else:
                        literal = coding.code_group(
                            x, at, live, p, row_symbols, lows, places, code_of, bits, coded, coded_lows, taken,
                            literal,
                        )  # fmt: skip
                    if energy_step:
                        logs_sum = np.int64(sum16(logs, 0))
                        total += logs_sum
                        energy += logs_sum - usual * live
                if word > word_end:
                    overrun += word - word_end
                    word = word_end
                if energy_step:
                    energies[t] = energy
                    learn_usual(learn, USUAL, total, channels)
                escapes = literal - before
                row_at = unturn_row(group_of, count, padded, turned, cosines, turn_at, work)
                learn_row(
                    group_of, count, padded, work, row_at, own, own_gains, rows_of, slot, seen, pairs_of, pair,
                    pair_seen, learn, living,
                )  # fmt: skip
                if measure:
                    coding.spend(
                        decoding, out, i, groups, integers, naturals, padded, codes, escapes, sign_at + 1, lengths,
                        spent, stream,
                    )  # fmt: skip
                poke(state, NOVEL_SINCE, peek(state, NOVEL_SINCE) + escapes)
                poke(state, ESCAPES, peek(state, ESCAPES) + escapes)
                if next_counted(peek(state, TOKEN), settings) == peek(state, TOKEN):
                    coding.count_row(
                        row_symbols, group_of, count, packed, count_of, code_of, escapes, peek(state, INCREMENT),
                        touched_of,
                    )  # fmt: skip
                quiet -= 1
                if quiet > 0 and not decays:
                    poke(state, TOKEN, peek(state, TOKEN) + 1)
                    poke(state, SINCE_UPDATE, peek(state, SINCE_UPDATE) + 1)
                    poke(state, SYMBOLS_SINCE, peek(state, SYMBOLS_SINCE) + channels)
                else:
                    quiet = np.int64(0)
                    low = np.int64(1 << 16)
                    drifted = 0
                    if watched:
                        low, drifted = coding.watch(
                            decoding, out, i, groups, naturals, padded, codes, channels, escapes, lengths, counts,
                            prior, contexts, states, parameters,
                        )  # fmt: skip
                        if drifted:
                            touched[:] = 1
                    end_token(low, channels, drifted, counts, 0, contexts, states, parameters)
                i += channels
        return literal, word + overrun

    return run


encode_run = build(False)
decode_run = build(True)
