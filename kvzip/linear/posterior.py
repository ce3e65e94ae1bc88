"""What a coarse value tells: where in its interval the residual may have been, as the distribution has it.

A value of few bits only says that the residual lies between two borders. With T the distribution (see ``quantile``)
over deviations z, cumulative, and D1, D2 the integrals of z dT and z^2 dT up to each cell's border, the mean over the
interval [a, b] is (D1(b) - D1(a)) / (T(b) - T(a)), and likewise the mean square: within a cell, T is linear. That is
what the recursion and the variances then learn from. All of it is +, -, *, / in double precision.
"""

from __future__ import annotations

import numpy as np

from kvzip.coder.jit import borrowing, step
from kvzip.coder.memory import peek
from kvzip.linear.quantile import CELLS, PER_DEVIATION, ROW
from kvzip.linear.symbol_code import PART_BITS, position

WIDTH = 1.0 / PER_DEVIATION
PART = 2.0**-PART_BITS
LEAST_MASS = 1024.0  # of 2^31; below, T is too coarse
MOMENTS = 2 * ROW  # of a kind: D1, D2


@borrowing
def integrate(table, at, moments, into):  # type: ignore[no-untyped-def]
    """D1 and D2 at the borders of T's cells."""
    first = 0.0
    second = 0.0
    for c in range(CELLS):
        moments[into + c] = first
        moments[into + ROW + c] = second
        z = np.float64(c - CELLS // 2) * WIDTH
        mass = np.float64(table[at + c + 1]) - np.float64(table[at + c])
        first += mass * (z + 0.5 * WIDTH)
        second += mass * (z * z + z * WIDTH + WIDTH * WIDTH / 3.0)
    for c in range(CELLS, ROW):
        moments[into + c] = first
        moments[into + ROW + c] = second


@step
def up_to(fine, table, at, moments, into):  # type: ignore[no-untyped-def]
    """T, D1 and D2 at a position."""
    cell = fine >> PART_BITS
    part = np.float64(fine & ((1 << PART_BITS) - 1)) * PART
    low = np.float64(peek(table, at + cell))
    mass = (np.float64(peek(table, at + cell + 1)) - low) * part
    z = np.float64(cell - CELLS // 2) * WIDTH
    w = part * WIDTH
    first = peek(moments, into + cell) + mass * (z + 0.5 * w)
    second = peek(moments, into + ROW + cell) + mass * (z * z + z * w + w * w / 3.0)
    return low + mass, first, second


@step
def posterior(k, mean, precision, edges, table, at, moments, into, z):  # type: ignore[no-untyped-def]
    """Mean and variance of symbol ``k``'s deviation, in units of it; ``z`` and 0 where T knows nothing of it."""
    t0, a0, b0 = up_to(position(peek(edges, k), mean, precision), table, at, moments, into)
    t1, a1, b1 = up_to(position(peek(edges, k + 1), mean, precision), table, at, moments, into)
    mass = t1 - t0
    if not mass >= LEAST_MASS:
        return z, np.float32(0.0)
    first = (a1 - a0) / mass
    return np.float32(first), np.float32(max((b1 - b0) / mass - first * first, 0.0))
