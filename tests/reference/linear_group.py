"""Sections 13.5 to 13.7 of docs/format.md: the tokens of a group of columns."""

from __future__ import annotations

import numpy as np

from .linear_columns import SIDE, Alphabet, Angles, ColumnBlock, Group, Row
from .linear_learning import (
    LEAST,
    ONE,
    ZERO,
    F,
    Memory,
    Mixture,
    Parts,
    Place,
    Recursion,
    between,
    least,
    most,
    zeros,
)  # fmt: skip
from .linear_scales import CLIP, FLOOR, START, Scales, spreads
from .linear_settings import Settings
from .linear_symbols import Lanes, Symbols

CONSTANT = np.eye(1, SIDE, dtype=F)[0]


class GroupDecoder:
    """What a group has learnt."""

    def __init__(
        self,
        group: Group,
        alphabet: Alphabet,
        base: int,
        near: int,
        settings: Settings,
        exponent: int,
        drafted: bool = False,
    ) -> None:
        """``near`` of the ``base`` columns are the first base's."""
        self.group, self.alphabet, self.settings = group, alphabet, settings
        self.stride = -(-base // settings.most_base) if base and settings.most_base else 1
        self.base = -(-base // self.stride) if settings.most_base else 0
        self.first = -(-(1 + self.base) // SIDE) * SIDE
        self.two = settings.two and self.base > 0
        self.parted = settings.parts and self.two
        near = min(-(-near // self.stride), self.base)
        self.near_rows = min((1 + near) // SIDE * SIDE, self.first - SIDE)
        columns = self.first + group.own
        rows = settings.most_rows // SIDE * SIDE if settings.most_rows else columns
        delta = np.full(columns, settings.delta_base if self.base else settings.delta, F)
        if self.base:
            delta[1 + near : self.first] *= F(settings.delta_far)
            delta[self.first :] *= F(settings.delta_own)
        self.one = Recursion(columns, rows, settings.keep_base if self.base else settings.keep, delta)
        small = SIDE + group.own
        self.second = Recursion(small, small, settings.keep, settings.delta)
        self.mixture, self.parts = Mixture(group.own // SIDE), Parts(group.own // SIDE)
        self.memory = Memory(settings.slots, group.own)
        self.symbols = Symbols(alphabet, group.own)
        self.angles = Angles(group)
        self.y = zeros(columns)
        self.residual, self.value, self.mixed = (zeros(group.own) for _ in range(3))
        self.blur, self.twist = zeros(group.own), zeros(group.own)
        self.strange = self.absurd = 0
        self.floor = 2.0**exponent if drafted else 0.0
        self._begin(4.0**exponent)

    def _begin(self, variance: float) -> None:
        own = self.group.own
        self.token = 0
        self.centre, self.spread, self.scale, self.other, self.shift = (zeros(own) for _ in range(5))
        self.inverse, self.factor = np.ones(own, F), np.ones(own, F)
        self.scales = Scales(self.group, variance)
        self.history: list[Row] = []
        self.base_history: list[Row] = []
        self.usual = ZERO

    def decode(self, lanes: Lanes | None, base: Row, name: int, draft: Row, row: list[int]) -> None:
        """One token. ``row`` is of ordered integers: filled in, or known where there are no lanes."""
        with np.errstate(all="ignore"):
            self.draft = draft
            chosen = base[:: self.stride][: self.base]
            self.symbols.counted = self.token < 256 or self.token % self.settings.count_every == 0
            self._expect(chosen, name)
            for block in self.group.blocks:
                self._block(block, lanes, row)
            self.symbols.note_runs(row)
            load = self._learn(chosen, name)
            self._keep_time(load)

    # Before the token

    def _expect(self, base: Row, name: int) -> None:
        self.cos, self.sin = self.angles.next()
        self.place: Place | None = None
        self.trust = ZERO, ZERO
        if self.token >= START:
            self.place = self.memory.find(name) if self.settings.repeats else None
            self.factor = self.memory.left[self.place.level] if self.place else np.ones(self.group.own, F)
            self.scale, self.shift, self.other = self.spread.copy(), self.centre.copy(), zeros(self.group.own)
            self.mixture.token = np.zeros(5)
            self.parts.forget_token()
            self.y[0], self.y[1 : 1 + self.base] = ONE, self._normalised(base)
        self.scales.expect(self.cos, self.sin, self.factor)
        self.one.know(self.y[: self.near_rows])
        self.of_near = self.one.p[self.first :].copy()
        self.one.know(self.y[: self.first - SIDE], self.near_rows)
        self.of_base = self.one.p[self.first :].copy()
        self.one.know(self.y[: self.first], self.first - SIDE)
        if self.two:
            self.second.know(CONSTANT)
        self.energy, self.coded = ONE, 0
        if self.first > SIDE and self.token >= START:
            self._surprise()

    def _normalised(self, base: Row) -> Row:
        v = (base.astype(np.float64) - self.base_centre) * self.base_inverse
        v = np.where(v < -32, -32, np.where(v > 32, 32, v))
        return np.where(np.isnan(v), 0, v).astype(F)

    def _surprise(self) -> None:
        load = ZERO
        for n, d in zip(self.one.n[1 : self.first], self.one.d[1 : self.first], strict=True):
            load = load + n * n / d
        if self.usual > ZERO:
            ratio = between(load / self.usual, F(0.1), F(10))
            self.energy = ONE + F(self.settings.surprise) * (ratio - ONE)
            self.usual = self.usual + (load - self.usual) * F(0.02)
        else:
            self.usual = load

    # The token

    def _block(self, block: ColumnBlock, lanes: Lanes | None, row: list[int]) -> None:
        mixing = self.two and self.token >= START
        own = slice(block.first, block.first + SIDE)
        if self.place:
            self._lean(own)
        if mixing and self.parted:
            near, based, whole, other = self.parts.choose(block.first // SIDE)
            scale = self.scale[own].copy()
            self.shift[own] += scale * (near * self.of_near[own] + based * self.of_base[own])
            self.other[own], self.scale[own] = scale * other, scale * whole
        elif mixing:
            a, b = self.mixture.choose(block.first // SIDE)
            self.other[own] = self.scale[own] * b
            self.scale[own] = self.scale[own] * a
        before = [self.energy]  # after each value or pair
        for q in range(block.count // 2 if block.paired else block.count):
            step = 2 if block.paired else 4
            loud = np.sqrt(most(before[max(q - 1, 0) // step * step], FLOOR))
            (self._pair if block.paired else self._single)(block, q, loud, lanes, row)
            before.append(self.energy)
        residual = self.one.n[self.first :][own] * self.spread[own]
        if mixing:
            self._mix(own)
        if self.two:
            residual = self.mixed[own] * self.spread[own]
        if self.place:
            self._compare(own, residual)

    def _lean(self, own: slice) -> None:
        assert self.place is not None
        trust = between((self.trust[0] + F(3)) / (self.trust[1] + F(3)), ZERO, F(3))
        gain = self.memory.gain[self.place.level][own] * trust
        gain = np.where(gain > ONE, ONE, gain)
        self.scale[own] = self.spread[own] * (ONE - gain)
        self.shift[own] = self.centre[own] * (ONE - gain) + gain * self.place.row[own]

    def _mix(self, own: slice) -> None:
        y, u, v = self.y[self.first :][own], self.one.n[self.first :][own], self.second.n[SIDE:][own]
        block = own.start // SIDE
        if self.parted:
            near, base = self.of_near[own], self.of_base[own]
            parts = [near, base - near, y - u - base, y - v]
            spread, variance = self.spread[own], self.scales.variance[own]
            self.mixed[own] = self.parts.learn(block, y, parts, spread, variance, self._heard())
            return
        self.mixed[own] = self.mixture.learn(block, y, u, v, self.spread[own], self.scales.variance[own])

    def _heard(self) -> np.float32:
        """What the variances are multiplied by in what is learnt of the token."""
        return most(self.energy, F(0.05)) if self.parted else ONE

    def _compare(self, own: slice, r: Row) -> None:
        assert self.place is not None
        gain, history = self.memory.gain[self.place.level][own], self.place.row[own]
        u = gain * (history - (self.value[own] - r))
        variance = self.scales.variance[own] * self._heard()
        w = ONE / np.where(variance < LEAST, LEAST, variance)
        w = np.where(r * r * w < F(16), w, ZERO)
        ru = uu = ZERO
        for one, two in zip(w * r * u, w * u * u, strict=True):
            ru, uu = ru + one, uu + two
        self.trust = self.trust[0] * F(0.95) + ru, self.trust[1] * F(0.95) + uu

    def _mean(self, o: int) -> np.float32:
        mean = self.scale[o] * self.one.p[self.first + o] + self.shift[o]
        return mean + self.other[o] * self.second.p[SIDE + o] if self.two else mean

    def _single(self, block: ColumnBlock, q: int, loud: np.float32, lanes: Lanes | None, row: list[int]) -> None:
        o = block.first + q
        m, d = self._mean(o), self.draft[o]
        deviation, precision = self.scales.deviation[o] * loud, self.scales.precision[o] * (ONE / loud)
        row[o] = self.symbols.decode(lanes, o, block.kind, m + d, precision, row[o])
        v, u = self.alphabet.values[row[o]] - d, ZERO
        r = v - m
        if self.settings.coarse:
            r, u = self.symbols.narrow(row[o], block.kind, m + d, deviation, precision, r)
            v = m + r
        z = r * self.scales.precision[o]
        y = (v - self.centre[o]) * self.inverse[o]
        if not abs(y) < F(1e4):
            y, v, z, u = self.one.p[self.first + o], m, ONE, ZERO
            self.absurd += 1
        self.residual[o], self.value[o], self.blur[o] = v - m, v, u
        self._settle(o, y)
        self._heed(z * z + u * self.scales.precision[o] * self.scales.precision[o])

    def _pair(self, block: ColumnBlock, q: int, loud: np.float32, lanes: Lanes | None, row: list[int]) -> None:
        o = block.first + 2 * q
        c, s, h = self.cos[o // 2], self.sin[o // 2], self.scales.slope[o // 2]
        (d1, d2), (p1, p2), quiet = self.draft[o : o + 2], self.scales.precision[o : o + 2], ONE / loud
        ma, mb = self._mean(o), self._mean(o + 1)
        m1 = c * ma - s * mb
        row[o] = self.symbols.decode(lanes, o, block.kind, m1 + d1, p1 * quiet, row[o])
        v1 = self.alphabet.values[row[o]] - d1
        r1 = v1 - m1
        deviation, precision = self.scales.deviation[o + 1] * loud, p2 * quiet
        u1 = u2 = ZERO
        if self.settings.coarse:
            first = self.scales.deviation[o] * loud
            r1, u1 = self.symbols.narrow(row[o], block.kind, m1 + d1, first, p1 * quiet, r1)
            v1 = m1 + r1
            deviation = np.sqrt(deviation * deviation + h * h * u1)
            precision = ONE / deviation
            p2 = precision * loud
        m2 = s * ma + c * mb + (h * r1 if abs(r1) < F(1e18) else ZERO)
        row[o + 1] = self.symbols.decode(lanes, o + 1, block.kind, m2 + d2, precision, row[o + 1])
        v2 = self.alphabet.values[row[o + 1]] - d2
        r2 = v2 - m2
        if self.settings.coarse:
            r2, u2 = self.symbols.narrow(row[o + 1], block.kind, m2 + d2, deviation, precision, r2)
            v2 = m2 + r2
        z1, z2 = r1 * p1, r2 * p2
        va, vb = c * v1 + s * v2, c * v2 - s * v1
        ya = (va - self.centre[o]) * self.inverse[o]
        yb = (vb - self.centre[o + 1]) * self.inverse[o + 1]
        if not (abs(ya) < F(1e4) and abs(yb) < F(1e4)):
            ya, yb = self.one.p[self.first + o : self.first + o + 2].copy()
            va, vb, z1, z2, u1, u2 = ma, mb, ONE, ONE, ZERO, ZERO
            self.absurd += 2
        self.residual[o], self.value[o] = va - ma, va
        self.residual[o + 1], self.value[o + 1] = vb - mb, vb
        self.blur[o : o + 2] = c * c * u1 + s * s * u2, s * s * u1 + c * c * u2
        self.twist[o] = c * s * (u2 - u1)
        self._settle(o, ya)
        self._settle(o + 1, yb)
        self._heed(z1 * z1 + u1 * p1 * p1)
        self._heed(z2 * z2 + u2 * p2 * p2)

    def _settle(self, o: int, y: np.float32) -> None:
        """Own column o is known."""
        j = self.first + o
        self.y[j] = y
        self.one.n[j] = y - self.one.p[j]
        self.one.sweep(j)
        if self.two:
            self.second.n[SIDE + o] = y - self.second.p[SIDE + o]
            self.second.sweep(SIDE + o)

    def _heed(self, square: np.float32) -> None:
        self.coded += 1
        rate = F(1 / min(self.settings.energy_start + self.coded, self.settings.energy_memory))
        self.energy = self.energy + (least(square, CLIP) - self.energy) * rate

    # After the token

    def _learn(self, base: Row, name: int) -> np.float32:
        if self.token == 0:
            self.scales.begin(self.residual, self.blur)
        else:
            rate = most(ONE / F(self.token + 2), F(self.settings.rate))
            self.scales.learn(self.residual, self.blur, self.twist, rate, self.energy, self.token >= START)
        if self.token < START:
            self.history.append(self.value.copy())
            self.blurs = self.blurs + self.blur if self.token > 1 else self.blur.copy()
            self.base_history.append(base.astype(F))
            self.shift = self.shift + (self.value - self.shift) / F(self.token + 1)
            if self.token == START - 1:
                self._replay()
            return ZERO
        residual = self.mixed if self.two else self.one.n[self.first :]
        if self.settings.repeats:
            self.memory.learn(name, self.value, residual * self.spread, self.scales.variance, self._heard())
        floor, ceiling = F(self.settings.weight_floor), F(self.settings.weight_ceiling)
        weight = ONE / least(most(self.energy, floor), ceiling)
        load = self.one.learn(self.y, weight)
        if self.two:
            load = load + self.second.learn(self._second_y(), weight)
        return load

    def _second_y(self) -> Row:
        return np.concatenate([CONSTANT, self.y[self.first :]]) if self.first > SIDE else self.y

    def _replay(self) -> None:
        sharp = zeros(self.base)
        self.base_centre, self.base_inverse = spreads(self.base_history, sharp, self.floor, self.parted)
        centre, inverse = spreads(self.history, self.blurs, self.floor, self.parted)
        self.centre, self.inverse = centre.astype(F), inverse.astype(F)
        self.spread = ONE / self.inverse
        for t in range(1, START):
            self.y[0], self.y[1 : 1 + self.base] = ONE, self._normalised(self.base_history[t])
            own = (self.history[t] - self.centre) * self.inverse
            self.y[self.first :] = np.where(abs(own) < F(1e4), own, ZERO)
            self.one.know(self.y)
            self.one.learn(self.y, ONE)
            if self.two:
                self.second.know(np.concatenate([CONSTANT, self.y[self.first :]]))
                self.second.learn(self._second_y(), ONE)

    def _keep_time(self, load: np.float32) -> None:
        lost = self.floor > 0 and self.energy > F(16)
        strange = (lost or 2 * self.absurd > self.group.own) and self.token >= START
        self.strange = self.strange + 1 if strange else 0
        self.absurd = 0
        self.token += 1
        if self.strange == 4 or not load < F(1e30):
            self.one.forget()
            self.second.forget()
            self.memory.places.clear()
            self.strange = 0
            self._begin(float(F(self.floor) * F(self.floor)))
        self.symbols.keep_time()
