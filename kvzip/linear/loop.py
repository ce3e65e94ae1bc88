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

from kvzip.coder.memory import peek, poke
from kvzip.linear.bits import borrowing
from kvzip.linear.block_code import ABSURD, code_pairs, code_singles
from kvzip.linear.learning import count_quantiles, expect_scales, gains, learn_scales, note_runs, rotate, surprise
from kvzip.linear.mixing import learn_block, mix_block, next_token
from kvzip.linear.panel import SIDE, TILE, known16, panel16
from kvzip.linear.quantile import COUNT_ROW, INVERSE_ROW, ROW, adapt, invert
from kvzip.linear.range64 import TOTAL
from kvzip.linear.repeats import TRUST_RIDGE, compare, lean, memorise, recall
from kvzip.linear.state import ABSURDITIES, SIGN

START = 16
PATIENCE = 4  # tokens with mostly absurd values after which all begins again
COUNT_ALL = 256
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
BASE_CLIP = np.float32(32.0)
LEAST_SPREAD = np.float32(1e-6)  # of the greatest one

# Slots of the integer parameters of a group.
BLOCKS, BASE, LIMIT, BACK, BOTH, PAIRS, OWN, REPEATS, STRIDE, COUNT_EVERY = range(10)
# Slots of the float parameters.
KEEP, WEIGHT_FLOOR, WEIGHT_CEILING, RATE, KEEP_TWO, SURPRISE, USUAL, DELTA, DELTA_TWO = range(9)
# Slots of the counters.
TOKEN, NEXT_ADAPT, STRANGE, CLOCK = range(4)


