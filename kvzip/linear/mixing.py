"""Two predictions of the same column, p with the base and q without, added with weights that are learnt.

For every block of 16 columns, a and b minimise the sum of (y - a p - b q)^2 / variance over its past, which fades,
and over the blocks of this token that came before it, which show whether the base is good for this token. The
normal equations are 2 by 2, with a small ridge that holds a at 1 and b at 0.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek, poke
from kvzip.linear.panel import SIDE

PP, PQ, QQ, PY, QY, A, B = range(7)
SLOTS = 7  # doubles for each block of columns; one more row is for the token
FADE = 0.96
TOKEN_FADE = 0.9  # from block to block
TOKEN_WEIGHT = 16.0
RIDGE = 20.0
CLIP = np.float32(25.0)
ZERO = np.float32(0.0)
ONE = np.float32(1.0)
LEAST = np.float32(1e-30)


@step
def mix_block(mix, cols, block, blocks):  # type: ignore[no-untyped-def]
    """Weights for a block that is about to be coded: means become ``scale * p + other * q + shift``."""
    at = block * SLOTS
    now = blocks * SLOTS
    aa = mix[at + PP] + TOKEN_WEIGHT * mix[now + PP] + RIDGE
    bb = mix[at + QQ] + TOKEN_WEIGHT * mix[now + QQ] + RIDGE
    ab = mix[at + PQ] + TOKEN_WEIGHT * mix[now + PQ]
    u = mix[at + PY] + TOKEN_WEIGHT * mix[now + PY] + RIDGE
    v = mix[at + QY] + TOKEN_WEIGHT * mix[now + QY]
    d = aa * bb - ab * ab
    if d > 1e-6 * aa * bb:
        mix[at + A] = (u * bb - v * ab) / d
        mix[at + B] = (v * aa - u * ab) / d
    a = np.float32(mix[at + A])
    b = np.float32(mix[at + B])
    for o in range(block * SIDE, block * SIDE + SIDE):
        s = peek(cols.scale, o)
        poke(cols.other, o, s * b)
        poke(cols.scale, o, s * a)


@step
def learn_block(mix, cols, block, blocks, n, first, m, first_two):  # type: ignore[no-untyped-def]
    """Learn from a block: ``n`` from ``first`` on are the residuals of p, ``m`` from ``first_two`` on those of q.

    Leaves the residuals of the mixture in ``cols.mixed``.
    """
    at = block * SLOTS
    now = blocks * SLOTS
    a = np.float32(mix[at + A])
    b = np.float32(mix[at + B])
    rest = ONE - a - b
    pp = pq = qq = py = qy = ZERO
    for o in range(block * SIDE, block * SIDE + SIDE):
        y = peek(cols.y, first + o)
        u = peek(n, first + o)
        v = peek(m, first_two + o)
        p = y - u
        q = y - v
        mixed = a * u + b * v + rest * y
        poke(cols.mixed, o, mixed)
        s = peek(cols.spread, o)
        w = s * s / max(peek(cols.variance, o), LEAST)
        w = w if mixed * mixed * w < CLIP else ZERO
        pp += p * p * w
        pq += p * q * w
        qq += q * q * w
        py += p * y * w
        qy += q * y * w
    sums = (pp, pq, qq, py, qy)
    for i in range(5):
        mix[at + i] = mix[at + i] * FADE + sums[i]
        mix[now + i] = mix[now + i] * TOKEN_FADE + sums[i]


@borrowing
def next_token(mix, blocks):  # type: ignore[no-untyped-def]
    """Forget what was learnt of the token."""
    for i in range(5):
        mix[blocks * SLOTS + i] = 0.0
