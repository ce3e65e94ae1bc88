"""Sections 11.3 to 11.5 of docs/format.md: the predictor of one stream. All is binary32, but for the angles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F = np.float32
Row = NDArray[np.float32]
LEAN = F(0.2)
MEAN_RATE, VARIANCE_RATE = F(2.0**-5), F(2.0**-5)
AVERAGE_RATE = F(2.0**-8)
ROW_RATE, PAIR_RATE = F(0.5), F(0.7)
LEAST_VARIANCE, LEAST_SQUARE = F(2.0**-100), F(2.0**-90)
SHRINK, MOST_SHARE = F(48), F(0.999)
ONE, ZERO = F(1), F(0)


def larger(a: Row, b: float | Row) -> Row:
    """a where it is above b, else b."""
    return np.where(a > b, a, F(b) if isinstance(b, float) else b)


def bits_of(x: Row) -> NDArray[np.int64]:
    return np.ascontiguousarray(x, np.float32).view(np.int32).astype(np.int64)


def floats_of(bits: NDArray[np.int64]) -> Row:
    return bits.astype(np.int32).view(np.float32)


class Angles:
    """Section 11.4: cosines and sines of the pairs, token after token."""

    def __init__(self, cos: list[float], sin: list[float]) -> None:
        self.step = np.array(cos), np.array(sin)
        self.state = np.ones(len(cos)), np.zeros(len(cos))
        self.token = 0

    def next(self) -> tuple[Row, Row]:
        c, s = self.state
        if self.token % 64 == 0:
            length = 1.5 - 0.5 * (c * c + s * s)
            c, s = c * length, s * length
        cw, sw = self.step
        self.state = c * cw - s * sw, s * cw + c * sw
        self.token += 1
        return c.astype(np.float32), s.astype(np.float32)


def turn(mean: Row, variance: Row, cos: Row, sin: Row) -> tuple[Row, Row]:
    """Means and variances as the values are stored."""
    n = len(cos)
    a, b, va, vb = mean[:n], mean[n : 2 * n], variance[:n], variance[n : 2 * n]
    cc, ss = cos * cos, sin * sin
    turned = np.concatenate([a * cos - b * sin, b * cos + a * sin, mean[2 * n :]])
    return turned, np.concatenate([va * cc + vb * ss, vb * cc + va * ss, variance[2 * n :]])


def turn_back(x: Row, cos: Row, sin: Row) -> Row:
    n = len(cos)
    a, b = x[:n], x[n : 2 * n]
    return np.concatenate([a * cos + b * sin, b * cos - a * sin, x[2 * n :]])


def due(n: int) -> bool:
    return n % 128 == 0 if n >= 128 else n & (n - 1) == 0


def shares(product: Row, square: Row, n: int, most: np.float32) -> Row:
    """Section 11.5: the averages' quotient, drawn towards its mean over the channels."""
    share = product / larger(square, LEAST_SQUARE)
    share = np.where(share < ONE, share, ONE)
    share = np.where(share > -ONE, share, -ONE)
    total = ZERO
    for one in share:
        total = total + one
    mean = total / F(len(share))
    weight = SHRINK / (F(n) + SHRINK)
    share = share + weight * (mean - share)
    share = np.where(share > ZERO, share, ZERO)
    return np.where(share < most, share, most)


class Predictor:
    """What a stream has learnt; rows are in the order of the rope's pairs."""

    def __init__(self, channels: int, scales: tuple[int, int]) -> None:
        def row(x: float) -> Row:
            return np.full(channels, x, np.float32)

        self.mean, self.last = row(0), row(0)
        self.var_new, self.start, self.var_known = row(2.0 ** scales[0]), row(2.0 ** scales[1]), row(0)
        self.product, self.square, self.pair_product, self.pair_square = row(0), row(0), row(0), row(0)
        self.pair_gain = row(0)
        self.gain, self.factor, self.inverse = [row(0)] * 5, [row(1)] * 5, [row(1)] * 5
        self.seen = self.seen_known = self.seen_pairs = 0
        self.rows: dict[int, Row] = {}
        self.pairs: dict[int, Row] = {}
        self.zero = row(0)

    def predict(self, slot: int, times: int, pair: int, pair_times: int) -> tuple[Row, Row]:
        """Mean and variance of the next row, before it is turned."""
        self.token = slot, times, pair, pair_times
        self.base = self.mean + LEAN * (self.last - self.mean)
        self.first, variance = self.base, self.var_new
        if slot >= 0 and times > 0:
            k = min(times, 5) - 1
            self.first = self.base + self.gain[k] * (self.rows.get(slot, self.zero) - self.base)
            variance = larger(self.var_known * self.factor[k], LEAST_VARIANCE)
        self.mu = self.first
        if pair >= 0 and pair_times > 0:
            self.mu = self.first + self.pair_gain * (self.pairs.get(pair, self.zero) - self.first)
        return self.mu, variance

    def learn(self, x: Row) -> None:
        """Take in the row, turned back."""
        slot, times, pair, pair_times = self.token
        known = slot >= 0 and times > 0
        if known:
            self._learn_known(x, self.rows.get(slot, self.zero), min(times, 5) - 1)
        if pair >= 0:
            self._learn_pair(x, pair, pair_times)
        n = self.seen
        if n == 0:
            self.var_new = self.start
        elif not known:
            rate = max(ONE / (F(n) + F(0.5)), VARIANCE_RATE)
            e = x - self.mu
            self.var_new = larger(self.var_new + rate * (e * e - self.var_new), LEAST_VARIANCE)
        if self.seen_known == 0:
            self.var_known = self.var_new
        self.mean = self.mean + max(ONE / F(n + 1), MEAN_RATE) * (x - self.mean)
        self.last = x
        if slot >= 0:
            h = self.rows.get(slot, self.zero)
            self.rows[slot] = h + max(ONE / F(times + 1), ROW_RATE) * (x - h)
        self.seen += 1

    def _learn_known(self, x: Row, h: Row, k: int) -> None:
        m = self.seen_known
        rate = max(ONE / F(m + 3), VARIANCE_RATE)
        e = x - self.mu
        new = self.var_known + rate * (e * e * self.inverse[k] - self.var_known)
        self.var_known = larger(new, LEAST_VARIANCE)
        rate = max(ONE / F(m + 1), AVERAGE_RATE)
        r = x - self.base
        self.product = self.product + rate * (r * (h - self.base) - self.product)
        self.square = self.square + rate * (r * r - self.square)
        self.seen_known += 1
        if due(m + 1):
            c = shares(self.product, self.square, m, MOST_SHARE)
            self.gain = [F(j) * c / (F(j - 1) * c + ONE) for j in range(1, 6)]
            self.factor = [(ONE - c * g) / (ONE - c * c) for g in self.gain]
            self.inverse = [ONE / f for f in self.factor]

    def _learn_pair(self, x: Row, pair: int, times: int) -> None:
        h = self.pairs.get(pair, self.zero)
        rate = ONE
        if times > 0:
            m = self.seen_pairs
            rate = max(ONE / F(m + 1), AVERAGE_RATE)
            d = h - self.first
            self.pair_product = self.pair_product + rate * ((x - self.first) * d - self.pair_product)
            self.pair_square = self.pair_square + rate * (d * d - self.pair_square)
            self.seen_pairs += 1
            if due(m + 1):
                self.pair_gain = shares(self.pair_product, self.pair_square, m, ONE)
            rate = PAIR_RATE
        self.pairs[pair] = h + rate * (x - h)