@borrowing
def start_of(block, blocks):  # type: ignore[no-untyped-def]
    """Where a row block's tiles start."""
    return TILE * (block * blocks - block * (block - 1) // 2)


@borrowing
def sweep_known(r, y, shift, until, blocks, limit):  # type: ignore[no-untyped-def]
    """Sweep the row blocks below ``until``, whose values ``y[shift:]`` are known; the last one's panel is left over."""
    for b in range(until):
        at = start_of(b, blocks)
        c = b * SIDE
        before = start_of(b - 1, blocks)
        k = c - SIDE
        if 0 < b <= limit:
            panel16(r.lower, before + TILE, r.x, c, r.p, c, r.e, k, r.g, k, r.n, k, 1)
        if b < limit:
            known16(r.lower, at, r.x, c, r.p, c, r.e, c, r.g, c, r.n, c, y, shift + c)
        if 0 < b <= limit:
            w = c + SIDE
            panel16(r.lower, before + 2 * TILE, r.x, w, r.p, w, r.e, k, r.g, k, r.n, k, blocks - b - 1)


@borrowing
def restart(r, y, shift):  # type: ignore[no-untyped-def]
    """x starts as the token that the recursion has yet to learn, p as nothing."""
    for j in range(len(r.x)):
        poke(r.x, j, peek(y, shift + j))
        poke(r.p, j, ZERO)
    if shift > 0:
        for j in range(SIDE):
            r.x[j] = ONE if j == 0 else ZERO


@borrowing
def normalise_base(y, base, row, count, centre, inverse, stride):  # type: ignore[no-untyped-def]
    """The base's columns of a token: clipped, and 0 where they are no numbers."""
    for j in range(count):
        v = (np.float64(base[row, j * stride]) - centre[j]) * inverse[j]
        v = min(max(v, -np.float64(BASE_CLIP)), np.float64(BASE_CLIP))
        poke(y, 1 + j, np.float32(v) if v == v else ZERO)


@borrowing
def spreads(rows, count, centre, inverse):  # type: ignore[no-untyped-def]
    """Means and inverse deviations of columns over rows 1 to START - 1, in double precision."""
    greatest = 0.0
    for j in range(count):
        mean = 0.0
        for t in range(1, START):
            v = np.float64(rows[t, j])
            mean += v if abs(v) < 3e38 else 0.0
        mean /= START - 1
        square = 0.0
        for t in range(1, START):
            v = np.float64(rows[t, j])
            square += (v - mean) * (v - mean) if abs(v) < 3e38 else 0.0
        centre[j] = mean
        inverse[j] = np.sqrt(square / (START - 1))
        greatest = max(greatest, inverse[j])
    for j in range(count):
        inverse[j] = 1.0 / max(inverse[j], greatest * LEAST_SPREAD, 1e-30)


@borrowing
def replay(one, two, cols, history, base_history, base_count, centres, inverses, whole, real, means, devs, keep_y):  # type: ignore[no-untyped-def]
    """Normalise all columns, and let the recursions learn from the first tokens."""
    blocks = whole[BLOCKS]
    first = whole[BASE] * SIDE
    own = whole[OWN]
    spreads(base_history, base_count, centres, inverses)
    spreads(history, own, means, devs)
    for o in range(own):
        cols.centre[o] = np.float32(means[o])
        cols.inverse[o] = np.float32(devs[o])
        cols.spread[o] = ONE / cols.inverse[o]
    back = whole[BACK]
    for t in range(1, START):
        cols.y[0] = ONE
        normalise_base(cols.y, base_history, t, base_count, centres, inverses, 1)
        for o in range(own):
            y = (history[t, o] - cols.centre[o]) * cols.inverse[o]
            cols.y[first + o] = y if abs(y) < ABSURD else ZERO
        sweep_known(one, cols.y, 0, blocks, blocks, whole[LIMIT])
        gains(one, real[KEEP], ONE)
        restart(one, cols.y, 0)
        if whole[BOTH]:
            for j in range(SIDE):
                keep_y[j] = cols.y[back + j]
                cols.y[back + j] = ONE if j == 0 else ZERO
            small = len(two.n) // SIDE
            sweep_known(two, cols.y, back, small, small, small)
            for j in range(SIDE):
                cols.y[back + j] = keep_y[j]
            gains(two, real[KEEP_TWO], ONE)
            restart(two, cols.y, back)


@borrowing
def forget(r, delta):  # type: ignore[no-untyped-def]
    """Start a recursion anew."""
    for j in range(len(r.lower)):
        poke(r.lower, j, ZERO)
    for j in range(len(r.x)):
        r.x[j] = r.p[j] = r.e[j] = r.g[j] = r.n[j] = ZERO
        r.d[j] = delta


@borrowing
def begin_again(one, two, cols, memory, whole, real, counters):  # type: ignore[no-untyped-def]
    """Nothing fits any more, as after padding of zeros: learn means and spreads from the next tokens."""
    forget(one, real[DELTA])
    if whole[BOTH]:
        forget(two, real[DELTA_TWO])
    for o in range(whole[OWN]):
        cols.centre[o] = cols.spread[o] = cols.scale[o] = cols.other[o] = cols.shift[o] = ZERO
        cols.variance[o] = cols.cross[o] = ZERO
        cols.inverse[o] = ONE
        memory.factor[o] = ONE
    for slot in range(len(memory.tags)):
        memory.tags[slot] = -1
    real[USUAL] = ZERO
    counters[TOKEN] = 0
    counters[STRANGE] = 0


@borrowing
def warm_up(cols, history, t, own):  # type: ignore[no-untyped-def]
    """Means of the tokens so far, as long as there is no recursion."""
    for o in range(own):
        history[t, o] = cols.value[o]
        mean = cols.shift[o]
        cols.shift[o] = mean + (cols.value[o] - mean) / np.float32(t + 1)


@borrowing
def first_variances(cols, kinds, own):  # type: ignore[no-untyped-def]
    """After the first token: half its square, half the mean square of its kind."""
    for kind in range(2):
        total = ZERO
        count = ZERO
        for o in range(own):
            if kinds[o] == kind:
                total += cols.residual[o] * cols.residual[o]
                count += ONE
        for o in range(own):
            if kinds[o] == kind:
                cols.variance[o] = np.float32(0.5) * (total / count + cols.residual[o] * cols.residual[o])


@borrowing
def run(  # type: ignore[no-untyped-def]
    decoding,
    k,  # uint16[tokens * own]: ordered integers, read by the encoder, written by the decoder
    tokens,
    base,  # float32[tokens, base columns]
    ids,  # int64[tokens]
    one, two, cols, sym, memory,
    kinds,  # int64[blocks, 3]: pairs, singles, kind of each block
    kind_of,  # int64[own]
    history, base_history, centres, inverses, angle, turn, rates, shares,
    whole, real, counters, constant, spare, means, devs, mix,
    words, starts, freqs,
):  # fmt: skip
    blocks = whole[BLOCKS]
    limit = whole[LIMIT]
    own = whole[OWN]
    back = whole[BACK]
    both = whole[BOTH] > 0
    base_blocks = whole[BASE]
    base_count = len(centres)
    small = len(two.n) // SIDE
    mine = np.uint64(0)
    other = np.uint64(0)
    at = np.int64(0)
    if decoding:
        mine = np.uint64(words[0]) | np.uint64(words[1]) << np.uint64(32)
        other = np.uint64(words[2]) | np.uint64(words[3]) << np.uint64(32)
        at = np.int64(4)
    i = np.int64(0)
    for t in range(tokens):
        token = counters[TOKEN]
        known = False
        trusted = (ZERO, ZERO)
        counted = token < COUNT_ALL or token % whole[COUNT_EVERY] == 0
        rotate(cols, whole[PAIRS], angle, turn)
        if token >= START:
            known = recall(memory, cols, ids[t] if whole[REPEATS] else np.int64(-1), own)
            if both:
                next_token(mix, own // SIDE)
            normalise_base(cols.y, base, t, base_count, centres, inverses, whole[STRIDE])
            cols.y[0] = ONE
        expect_scales(cols, whole[PAIRS], own, memory.factor)
        sweep_known(one, cols.y, 0, base_blocks, blocks, limit)
        if both:
            sweep_known(two, constant, 0, 1, small, small)
        energy = ONE
        if base_blocks > 1 and token >= START:
            base_load = surprise(one, base_blocks * SIDE)
            usual = real[USUAL]
            if usual > ZERO:
                ratio = min(max(base_load / usual, np.float32(0.1)), np.float32(10.0))
                energy = ONE + real[SURPRISE] * (ratio - ONE)
                real[USUAL] = usual + (base_load - usual) * np.float32(0.02)
            else:
                real[USUAL] = base_load
        seen = np.int64(0)
        for b in range(base_blocks, blocks):
            before = start_of(b - 1, blocks)
            c = b * SIDE
            f = c - SIDE
            if b <= limit:
                panel16(one.lower, before + TILE, one.x, c, one.p, c, one.e, f, one.g, f, one.n, f, 1)
            diagonal2 = rest2 = np.int64(0)
            if both:
                b2 = b - base_blocks + 1
                rest2 = start_of(b2 - 1, small)
                diagonal2 = start_of(b2, small)
                c -= back
                f -= back
                panel16(two.lower, rest2 + TILE, two.x, c, two.p, c, two.e, f, two.g, f, two.n, f, 1)
                rest2 += 2 * TILE
            place = (b * SIDE, base_blocks * SIDE, back)
            tiles = (
                start_of(b, blocks) if b < limit else np.int64(-1), diagonal2, before + 2 * TILE, rest2,
                blocks - b - 1 if b <= limit else np.int64(0),
            )  # fmt: skip
            flow = (energy, seen, mine, other, at, i)
            kind = kinds[b, 2]
            mixing = both and token >= START
            if known:
                trust = min((trusted[0] + TRUST_RIDGE) / (trusted[1] + TRUST_RIDGE), np.float32(3.0))
                lean(memory, cols, ids[t], b - base_blocks, own, max(trust, ZERO))
            if mixing:
                mix_block(mix, cols, b - base_blocks, own // SIDE)
            if kinds[b, 0] > 0:
                flow = code_pairs(
                    decoding,                    k, t * own, place, kinds[b, 0], one, two, both, tiles, cols, sym, kind, rates, words, starts,
                    freqs, flow,
                )  # fmt: skip
            else:
                flow = code_singles(
                    decoding,                    k, t * own, place, kinds[b, 1], one, two, both, tiles, cols, sym, kind, rates, words, starts,
                    freqs, flow,
                )  # fmt: skip
            if mixing:
                first = base_blocks * SIDE
                learn_block(mix, cols, b - base_blocks, own // SIDE, one.n, first, two.n, np.int64(SIDE))
            if known and both:
                trusted = compare(memory, cols, ids[t], b - base_blocks, own, np.int64(0), cols.mixed, trusted)
            elif known:
                trusted = compare(memory, cols, ids[t], b - base_blocks, own, base_blocks * SIDE, one.n, trusted)
            if counted:
                count_quantiles(starts, freqs, i, flow[5] - i, sym.counts, 2 * kind * COUNT_ROW, shares)
            energy, seen, mine, other, at, i = flow
        note_runs(k, t * own, sym.last, sym.run, own, sym.shape[SIGN])
        first_tokens = token < START
        if token == 0:
            first_variances(cols, kind_of, own)
        else:
            rate = max(ONE / np.float32(token + 2), real[RATE])
            learn_scales(cols, whole[PAIRS], own, rate, first_tokens, max(energy, np.float32(0.05)))
        if first_tokens:
            for j in range(base_count):
                base_history[token, j] = base[t, j * whole[STRIDE]]
            warm_up(cols, history, token, own)
            if token == START - 1:
                replay(one, two, cols, history, base_history, base_count, centres, inverses, whole, real,
                       means, devs, spare)  # fmt: skip
        else:
            first = base_blocks * SIDE
            if whole[REPEATS] and both:
                memorise(memory, cols, ids[t], known, np.int64(0), own, cols.mixed)
            elif whole[REPEATS]:
                memorise(memory, cols, ids[t], known, first, own, one.n)
            weight = ONE / min(max(energy, real[WEIGHT_FLOOR]), real[WEIGHT_CEILING])
            gains(one, real[KEEP], weight)
            restart(one, cols.y, 0)
            if both:
                gains(two, real[KEEP_TWO], weight)
                restart(two, cols.y, back)
        counters[TOKEN] = token + 1
        counters[STRANGE] = counters[STRANGE] + 1 if 2 * sym.shape[ABSURDITIES] > own and token >= START else 0
        sym.shape[ABSURDITIES] = 0
        if counters[STRANGE] == PATIENCE:
            begin_again(one, two, cols, memory, whole, real, counters)
        counters[CLOCK] += 1
        if counters[CLOCK] == counters[NEXT_ADAPT]:
            counters[NEXT_ADAPT] += min(counters[CLOCK], np.int64(64))
            for kind in range(2):
                adapt(sym.table, kind * ROW, sym.counts, 2 * kind * COUNT_ROW, sym.work, np.int64(TOTAL) - 2 * sym.shape[SIGN])
                if decoding:
                    invert(sym.table, kind * ROW, sym.inverse, kind * INVERSE_ROW)
    return at, i
