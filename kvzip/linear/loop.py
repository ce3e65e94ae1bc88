"""The loop over tokens of a group, one source for both directions.

    for each token    expect: rotate, recall, deviations
                      sweep the base, whose values are known
                      sweep and code the own blocks
                      learn: gains, deviations, repeats, distributions

A sweep both updates the recursion with the token before and predicts this one, so L passes through the CPU once.
The first START tokens are coded by running means alone; then their means and spreads normalise all columns for good,
and the recursion learns from all of them but the first, which is often unlike any other.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek, poke
from kvzip.linear.begin import START, begin_again, first_variances, normalise_base, replay, warm_up
from kvzip.linear.block_code import code_pairs, code_singles
from kvzip.linear.learning import count_quantiles, expect_scales, gains, learn_scales, note_runs, rotate, surprise
from kvzip.linear.mixing import learn_block, mix_block, next_token
from kvzip.linear.panel import SIDE, TILE, panel16
from kvzip.linear.parts import forget_token, learn_parts, mix_parts
from kvzip.linear.posterior import MOMENTS, integrate
from kvzip.linear.quantile import COUNT_ROW, INVERSE_ROW, ROW, adapt, invert
from kvzip.linear.range64 import TOTAL, TOTAL_BITS
from kvzip.linear.repeats import compare, lean, memorise, recall
from kvzip.linear.state import (
    ABSURDITIES,
    BACK,
    BASE,
    BLOCKS,
    BOTH,
    CLOCK,
    COARSE,
    COUNT_EVERY,
    KEEP,
    KEEP_TWO,
    LIMIT,
    NEAR,
    NEXT_ADAPT,
    OWN,
    PAIRS,
    RATE,
    REPEATS,
    SIGN,
    SPREAD_FLOOR,
    STRANGE,
    STRIDE,
    SURPRISE,
    TOKEN,
    USUAL,
    WEIGHT_CEILING,
    WEIGHT_FLOOR,
    WITH_PARTS,
)  # fmt: skip
from kvzip.linear.sweep import restart, start_of, sweep_known
from kvzip.linear.symbol_code import RUN

PATIENCE = 4  # tokens with mostly absurd values after which all begins again
LOST = np.float32(16.0)  # energy of a token whose draft is not what it was: nearly all values are clipped
COUNT_ALL = 256  # tokens whose quantiles are all counted
ADAPT_EVERY = np.int64(64)  # tokens between two adaptations, fewer at first
USUAL_RATE = np.float32(0.02)
LEAST_CALM = np.float32(0.05)
UNSOUND = np.float32(1e30)
ONE = np.float32(1.0)
ZERO = np.float32(0.0)


@borrowing
def note(into, p, first, own):  # type: ignore[no-untyped-def]
    """Keep the predictions of own columns as they are now."""
    for o in range(own):
        poke(into, o, peek(p, first + o))


@borrowing
def expect(one, two, cols, memory, work, base, t, token):  # type: ignore[no-untyped-def]
    """All that can be said before a token's first value; whether the token was seen before, and its first energy."""
    whole, real = work.whole, work.real
    own = whole[OWN]
    known = False
    rotate(cols, whole[PAIRS], work.angle, work.turn)
    if token[0] >= START:
        known = recall(memory, cols, token[1], own)
        if whole[WITH_PARTS]:
            forget_token(work.mix, own // SIDE)
        elif whole[BOTH]:
            next_token(work.mix, own // SIDE)
        normalise_base(cols.y, base, t, len(work.centres), work.centres, work.inverses, whole[STRIDE])
        cols.y[0] = ONE
    expect_scales(cols, whole[PAIRS], own, memory.factor)
    sweep_known(one, cols.y, 0, 0, whole[NEAR], whole[BLOCKS], whole[LIMIT])
    if whole[WITH_PARTS]:
        note(cols.near, one.p, whole[BASE] * SIDE, own)
    sweep_known(one, cols.y, 0, whole[NEAR], whole[BASE], whole[BLOCKS], whole[LIMIT])
    if whole[WITH_PARTS]:
        note(cols.based, one.p, whole[BASE] * SIDE, own)
    if whole[BOTH]:
        small = len(two.n) // SIDE
        sweep_known(two, work.constant, 0, 0, 1, small, small)
    energy = ONE
    if whole[BASE] > 1 and token[0] >= START:
        load = surprise(one, whole[BASE] * SIDE)
        usual = real[USUAL]
        if usual > ZERO:
            ratio = min(max(load / usual, np.float32(0.1)), np.float32(10.0))
            energy = ONE + real[SURPRISE] * (ratio - ONE)
            real[USUAL] = usual + (load - usual) * USUAL_RATE
        else:
            real[USUAL] = load
    return known, energy


@step
def approach(one, two, b, whole):  # type: ignore[no-untyped-def]
    """Bring the sweep to the diagonal of own block ``b``; where the block's tiles and those left over are."""
    blocks = whole[BLOCKS]
    before = start_of(b - 1, blocks)
    c = b * SIDE
    f = c - SIDE
    if b <= whole[LIMIT]:
        panel16(one.lower, before + TILE, one.x, c, one.p, c, one.e, f, one.g, f, one.n, f, 1)
    diagonal = start_of(b, blocks) if b < whole[LIMIT] else np.int64(-1)
    left = blocks - b - 1 if b <= whole[LIMIT] else np.int64(0)
    diagonal2 = rest2 = np.int64(0)
    if whole[BOTH]:
        small = len(two.n) // SIDE
        b2 = b - whole[BASE] + 1
        rest2 = start_of(b2 - 1, small) + 2 * TILE
        diagonal2 = start_of(b2, small)
        c = b2 * SIDE
        f = c - SIDE
        panel16(two.lower, rest2 - TILE, two.x, c, two.p, c, two.e, f, two.g, f, two.n, f, 1)
    return diagonal, diagonal2, before + 2 * TILE, rest2, left


@borrowing
def code_token(  # type: ignore[no-untyped-def]
    decoding, k, row, draft, drow, one, two, cols, sym, memory, work, words, starts, freqs, costs, token, known, flow,
):  # fmt: skip
    """Sweep and code the own blocks. ``token`` is (number, id)."""
    whole = work.whole
    first = whole[BASE] * SIDE
    own = whole[OWN]
    both = whole[BOTH] > 0
    mixing = both and token[0] >= START
    parts = whole[WITH_PARTS] > 0
    counted = token[0] < COUNT_ALL or token[0] % whole[COUNT_EVERY] == 0
    trusted = (ZERO, ZERO)
    for b in range(whole[BASE], whole[BLOCKS]):
        block = b - whole[BASE]
        tiles = approach(one, two, b, whole)
        place = (b * SIDE, first, whole[BACK], drow, whole[COARSE] > 0)
        kind = work.kinds[b, 2]
        if known:
            lean(memory, cols, token[1], block, own, trusted)
        if mixing and parts:
            mix_parts(work.mix, cols, block, own // SIDE)
        elif mixing:
            mix_block(work.mix, cols, block, own // SIDE)
        i = flow[5]
        if work.kinds[b, 0] > 0:
            flow = code_pairs(
                decoding, k, row, draft, place, work.kinds[b, 0], one, two, both, tiles, cols, sym, kind, work.rates,
                words, starts, freqs, flow,
            )  # fmt: skip
        else:
            flow = code_singles(
                decoding, k, row, draft, place, work.kinds[b, 1], one, two, both, tiles, cols, sym, kind, work.rates,
                words, starts, freqs, flow,
            )  # fmt: skip
        energy = max(flow[0], LEAST_CALM) if parts else ONE
        if mixing and parts:
            learn_parts(
                work.mix, cols, block, own // SIDE, one.n, first, two.n, np.int64(SIDE), energy, work.room
            )  # fmt: skip
        elif mixing:
            learn_block(work.mix, cols, block, own // SIDE, one.n, first, two.n, np.int64(SIDE))
        if known and both:
            trusted = compare(memory, cols, token[1], block, own, np.int64(0), cols.mixed, energy, trusted)
        elif known:
            trusted = compare(memory, cols, token[1], block, own, first, one.n, energy, trusted)
        if counted:
            count_quantiles(starts, freqs, i, flow[5] - i, sym.counts, 2 * kind * COUNT_ROW, work.shares)
        if len(costs):
            columns = max(2 * work.kinds[b, 0], work.kinds[b, 1])
            note_costs(k, row + block * SIDE, block * SIDE, columns, sym, freqs, i, costs)
    return flow


@borrowing
def note_costs(k, at, o, columns, sym, freqs, i, costs):  # type: ignore[no-untyped-def]
    """Put the bits of a block's values, whose symbols begin at ``i``, into ``costs``; they decide nothing."""
    for c in range(columns):
        bits = TOTAL_BITS - np.log2(np.float64(freqs[i]))
        i += 1
        if sym.run[o + c] >= RUN and k[at + c] != sym.last[o + c]:
            bits += TOTAL_BITS - np.log2(np.float64(freqs[i]))
            i += 1
        costs[at + c] = bits


@borrowing
def learn(one, two, cols, memory, work, base, t, token, known, energy):  # type: ignore[no-untyped-def]
    """What a token teaches; whether the recursions are still sound."""
    whole, real = work.whole, work.real
    own = whole[OWN]
    if token[0] == 0:
        first_variances(cols, work.kind_of, own)
    else:
        rate = max(ONE / np.float32(token[0] + 2), real[RATE])
        learn_scales(cols, whole[PAIRS], own, rate, token[0] < START, max(energy, LEAST_CALM))
    if token[0] < START:
        for j in range(len(work.centres)):
            work.base_history[token[0], j] = base[t, j * whole[STRIDE]]
        warm_up(cols, work.history, work.blurs, token[0], own)
        if token[0] == START - 1:
            replay(one, two, cols, work)
        return True
    heard = max(energy, LEAST_CALM) if whole[WITH_PARTS] else ONE
    if whole[BOTH]:
        memorise(memory, cols, token[1], known, np.int64(0), own, cols.mixed, heard)
    else:
        memorise(memory, cols, token[1], known, whole[BASE] * SIDE, own, one.n, heard)
    weight = ONE / min(max(energy, real[WEIGHT_FLOOR]), real[WEIGHT_CEILING])
    load = gains(one, real[KEEP], weight)
    restart(one, cols.y, 0)
    if whole[BOTH]:
        load += gains(two, real[KEEP_TWO], weight)
        restart(two, cols.y, whole[BACK])
    return load < UNSOUND


@borrowing
def keep_time(one, two, cols, sym, memory, work, token, sound, energy, decoding):  # type: ignore[no-untyped-def]
    """Count the token; begin again where nothing fits; adapt the distributions when it is time."""
    counters = work.counters
    counters[TOKEN] = token[0] + 1
    lost = work.real[SPREAD_FLOOR] > ZERO and energy > LOST
    strange = (lost or 2 * sym.shape[ABSURDITIES] > work.whole[OWN]) and token[0] >= START
    counters[STRANGE] = counters[STRANGE] + 1 if strange else 0
    sym.shape[ABSURDITIES] = 0
    if counters[STRANGE] == PATIENCE or not sound:
        begin_again(one, two, cols, memory, work)
    counters[CLOCK] += 1
    if counters[CLOCK] < counters[NEXT_ADAPT]:
        return
    counters[NEXT_ADAPT] += min(counters[CLOCK], ADAPT_EVERY)
    top = np.int64(TOTAL) - 2 * sym.shape[SIGN]
    for kind in range(2):
        adapt(sym.table, kind * ROW, sym.counts, 2 * kind * COUNT_ROW, sym.work, top)
        if decoding:
            invert(sym.table, kind * ROW, sym.inverse, kind * INVERSE_ROW)
        if work.whole[COARSE]:
            integrate(sym.table, kind * ROW, sym.moments, kind * MOMENTS)


@borrowing
def run(  # type: ignore[no-untyped-def]
    decoding,
    k,  # uint16[tokens * own]: ordered integers, read by the encoder, written by the decoder
    tokens,
    draft,  # float32[tokens * own]: what all values are relative to; float32[own] if it is the same for every token
    base,  # float32[tokens, base columns]
    ids,  # int64[tokens], below 0 for a token like no other
    one, two, cols, sym, memory, work,
    words,  # uint32: the decoder's payload; the last one is a spare 0
    starts, freqs,  # uint32[2 * tokens * own]
    costs,  # float32[tokens * own]: what values take in bits, for the statistics; empty if nobody wants to know
):  # fmt: skip
    """Code ``tokens`` tokens; the number of symbols."""
    mine = np.uint64(words[0]) | np.uint64(words[1]) << np.uint64(32)
    other = np.uint64(words[2]) | np.uint64(words[3]) << np.uint64(32)
    at = np.int64(4)
    i = np.int64(0)
    own = work.whole[OWN]
    stride = own if len(draft) > own else np.int64(0)
    for t in range(tokens):
        token = (work.counters[TOKEN], ids[t] if work.whole[REPEATS] else np.int64(-1))
        known, energy = expect(one, two, cols, memory, work, base, t, token)
        flow = (energy, np.int64(0), mine, other, at, i)
        energy, _, mine, other, at, i = code_token(
            decoding, k, t * own, draft, t * stride, one, two, cols, sym, memory, work, words, starts, freqs, costs,
            token, known, flow,
        )  # fmt: skip
        note_runs(k, t * own, sym.last, sym.run, own, sym.shape[SIGN])
        sound = learn(one, two, cols, memory, work, base, t, token, known, energy)
        keep_time(one, two, cols, sym, memory, work, token, sound, energy, decoding)
    return i
