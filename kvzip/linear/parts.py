"""What the parts of a prediction add to it, each with a weight that is learnt: mixing for a base of several layers.

The parts are what the base's nearest layer says, what those behind it add, what the token's own columns add, and the
prediction of the recursion without a base. For every block of 16 columns their weights minimise the sum of the
squared error / (variance * the token's energy) over its past, which fades, and over the blocks of this token that
came before it. The normal equations are 4 by 4, with a small ridge that holds the weights at 1, 1, 1 and 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek, poke
from kvzip.linear.panel import SIDE

PARTS = 4
RIGHT = PARTS * (PARTS + 1) // 2  # the equations: a triangle, row after row, then the right sides
SUMS = RIGHT + PARTS
SLOTS = SUMS + PARTS  # doubles for each block of columns: the sums, then the weights
FADE = 0.98
TOKEN_FADE = 0.9  # from block to block
TOKEN_WEIGHT = 4.0
RIDGE = 20.0
SINGULAR = 1e-9
UNSOUND = np.float32(1e6)  # sum of a block's parts
MOST_WEIGHT = np.float32(1e12)
CLIP = np.float32(25.0)
ZERO = np.float32(0.0)
ONE = np.float32(1.0)
LEAST = np.float32(1e-30)


def start_weights(blocks: int) -> NDArray[np.float64]:
    """Nothing is known of ``blocks`` blocks; one row more is for the token, and one to solve in."""
    out = np.zeros((blocks + 2, SLOTS))
    out[:, SUMS : SLOTS - 1] = 1.0
    return out.reshape(-1)


@borrowing
def solve(mix, block, blocks):  # type: ignore[no-untyped-def]
    """The weights of a block; they stay as they are where the equations are as good as singular."""
    at = block * SLOTS
    now = blocks * SLOTS
    room = now + SLOTS
    for i in range(SUMS):
        mix[room + i] = mix[at + i] + TOKEN_WEIGHT * mix[now + i]
    for i in range(PARTS):
        row = room + i * (i + 1) // 2
        mix[row + i] += RIDGE
        size = mix[row + i]
        right = mix[room + RIGHT + i] + (RIDGE if i < PARTS - 1 else 0.0)
        for j in range(i):  # the row becomes L times D, then L
            other = room + j * (j + 1) // 2
            for k in range(j):
                mix[row + j] -= mix[row + k] * mix[other + k]
        for j in range(i):
            scaled = mix[row + j]
            mix[row + j] = scaled / mix[room + j * (j + 1) // 2 + j]
            mix[row + i] -= scaled * mix[row + j]
            right -= mix[row + j] * mix[room + RIGHT + j]
        if not mix[row + i] > SINGULAR * size:
            return
        mix[room + RIGHT + i] = right
    for back in range(PARTS):
        i = PARTS - 1 - back
        weight = mix[room + RIGHT + i] / mix[room + i * (i + 1) // 2 + i]
        for k in range(i + 1, PARTS):
            weight -= mix[room + k * (k + 1) // 2 + i] * mix[at + SUMS + k]
        mix[at + SUMS + i] = weight


@step
def mix_parts(mix, cols, block, blocks):  # type: ignore[no-untyped-def]
    """Weights for a block that is about to be coded: means become ``scale * p + other * q + shift``."""
    solve(mix, block, blocks)
    at = block * SLOTS + SUMS
    near = np.float32(mix[at] - mix[at + 1])
    based = np.float32(mix[at + 1] - mix[at + 2])
    whole = np.float32(mix[at + 2])
    other = np.float32(mix[at + 3])
    for o in range(block * SIDE, block * SIDE + SIDE):
        s = peek(cols.scale, o)
        known = near * peek(cols.near, o) + based * peek(cols.based, o)
        poke(cols.shift, o, peek(cols.shift, o) + s * known)
        poke(cols.other, o, s * other)
        poke(cols.scale, o, s * whole)


@step
def learn_parts(mix, cols, block, blocks, n, first, m, first_two, energy, room):  # type: ignore[no-untyped-def]
    """Learn from a block: ``n`` from ``first`` on are the residuals of p, ``m`` from ``first_two`` on those of q.

    Leaves the residuals of the mixture in ``cols.mixed``. ``room`` holds a block's parts, values and weights.
    """
    at = block * SLOTS
    now = blocks * SLOTS
    a = np.float32(mix[at + SUMS])
    b = np.float32(mix[at + SUMS + 1])
    c = np.float32(mix[at + SUMS + 2])
    d = np.float32(mix[at + SUMS + 3])
    calm = ONE / energy
    for i in range(SIDE):
        o = block * SIDE + i
        y = peek(cols.y, first + o)
        near = peek(cols.near, o)
        far = peek(cols.based, o) - near
        mine = y - peek(n, first + o) - peek(cols.based, o)
        other = y - peek(m, first_two + o)
        mixed = y - a * near - b * far - c * mine - d * other
        poke(cols.mixed, o, mixed)
        s = peek(cols.spread, o)
        w = min(s * s / max(peek(cols.variance, o), LEAST) * calm, MOST_WEIGHT)
        poke(room, i, near)
        poke(room, SIDE + i, far)
        poke(room, 2 * SIDE + i, mine)
        poke(room, 3 * SIDE + i, other)
        poke(room, PARTS * SIDE + i, y)
        poke(room, (PARTS + 1) * SIDE + i, w if mixed * mixed * w < CLIP else ZERO)
    size = ZERO
    for i in range(PARTS * SIDE):
        size += abs(peek(room, i))
    if not size < UNSOUND:
        return
    slot = 0
    for i in range(PARTS + 1):
        for j in range(min(i + 1, PARTS)):
            total = ZERO
            for k in range(SIDE):
                w = peek(room, (PARTS + 1) * SIDE + k)
                total += peek(room, i * SIDE + k) * peek(room, j * SIDE + k) * w
            mix[at + slot] = mix[at + slot] * FADE + total
            mix[now + slot] = mix[now + slot] * TOKEN_FADE + total
            slot += 1


@borrowing
def forget_token(mix, blocks):  # type: ignore[no-untyped-def]
    """Forget what was learnt of the token."""
    for i in range(SUMS):
        mix[blocks * SLOTS + i] = 0.0
