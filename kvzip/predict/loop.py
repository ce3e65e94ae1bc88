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

from kvzip.coder.jit import borrowing, step
from kvzip.coder.lanes import WIDTH, sum16
from kvzip.coder.memory import advance, float_of, peek, pointer_of, poke
from kvzip.predict import symbols as coding
from kvzip.predict.energy import learn_usual
from kvzip.predict.grid import CODES, DOWN, LIFT, MANTISSA, NORMAL, OFFSET, SIGN_AT
from kvzip.predict.row import (
    ENERGY,
    ESCAPED,
    MEAN_AT,
    ROW,
    TOTAL,
    VARIANCE_AT,
    begin_row,
    end_row,
    expect,
    fetch_row,
    grow,
    look,
)
from kvzip.predict.rows import subtract
from kvzip.predict.sixteen import pack_group, read_group, write_group
from kvzip.predict.steps import AVERAGES, DRAFTED, GAINS, LEARNED, USUAL, WORK_ROWS, X
from kvzip.windows.estimator import CODE_SHIFT, quantise, rewrite, smooth, widen
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
    note_events,
    tokens_ahead,
    watch_row,
)

FETCHED = 2  # rows from the one that is coded to the one that is asked for


@borrowing
def rebuild(counts, probs, codes, slots, span, contexts, touched, freq, state, parameters):  # type: ignore[no-untyped-def]
    """New tables for the windows counted in since their last; the encoder has no ``slots`` but a spare one."""
    for k in range(contexts):
        if touched[k]:
            total = widen(counts, k, span)
            high = span[k, 1]
            low = min(span[k, 0], high)
            smooth(counts, probs, k, low, high, total, parameters[BETA])
            quantise(probs, k, low, high, parameters[TABLE_BITS], freq)
            state[REBUILDS] += rewrite(codes, slots, k, k << CODE_SHIFT, low, high, freq, len(slots) > 1)
            touched[k] = 0
    state[DIRTY] = 0


@step
def settle(  # type: ignore[no-untyped-def]
    quiet, escapes, channels, row_codes, watched, measure, lengths, counts, prior, touched, contexts, states, state,
    parameters, events, row,
):  # fmt: skip
    """The triggers after a row with so many escapes. ``quiet``: for how many rows nothing can fire, 0 if unknown."""
    poke(state, NOVEL_SINCE, peek(state, NOVEL_SINCE) + escapes)
    poke(state, ESCAPES, peek(state, ESCAPES) + escapes)
    if quiet == 0:
        quiet = tokens_ahead(states, parameters, measure, np.int64(1 << 30))
    if quiet > 1 and parameters[ALPHA_INVERSE] <= 65536:
        poke(state, TOKEN, peek(state, TOKEN) + 1)
        poke(state, SINCE_UPDATE, peek(state, SINCE_UPDATE) + 1)
        poke(state, SYMBOLS_SINCE, peek(state, SYMBOLS_SINCE) + channels)
        return quiet - 1
    low = np.int64(1 << 16)
    drifted = 0
    if measure:
        note_events(events, row, states, -1)
    if watched:
        low, drifted = watch_row(
            row_codes, 0, channels, escapes, lengths, counts, prior, 0, contexts, states, parameters
        )  # fmt: skip
        if drifted:
            touched[:] = 1
    end_token(low, channels, drifted, counts, 0, contexts, states, parameters)
    if measure:
        note_events(events, row, states, 1)
    return np.int64(0)


