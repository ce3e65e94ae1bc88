"""Sections 13.5.1 and 13.8 of docs/format.md: spreads of columns, and what a value is expected to deviate by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .linear_columns import Group, Row
from .linear_learning import ONE, ZERO, F, most, zeros

START = 16
CLIP = F(20)
TINY = F(1e-34)
FLOOR = F(1e-3)
AROUND = 64


class Scales:
    """Variances of own columns, covariances of pairs."""

    def __init__(self, group: Group, variance: float) -> None:
        self.kinds = group.kinds
        self.variance, self.cross = np.full(group.own, variance, F), zeros(group.pairs)
        self.a, self.b = slice(0, 2 * group.pairs, 2), slice(1, 2 * group.pairs, 2)

    def expect(self, c: Row, s: Row, factor: Row) -> None:
        """Deviations of a token whose pairs are turned."""
        variance = np.where(self.variance < TINY, TINY, self.variance)
        deviation = np.sqrt(variance * factor)
        f = (factor[self.a] + factor[self.b]) * F(0.5)
        va, vb, cross = variance[self.a] * f, variance[self.b] * f, self.cross * f
        cs, cc, ss = c * s, c * c, s * s
        floor = FLOOR * (va + vb)
        v1 = cc * va - (cs + cs) * cross + ss * vb
        v1 = np.where(floor > v1, floor, v1)
        v2 = ss * va + (cs + cs) * cross + cc * vb
        self.slope = (cs * (va - vb) + (cc - ss) * cross) / v1
        v2 = v2 - self.slope * self.slope * v1
        deviation[self.a], deviation[self.b] = np.sqrt(v1), np.sqrt(np.where(floor > v2, floor, v2))
        self.deviation, self.precision = deviation, ONE / deviation

    def begin(self, residual: Row, blur: Row) -> None:
        """The first token's residuals."""
        for kind in range(2):
            total = count = ZERO
            of = self.kinds == kind
            square = residual[of] * residual[of] + blur[of]
            for r, b in zip(residual[of], blur[of], strict=True):
                total, count = total + (r * r + b), count + ONE
            self.variance[of] = F(0.5) * (total / count + square)

    def learn(
        self, residual: Row, blur: Row, twist: Row, rate: np.float32, energy: np.float32, clipped: bool
    ) -> None:
        calm = ONE / most(energy, F(0.05))
        v = self.variance
        q = (residual * residual + blur) * calm
        if clipped:
            q = np.where(CLIP * v < q, CLIP * v, q)
        self.variance = v + (q - v) * rate
        q = (residual[self.a] * residual[self.b] + twist[self.a]) * calm
        if clipped:
            top = CLIP * np.sqrt(self.variance[self.a] * self.variance[self.b])
            q = np.where(-top > q, -top, q)
            q = np.where(top < q, top, q)
        self.cross = self.cross + (q - self.cross) * rate


def spreads(
    rows: list[Row], blurs: Row, floor: float, shared: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and inverse deviations of columns over the tokens 1 to 15; ``floor`` is above 0 with a draft."""
    total, square = np.zeros(len(blurs)), np.zeros(len(blurs))
    wide = [row.astype(np.float64) for row in rows[1:]]
    for v in wide:
        total = total + np.where(abs(v) < 3e38, v, 0)
    centre = total / (START - 1)
    for v in wide:
        square = square + np.where(abs(v) < 3e38, (v - centre) * (v - centre), 0)
    spread = np.sqrt((square + blurs) / (START - 1))
    floor = spread.max(initial=floor) * float(F(1 / 256 if floor > 0 else 1e-6))
    spread = np.where(floor > spread, floor, spread)
    spread = np.where(spread < 1e-30, 1e-30, spread)
    for start in range(0, len(spread) if shared else 0, AROUND):
        around = spread[start : start + AROUND]
        mean = np.cumsum(around)[-1] / len(around)
        spread[start : start + AROUND] = np.sqrt(around) * np.sqrt(mean)
    return centre, 1 / spread
