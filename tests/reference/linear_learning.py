"""Sections 13.6 to 13.10 of docs/format.md: what linear prediction learns, apart from means and deviations."""

from __future__ import annotations

import numpy as np

from .linear_columns import Row

F = np.float32
ONE, ZERO, LEAST = F(1), F(0), F(1e-30)
TOTAL = 1 << 31
DEVIATION = 64  # cells of T
CELLS = 2048
COUNTS = 128


def zeros(count: int) -> Row:
    return np.zeros(count, F)


def most(a: np.float32, b: np.float32) -> np.float32:
    return b if b > a else a


def least(a: np.float32, b: np.float32) -> np.float32:
    return b if b < a else a


def between(x: np.float32, low: np.float32, high: np.float32) -> np.float32:
    return least(most(x, low), high)


class Recursion:
    """Section 13.6. Row k of ``lower`` says what the residual of column k does to the columns after it."""

    def __init__(self, columns: int, rows: int, keep: float, delta: float) -> None:
        self.columns, self.rows, self.keep, self.delta = columns, rows, F(keep), F(delta)
        self.forget()

    def forget(self) -> None:
        self.lower = np.zeros((self.columns, self.columns), F)
        self.x, self.p, self.e, self.g, self.n = (zeros(self.columns) for _ in range(5))
        self.d = np.full(self.columns, self.delta, F)

    def sweep(self, k: int) -> None:
        """Row k; its residual of this token, n, is known."""
        if k < self.rows:
            row, x, p = self.lower[k, k + 1 :], self.x[k + 1 :], self.p[k + 1 :]
            x -= row * self.e[k]
            row += self.g[k] * x
            p += row * self.n[k]

    def know(self, y: Row) -> None:
        """The first columns are ``y``."""
        for k in range(min(len(y), self.rows)):
            self.n[k] = y[k] - self.p[k]
            self.sweep(k)

    def learn(self, y: Row, weight: np.float32) -> np.float32:
        """The end of a token whose columns were ``y``; the load."""
        old = self.keep * self.d
        per = self.n / old
        load = ONE / weight
        for k in range(self.columns):
            before, load = load, load + self.n[k] * per[k]
            self.g[k] = per[k] * (ONE / load)
            self.d[k] = most(old[k] * load / before, F(1e-3))
        self.e = self.n.copy()
        self.x = y.copy()
        self.p = zeros(self.columns)
        return load


class Mixture:
    """Section 13.9: the weights a and b of each block of own columns."""

    def __init__(self, blocks: int) -> None:
        self.sums = np.zeros((blocks, 5))
        self.token = np.zeros(5)
        self.weights = [(1.0, 0.0)] * blocks

    def choose(self, block: int) -> tuple[np.float32, np.float32]:
        pp, pq, qq, py, qy = (float(x) for x in self.sums[block] + 16.0 * self.token)
        pp, qq, py = pp + 20.0, qq + 20.0, py + 20.0
        d = pp * qq - pq * pq
        if d > 1e-6 * pp * qq:
            self.weights[block] = (py * qq - qy * pq) / d, (qy * pp - py * pq) / d
        a, b = self.weights[block]
        return F(a), F(b)

    def learn(self, block: int, y: Row, u: Row, v: Row, spread: Row, variance: Row) -> Row:
        """Residuals of the mixture, from those of both recursions, u and v."""
        a, b = (F(x) for x in self.weights[block])
        p, q = y - u, y - v
        mixed: Row = a * u + b * v + (ONE - a - b) * y
        w = spread * spread / np.where(variance < LEAST, LEAST, variance)
        w = np.where(mixed * mixed * w < F(25), w, ZERO)
        sums = []
        for left, right in ((p, p), (p, q), (q, q), (p, y), (q, y)):
            total = ZERO
            for term in left * right * w:
                total = total + term
            sums.append(float(total))
        self.sums[block] = self.sums[block] * 0.96 + np.array(sums)
        self.token = self.token * 0.9 + np.array(sums)
        return mixed


class Place:
    """A token's history: the id, how often it was seen, and the mean row."""

    def __init__(self, token: int, row: Row) -> None:
        self.token, self.seen, self.row = token, 1, row.copy()

    @property
    def level(self) -> int:
        return min(self.seen, 3) - 1


class Memory:
    """Section 13.10."""

    def __init__(self, slots: int, own: int) -> None:
        self.slots = slots
        self.places: dict[int, Place] = {}
        self.rd, self.rr, self.dd, self.gain = (np.zeros((3, own), F) for _ in range(4))
        self.left = np.ones((3, own), F)
        self.tokens = [0, 0, 0]

    def find(self, token: int) -> Place | None:
        place = self.places.get(token % self.slots)
        return place if place and place.token == token >= 0 else None

    def learn(self, token: int, value: Row, residual: Row, variance: Row) -> None:
        """``residual`` is that of the recursion, in units of the values."""
        if token < 0:
            return
        place = self.find(token)
        if place is None:
            self.places[token % self.slots] = Place(token, value)
            return
        level = place.level
        d = place.row - (value - residual)
        square = residual * residual
        use = np.where(square < F(16) * variance, ONE, ZERO)
        self.rd[level] = self.rd[level] * F(0.999) + use * residual * d
        self.rr[level] = self.rr[level] * F(0.999) + use * square
        self.dd[level] = self.dd[level] * F(0.999) + use * d * d
        self.tokens[level] += 1
        if self.tokens[level] % 16 == 0 or self.tokens[level] == 4:
            self._refresh(level)
        rate = most(ONE / F(place.seen + 1), F(0.4))
        place.row = place.row + (value - place.row) * rate
        place.seen += 1

    def _refresh(self, level: int) -> None:
        rd, rr, dd = self.rd[level], self.rr[level], self.dd[level]
        top, bottom = ZERO, LEAST
        weight = ONE / (rr + LEAST)
        for t, b in zip(rd * weight, dd * weight, strict=True):
            top, bottom = top + t, bottom + b
        mean = top / bottom
        count = F(self.tokens[level])
        gain = mean + (rd / (dd + LEAST) - mean) * (count / (count + F(48)))
        gain = np.where(gain < ZERO, ZERO, gain)
        gain = np.where(gain > ONE, ONE, gain)
        left = ONE + gain * (gain * dd - F(2) * rd) / (rr + LEAST)
        left = np.where(left < F(0.05), F(0.05), left)
        self.gain[level] = gain
        self.left[level] = np.where(left > ONE, ONE, left)


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
