"""Two predictions of the same column, p with the base and q without, added with weights that are learnt.

For every 16 columns, a and b minimise the decayed sum of (y - a p - b q)^2 / variance over all columns:
the normal equations are 2 by 2, with a small ridge that holds a at 1 and b at 0.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.memory import peek, poke
from kvzip.linear.bits import borrowing
from kvzip.linear.panel import SIDE

PP, PQ, QQ, PY, QY, A, B = range(7)
SLOTS = 7  # doubles for each block of columns
FADE = 0.995
RIDGE = 200.0
CLIP = np.float32(25.0)
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
LEAST = np.float32(1e-30)


@borrowing
def learn_mix(mix, cols, own, n, first, m, first_two):  # type: ignore[no-untyped-def]
    """Learn from a token: ``n`` from ``first`` on are the residuals of p, ``m`` from ``first_two`` on those of q.

    Leaves the residuals of the mixture in ``cols.mixed``, and new weights in ``mix``.
    """
    for block in range(own // SIDE):
        at = block * SLOTS
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
        mix[at + PP] = mix[at + PP] * FADE + pp
        mix[at + PQ] = mix[at + PQ] * FADE + pq
        mix[at + QQ] = mix[at + QQ] * FADE + qq
        mix[at + PY] = mix[at + PY] * FADE + py
        mix[at + QY] = mix[at + QY] * FADE + qy
        aa = mix[at + PP] + RIDGE
        bb = mix[at + QQ] + RIDGE
        ab = mix[at + PQ]
        d = aa * bb - ab * ab
        if d > 1e-6 * aa * bb:
            u64 = mix[at + PY] + RIDGE
            v64 = mix[at + QY]
            mix[at + A] = (u64 * bb - v64 * ab) / d
            mix[at + B] = (v64 * aa - u64 * ab) / d


@borrowing
def apply_mix(mix, cols, own):  # type: ignore[no-untyped-def]
    """Means as ``scale * p + other * q + shift`` with the weights."""
    for o in range(own):
        at = (o // SIDE) * SLOTS
        s = peek(cols.scale, o)
        poke(cols.other, o, s * np.float32(mix[at + B]))
        poke(cols.scale, o, s * np.float32(mix[at + A]))