def build(decoding: bool, bf16: bool) -> Any:
    """The loop for one direction, for BF16 or for other types. The other lines are dead code to the compiler."""

    @borrowing
    def run(  # type: ignore[no-untyped-def]
        values,  # flat, unsigned, sixteen spare ones behind them: read by the encoder, written by the decoder
        streams,
        together,  # how many streams are coded at once, each a row behind the one before it
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
        drafted,  # whether there is a draft
        draft,  # float32, like ``values``, spare ones too: what they are expected to be, finite; else empty
        energy_step,  # groups between two looks at a token's energy; 0: never
        grid,
        averages,  # float32[streams, AVERAGES * padded]
        gains,  # float32[streams, GAINS * padded]
        memory,  # float32[streams, slots * padded]
        pair_memory,
        learned,  # int64[streams, LEARNED]
        live,  # int32[padded]: -1 for channels, 0 for padding
        rows,  # int64[together * ROW]: numbers of the rows in the making
        scratch,  # float32[together * WORK_ROWS * padded]
        integers,  # int32[4 * together * padded]
        naturals,  # uint32[2 * together * padded]
        symbols,  # uint8[together * padded]
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
        costs,  # if measured: uint16 a value, in 1/256 bit
        events,  # if measured: int64[4] a row, zeros, see ``note_events``
        freq,  # int64[WINDOW]: room to work in
        energies,  # int64[tokens], zeros: each token's energy
        literals,
        out,  # encoder: uint32[2 * (n + 16)]: codes of symbols, then of low bits, in the order of coding
        starts,  # encoder: int64[streams * tokens * groups + 1]: where each group coded begins in a half of ``out``
        lanes,
        lanes_log2,
        words,
        word_end,
    ):
        """Code every stream; return (literals used, words used). What lies past an end reads as the spare entries."""
        bits = parameters[TABLE_BITS]
        up = bits if decoding else np.int64(CODE_SHIFT)
        lift = float_of(np.int32((127 + min(np.int64(60), grid[LIFT])) << 23))
        unit = float_of(np.int32(max(np.int64(0), 127 - grid[LIFT]) << 23))  # 0: below what is learnt from
        sign_at, mask, mantissa, down = grid[SIGN_AT], grid[CODES], grid[MANTISSA], grid[DOWN]
        offset, normal, least = grid[OFFSET], grid[NORMAL], np.int64(1) << grid[MANTISSA]
        watched = measure or parameters[THETA_LOW] + parameters[DRIFT] > 0
        count, wide = len(groups), together * padded
        spare, line = np.int64(streams) * tokens * channels, np.int64(512 // (sign_at + 1))  # values to a cache line
        group_of, settings, start_of = pointer_of(groups), pointer_of(parameters), pointer_of(starts)
        x, taken, expected = pointer_of(values), pointer_of(literals), pointer_of(draft)
        cosines, living = pointer_of(turn), pointer_of(live)
        works, all_symbols, row_of = pointer_of(scratch), pointer_of(symbols), pointer_of(rows)
        packed, lows, coded = pointer_of(integers), pointer_of(naturals), pointer_of(out)
        places, row_widths, logs = advance(packed, wide), advance(packed, 2 * wide), advance(packed, 3 * wide)
        entries, coded_lows = advance(lows, wide), advance(coded, len(out) >> 1)
        lane, word_of, slot_at, count_of = pointer_of(lanes), pointer_of(words), pointer_of(slots), pointer_of(counts)
        lane_mask, literals_end = np.int64((1 << lanes_log2) - 1), len(literals) - 1
        state, touched_of, code_of = pointer_of(states), pointer_of(touched), pointer_of(codes)
        learn_of, mean_of, gain_of = pointer_of(learned), pointer_of(averages), pointer_of(gains)
        memory_of, pair_memory_of = pointer_of(memory), pointer_of(pair_memory)
        memory_row, pair_row = memory.shape[1], pair_memory.shape[1]
        quiet = literal = word = overrun = place = group = np.int64(0)  # the last two: how many were coded so far
        for band in range(0, streams, together):
            size = min(np.int64(together), streams - band)
            for now in range(tokens + size - 1):
                begin, end = max(np.int64(0), now + 1 - tokens), min(size, np.int64(now + 1))
                if peek(state, DIRTY):
                    rebuild(
                        counts, probs, codes, slots, span, contexts, touched, freq, states, parameters
                    )  # fmt: skip
                for j in range(begin, end):
                    stream, t = band + j, now - j
                    row, work = advance(row_of, j * ROW), advance(works, j * WORK_ROWS * padded)
                    learn, turned = advance(learn_of, stream * LEARNED), turned_of[stream]
                    ahead = min(t + FETCHED, tokens - 1)
                    fetch_row(
                        slot_of, pair_of, ahead, padded, advance(memory_of, stream * memory_row),
                        advance(pair_memory_of, stream * pair_row), x, (stream * tokens + ahead) * channels,
                        channels, line,
                    )  # fmt: skip
                    begin_row(
                        row, group_of, count, padded, turned, cosines, t * 32 * turned, work,
                        advance(mean_of, stream * AVERAGES * padded), advance(gain_of, stream * GAINS * padded),
                        advance(memory_of, stream * memory_row), np.int64(slot_of[t]) * padded, np.int64(times[t]),
                        advance(pair_memory_of, stream * pair_row), np.int64(pair_of[t]) * padded,
                        np.int64(pair_times[t]), energies[t], peek(learn, USUAL) >> 8,
                    )  # fmt: skip
                for q in range(count):
                    within, ahead = peek(group_of, 3 * q), peek(group_of, 3 * q + 1)
                    wanted = peek(group_of, 3 * q + 2)
                    looks = energy_step > 0 and q % energy_step == 0
                    for j in range(begin, end):
                        stream, p = band + j, j * padded + within
                        row, work = advance(row_of, j * ROW), advance(works, j * WORK_ROWS * padded)
                        mean_at, variance_at = peek(row, MEAN_AT) + within, peek(row, VARIANCE_AT) + within
                        at = (stream * tokens + now - j) * channels + ahead
                        if drafted:
                            mean_at = expect(work, mean_at, expected, at, DRAFTED * padded + within)
                        loud = look(row, looks, stream * channels + ahead)
                        pack_group(
                            bf16, work, mean_at, variance_at, loud, mantissa, down, offset, normal, mask, lift, up,
                            packed, places, p,
                        )  # fmt: skip
                        if decoding:
                            word = coding.take_group(
                                place, wanted, p, packed, places, slot_at, code_of, bits, lane, lane_mask, word_of,
                                word, entries, row_widths, lows,
                            )  # fmt: skip
                            into = at if wanted == WIDTH else spare
                            read_group(
                                bf16, entries, lows, packed, p, work, mean_at, variance_at, living, within, sign_at,
                                mask, least, offset, down, unit, x, into, all_symbols, X * padded + within, logs,
                            )  # fmt: skip
                            coding.move_some(x, into, at, wanted)  # what is behind may be decoded already
                        found = literal
                        if decoding:
                            found = coding.read_literals(x, at, wanted, p, entries, taken, literals_end, literal)
                        if not decoding or found > literal:
                            write_group(
                                bf16, x, at, packed, p, work, mean_at, variance_at, living, within, sign_at, mask,
                                bits, least, offset, down, unit, all_symbols, lows, X * padded + within, logs,
                            )  # fmt: skip
                        if not decoding:
                            poke(start_of, group, place)
                            found = coding.code_group(
                                x, at, wanted, p, all_symbols, lows, places, code_of, bits, coded, coded_lows,
                                place, taken, literal,
                            )  # fmt: skip
                        if drafted:
                            subtract(work, X * padded + within, expected, at, work, X * padded + within)
                        poke(row, ESCAPED, peek(row, ESCAPED) + found - literal)
                        literal, place, group = found, place + wanted, group + 1
                        if energy_step:
                            grow(row, np.int64(sum16(logs, 0)), wanted)
                if word > word_end:
                    overrun += word - word_end
                    word = word_end
                for j in range(begin, end):
                    stream, t, number = band + j, now - j, (band + j) * tokens + now - j
                    row, work = advance(row_of, j * ROW), advance(works, j * WORK_ROWS * padded)
                    learn, turned = advance(learn_of, stream * LEARNED), turned_of[stream]
                    if energy_step:
                        energies[t] = peek(row, ENERGY)
                        learn_usual(learn, USUAL, peek(row, TOTAL), channels)
                    end_row(
                        group_of, count, padded, turned, cosines, t * 32 * turned, work,
                        advance(mean_of, stream * AVERAGES * padded), advance(gain_of, stream * GAINS * padded),
                        advance(memory_of, stream * memory_row), np.int64(slot_of[t]) * padded, np.int64(times[t]),
                        advance(pair_memory_of, stream * pair_row), np.int64(pair_of[t]) * padded,
                        np.int64(pair_times[t]), learn, living,
                    )  # fmt: skip
                    escapes = peek(row, ESCAPED)
                    if watched:
                        coding.account(
                            decoding, measure, out, starts, group - (end - begin) * count + j - begin, end - begin,
                            groups, j * padded, naturals, integers, wide, codes, escapes, sign_at + 1, lengths, spent,
                            stream, costs, number * channels,
                        )  # fmt: skip
                    if next_counted(peek(state, TOKEN), settings) == peek(state, TOKEN):
                        coding.count_row(
                            advance(all_symbols, j * padded), group_of, count, advance(packed, j * padded), count_of,
                            code_of, escapes, peek(state, INCREMENT), touched_of,
                        )  # fmt: skip
                    quiet = settle(
                        quiet, escapes, channels, naturals, watched, measure, lengths, counts, prior, touched,
                        contexts, states, state, parameters, events, number,
                    )  # fmt: skip
        poke(start_of, np.int64(0) if decoding else group, place)
        return literal, word + overrun

    return run


encode_run = build(False, False)
decode_run = build(True, False)
encode_bf16 = build(False, True)
decode_bf16 = build(True, True)
