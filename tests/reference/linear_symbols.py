"""Sections 13.11 and 13.12 of docs/format.md: values from intervals, and the rANS that these come from."""

from __future__ import annotations

import numpy as np

from .linear_columns import Alphabet
from .linear_learning import F, least

TOTAL = 1 << 31
DEVIATION = 64  # cells of T
CELLS = 2048
COUNTS = 128
REACH = F(16)
FINE = 22


class Distribution:
    """Section 13.11: T of one kind, and the counts of its quantiles."""

    def __init__(self, symbols: int) -> None:
        self.top = TOTAL - symbols
        density = []
        for cell in range(CELLS // 2):
            x = (cell + 0.5) / DEVIATION / 0.97
            base = 1.0 + x * x / 16
            power = 1.0
            for _ in range(8):
                power = power * base
            density.append(1.0 / (power * float(np.sqrt(base))) + 1e-9)
        total = 0.0
        for one in density:
            total += one
        half, upper = 0.0, [self.top // 2]
        for one in density:
            half += one / total
            upper.append(min(self.top, self.top // 2 + int(half * (self.top // 2))))
        self.table = [self.top - t for t in upper[:0:-1]] + upper
        self.table[0] = 0
        self.table[CELLS:] = [self.top, self.top]
        self.counts = [24 * 4096] * COUNTS
        self._integrate()

    def _integrate(self) -> None:
        """Section 13.11: D1 and D2 at every cell's lower border."""
        self.first, self.second = [0.0], [0.0]
        for c in range(CELLS):
            z, mass = (c - CELLS // 2) / DEVIATION, self.table[c + 1] - self.table[c]
            self.first.append(self.first[c] + mass * (z + 0.5 / DEVIATION))
            self.second.append(self.second[c] + mass * (z * z + z / DEVIATION + 1 / DEVIATION / DEVIATION / 3))

    def up_to(self, fine: int) -> tuple[float, float, float]:
        """T, D1 and D2 at a position."""
        cell, part = divmod(fine, 1 << (FINE - 6))
        share = part / (1 << (FINE - 6))
        if cell == CELLS:
            return float(self.table[cell]), self.first[cell], self.second[cell]
        mass = (self.table[cell + 1] - self.table[cell]) * share
        z, w = (cell - CELLS // 2) / DEVIATION, share / DEVIATION
        first = self.first[cell] + mass * (z + 0.5 * w)
        return self.table[cell] + mass, first, self.second[cell] + mass * (z * z + z * w + w * w / 3)

    def count(self, low: int, high: int) -> None:
        cells = range(low >> 24, ((high - 1) >> 24) + 1)
        for cell in cells:
            self.counts[cell] += 4096 // len(cells)

    def adapt(self) -> None:
        counts = [max(count, 1) for count in self.counts]
        total = seen = sum(counts)
        even, seen = [], 0
        for count in counts:
            even.append((seen * (self.top >> 8) // total) << 8)
            seen += count
        even.append(self.top)
        for i in range(1, CELLS):
            c, part = divmod(self.table[i], 1 << 24)
            self.table[i] = min(even[c] + ((even[c + 1] - even[c]) * part >> 24), self.top)
        self.counts = [min(total, 4096 << 14) // COUNTS] * COUNTS
        self._integrate()


def position(edge: np.float32, mean: np.float32, precision: np.float32) -> int:
    """Where T is read for an edge."""
    z = (edge - mean) * precision
    z = z if z > -REACH else -REACH  # NaN goes here
    return int(least(z, REACH) * F(1 << FINE)) + (16 << FINE)  # towards 0


class Lanes:
    """Section 13.12: two lanes of rANS that take turns."""

    def __init__(self, payload: bytes) -> None:
        self.words = np.frombuffer(payload, "<u4").tolist()
        self.at = 4
        lane = self.words[:4] + [0] * 4
        self.states = [lane[0] | lane[1] << 32, lane[2] | lane[3] << 32]

    def slot(self) -> int:
        return self.states[0] % TOTAL

    def take(self, low: int, high: int) -> None:
        """The slot's interval is known: the next slot is the other lane's."""
        x = self.states.pop(0)
        x = (high - low) * (x >> 31) + x % TOTAL - low
        if x < TOTAL:
            x = x << 32 | (self.words[self.at] if self.at < len(self.words) else 0)
            self.at += 1
        self.states.append(x)

    @property
    def ended(self) -> bool:
        return self.at == len(self.words) and self.states == [TOTAL, TOTAL]


class Symbols:
    """Distributions by kind, and the runs of a group's columns."""

    def __init__(self, alphabet: Alphabet, own: int) -> None:
        self.alphabet = alphabet
        self.distributions = [Distribution(2 * alphabet.sign) for _ in range(2)]
        self.run, self.last = [0] * own, [0] * own
        self.tokens, self.adapt_at = 0, 8
        self.counted = True

    def decode(
        self, lanes: Lanes | None, o: int, kind: int, mean: np.float32, precision: np.float32, known: int
    ) -> int:
        """The ordered integer of column o; ``known`` where there are no lanes."""
        if self.run[o] >= 8:
            hit = TOTAL - max(TOTAL // (2 * self.run[o]), 1024)
            same = lanes.slot() < hit if lanes else known == self.last[o]
            self._take(lanes, kind, 0 if same else hit, hit if same else TOTAL)
            if same:
                return self.last[o]

        def cumulative(k: int) -> int:
            cell, part = divmod(position(edges[k], mean, precision), 1 << (FINE - 6))
            return table[cell] + ((table[cell + 1] - table[cell]) * part >> (FINE - 6)) + k

        edges, table = self.alphabet.edges, self.distributions[kind].table
        if lanes:
            slot, known, above = lanes.slot(), 0, 2 * self.alphabet.sign
            while above - known > 1:
                middle = (known + above) >> 1
                if cumulative(middle) <= slot:
                    known = middle
                else:
                    above = middle
        self._take(lanes, kind, cumulative(known), cumulative(known + 1))
        return known

    def narrow(
        self, k: int, kind: int, mean: np.float32, deviation: np.float32, precision: np.float32, r: np.float32
    ) -> tuple[np.float32, np.float32]:
        """Section 13.7: mean and variance of a residual, given k; ``r`` is that of the value."""
        distribution, edges = self.distributions[kind], self.alphabet.edges
        t0, a0, b0 = distribution.up_to(position(edges[k], mean, precision))
        t1, a1, b1 = distribution.up_to(position(edges[k + 1], mean, precision))
        if t1 - t0 < 1024:
            return r * precision * deviation, F(0)
        z = (a1 - a0) / (t1 - t0)
        return F(z) * deviation, F(max((b1 - b0) / (t1 - t0) - z * z, 0.0)) * deviation * deviation

    def _take(self, lanes: Lanes | None, kind: int, low: int, high: int) -> None:
        if lanes:
            lanes.take(low, high)
        if self.counted:
            self.distributions[kind].count(low, high)

    def note_runs(self, row: list[int]) -> None:
        for o, k in enumerate(row):
            more = 4 if k == self.alphabet.sign else 1
            self.run[o] = self.run[o] + more if k == self.last[o] else 0
            self.last[o] = k

    def keep_time(self) -> None:
        """The end of a token."""
        self.tokens += 1
        if self.tokens == self.adapt_at:
            self.adapt_at += min(self.tokens, 64)
            for distribution in self.distributions:
                distribution.adapt()
