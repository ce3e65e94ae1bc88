"""Sections 13.6, 13.9 and 13.10 of docs/format.md: the recursion, mixtures, repeated tokens."""

from __future__ import annotations

import numpy as np

from .linear_columns import Row, total

F = np.float32
ONE, ZERO, LEAST = F(1), F(0), F(1e-30)


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

    def __init__(self, columns: int, rows: int, keep: float, delta: float | Row) -> None:
        self.columns, self.rows, self.keep, self.delta = columns, rows, F(keep), np.full(columns, delta, F)
        self.forget()

    def forget(self) -> None:
        self.lower = np.zeros((self.columns, self.columns), F)
        self.x, self.p, self.e, self.g, self.n = (zeros(self.columns) for _ in range(5))
        self.d = self.delta.copy()

    def sweep(self, k: int) -> None:
        """Row k; its residual of this token, n, is known."""
        if k < self.rows:
            row, x, p = self.lower[k, k + 1 :], self.x[k + 1 :], self.p[k + 1 :]
            x -= row * self.e[k]
            row += self.g[k] * x
            p += row * self.n[k]

    def know(self, y: Row, since: int = 0) -> None:
        """The first columns are ``y``; those below ``since`` were known before."""
        for k in range(since, min(len(y), self.rows)):
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


class Parts:
    """Section 13.9.1: the four weights of each block of own columns."""

    def __init__(self, blocks: int) -> None:
        self.sums = np.zeros((blocks, 5, 4))  # of the parts and the value, with the parts
        self.token = np.zeros((5, 4))
        self.weights = [[1.0, 1.0, 1.0, 0.0] for _ in range(blocks)]

    def forget_token(self) -> None:
        self.token = np.zeros((5, 4))

    def choose(self, block: int) -> tuple[np.float32, ...]:
        """What p is multiplied by where the near base ends, where the base ends, and as a whole; and p'."""
        self._solve(block)
        a, b, c, d = self.weights[block]
        return F(a - b), F(b - c), F(c), F(d)

    def _solve(self, block: int) -> None:
        *rows, right = (self.sums[block] + 4.0 * self.token).tolist()
        found: list[float] = []
        for i, row in enumerate(rows):
            row[i] += 20.0
            whole = row[i]
            z = right[i] + (20.0 if i < 3 else 0.0)
            for j in range(i):
                for k in range(j):
                    row[j] -= row[k] * rows[j][k]
            for j in range(i):
                u = row[j]
                row[j] = u / rows[j][j]
                row[i] -= u * row[j]
                z -= row[j] * found[j]
            if not row[i] > 1e-9 * whole:
                return
            found.append(z)
        weights = [0.0] * 4
        for i in (3, 2, 1, 0):
            weights[i] = found[i] / rows[i][i]
            for k in range(i + 1, 4):
                weights[i] -= rows[k][i] * weights[k]
        self.weights[block] = weights

    def learn(self, block: int, y: Row, parts: list[Row], spread: Row, variance: Row, energy: np.float32) -> Row:
        """Residuals of the mixture."""
        mixed = y
        for weight, part in zip(self.weights[block], parts, strict=True):
            mixed = mixed - F(weight) * part
        w = spread * spread / np.where(variance < LEAST, LEAST, variance) * (ONE / energy)
        w = np.where(w > F(1e12), F(1e12), w)
        w = np.where(mixed * mixed * w < F(25), w, ZERO)
        if total(abs(np.concatenate(parts))) < F(1e6):
            sums = np.zeros((5, 4))
            for i, left in enumerate([*parts, y]):
                for j, right in enumerate(parts[: i + 1]):
                    sums[i, j] = total(left * right * w)
            self.sums[block] = self.sums[block] * 0.98 + sums
            self.token = self.token * 0.9 + sums
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

    def learn(self, token: int, value: Row, residual: Row, variance: Row, energy: np.float32) -> None:
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
        use = np.where(square < F(16) * (variance * energy), ONE / energy, ZERO)
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
