"""The sweep over columns that are known, and the start of the next one."""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek, poke
from kvzip.linear.panel import SIDE, TILE, known16, panel16

ONE = np.float32(1.0)
ZERO = np.float32(0.0)


@step
def start_of(block, blocks):  # type: ignore[no-untyped-def]
    """Where a row block's tiles start."""
    return TILE * (block * blocks - block * (block - 1) // 2)


@borrowing
def sweep_known(r, y, shift, since, until, blocks, limit):  # type: ignore[no-untyped-def]
    """Sweep row blocks from ``since`` to ``until``, whose values ``y[shift:]`` are known; its last panel is left."""
    for b in range(since, until):
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
