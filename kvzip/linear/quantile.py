"""The normalised distribution of residuals: cumulative frequencies of what a unit's residuals turn out to be.

``T`` has 64 cells a standard deviation over +-16 of them; it is linear within a cell. It starts as Student's t of 16
degrees scaled by 0.97 (about what real dumps show after prediction) and adapts: the quantiles of coded values are
counted in 128 cells, and T becomes A(T), where A is the piecewise linear map that would have made the counts even.
Integers throughout, but for the start, which is made of +, *, / and square roots in a fixed order.

``inverse`` is where the decoder begins to look for a symbol: a guess, on which no bit depends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing
from kvzip.linear.range64 import TOTAL

REACH = 16  # standard deviations
PER_DEVIATION = 64
CELLS = 2 * REACH * PER_DEVIATION
ROW = CELLS + 2  # the last cell is empty: it is read at +16 deviations
COUNT_BITS = 7
COUNTS = 1 << COUNT_BITS
COUNT_ROW = COUNTS + 1
CELL_SHIFT = 31 - COUNT_BITS
INVERSE_BITS = 12
INVERSE_ROW = (1 << INVERSE_BITS) + 1
INVERSE_SHIFT = 31 - INVERSE_BITS
UNIT = 4096  # what one value counts
PRIOR = 24  # values that every cell is taken to have seen
MOST = 1 << 14


def start_table(symbols: int, degrees: int = 16, spread: float = 0.97) -> NDArray[np.int32]:
    """T for an alphabet of ``symbols``, each of which keeps a frequency of 1."""
    density = []
    for cell in range(CELLS // 2):
        x = (cell + 0.5) / PER_DEVIATION / spread
        base = 1.0 + x * x / degrees
        power = 1.0
        for _ in range(degrees // 2):
            power = power * base
        density.append(1.0 / (power * float(np.sqrt(base))) + 1e-9)
    total = 0.0
    for value in density:
        total = total + value
    top = TOTAL - symbols
    out = np.zeros(ROW, np.int32)
    half = 0.0
    for cell in range(CELLS // 2):
        half = half + density[cell] / total
        out[CELLS // 2 + cell + 1] = min(top, top // 2 + int(half * (top // 2)))
    out[CELLS // 2] = top // 2
    out[: CELLS // 2] = top - out[CELLS : CELLS // 2 : -1]
    out[0], out[-2:] = 0, top
    return out


@borrowing
def invert(table, at, inverse, into):  # type: ignore[no-untyped-def]
    """Deviations at every 2^INVERSE_SHIFT-th slot."""
    cell = 0
    for i in range(INVERSE_ROW):
        slot = np.int64(i) << INVERSE_SHIFT
        while cell < CELLS - 1 and table[at + cell + 1] <= slot:
            cell += 1
        low = np.int64(table[at + cell])
        high = max(np.int64(table[at + cell + 1]), low + 1)
        part = np.float32(min(np.int64(1 << 20), ((slot - low) << 20) // (high - low))) * np.float32(2.0**-20)
        inverse[into + i] = (np.float32(cell - CELLS // 2) + part) * np.float32(1.0 / PER_DEVIATION)


@borrowing
def adapt(table, at, counts, into, work, top):  # type: ignore[no-untyped-def]
    """T becomes A(T); the counts become even and keep their weight. ``counts`` holds a row of counts
    and a row of differences, ``work`` has room for COUNT_ROW numbers."""
    level = np.int64(0)
    total = np.int64(0)
    for c in range(COUNTS):
        level += counts[into + COUNT_ROW + c]
        work[c] = max(counts[into + c] + level, np.int64(1))
        total += work[c]
    seen = np.int64(0)
    for c in range(COUNTS):
        part = work[c]
        work[c] = (seen * (top >> 8) // total) << 8
        seen += part
    work[COUNTS] = top
    for i in range(1, CELLS):
        slot = np.int64(table[at + i])
        c = min(slot >> CELL_SHIFT, np.int64(COUNTS - 1))
        part = slot - (c << CELL_SHIFT)
        table[at + i] = min(work[c] + ((work[c + 1] - work[c]) * part >> CELL_SHIFT), top)
    even = min(total, np.int64(MOST * UNIT)) // COUNTS
    for c in range(COUNT_ROW):
        counts[into + c] = even
        counts[into + COUNT_ROW + c] = 0
