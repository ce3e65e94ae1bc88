"""Sections 13.2 to 13.4 of docs/format.md: numbers of ordered integers, columns, and the base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .shared import Rope

Row = NDArray[np.float32]
F = np.float32
SIDE = 16
MOST_OWN = 512
FAR = float(F(1e30))
TINY = F(1e-30)
CLIP = F(20)
E4M3 = 8


class Alphabet:
    """What the ordered integers of a type stand for."""

    def __init__(self, dtype: int, bits: int, exponent: int, scale: int) -> None:
        self.width = min(16, bits)
        self.raw = bits - self.width
        self.sign = 1 << (self.width - 1)
        mantissa = self.width - 1 - exponent
        bias = (1 << (exponent - 1)) - 1
        pattern = np.arange(self.sign)
        power = np.maximum(pattern >> mantissa, 1) - bias - mantissa + scale
        fraction = pattern & ((1 << mantissa) - 1) | np.where(pattern >> mantissa, 1 << mantissa, 0)
        size = np.ldexp(fraction.astype(np.float64), power)
        none = pattern == self.sign - 1 if dtype == E4M3 else pattern >> mantissa == (1 << exponent) - 1
        size[none | (size > 1e18)] = np.nan
        known = np.where(np.isnan(size), FAR, size)
        border = np.empty(self.sign + 1)  # of the magnitudes: border[i] is below the i-th
        border[0], border[-1] = 0, FAR
        if self.raw:
            border[1:-1] = known[1:]
            size[:-1] = (size[:-1] + size[1:]) / 2
        else:
            border[1:-1] = np.where(known[1:] == FAR, FAR, (known[:-1] + known[1:]) / 2)
        self.values = np.concatenate([-size[::-1], size]).astype(F)
        self.edges = np.concatenate([-border[:0:-1], border]).astype(F)

    def k_of(self, value: int) -> int:
        top = value >> self.raw
        return 2 * self.sign - 1 - top if top & self.sign else top + self.sign

    def bits_of(self, k: int) -> int:
        return (k - self.sign if k & self.sign else 2 * self.sign - 1 - k) << self.raw


@dataclass
class ColumnBlock:
    """Sixteen own columns from ``first`` on, ``count`` of them with a value."""

    first: int
    count: int
    paired: bool
    kind: int


@dataclass
class Stream:
    """Its channels, counted over all streams, from ``first`` on."""

    first: int
    channels: int
    value: bool
    rope: Rope | None


class Group:
    """``source`` is the channel of each own column, -1 for padding."""

    def __init__(self, streams: list[Stream]) -> None:
        paired: list[int] = []
        lists: tuple[list[int], list[int]] = ([], [])
        cos: list[float] = []
        sin: list[float] = []
        for stream in streams:
            turned: set[int] = set()
            if stream.rope and not stream.value:
                for pair in stream.rope.pairs:
                    paired += [stream.first + channel for channel in pair]
                    turned.update(pair)
                cos += stream.rope.cos
                sin += stream.rope.sin
            still = [c for c in range(stream.channels) if c not in turned]
            lists[stream.value].extend(stream.first + c for c in still)
        self.source: list[int] = []
        self.blocks: list[ColumnBlock] = []
        for channels, is_paired, kind in ((paired, True, 0), (lists[0], False, 0), (lists[1], False, 1)):
            for at in range(0, len(channels), SIDE):
                part = channels[at : at + SIDE]
                self.blocks.append(ColumnBlock(len(self.source), len(part), is_paired, kind))
                self.source += part + [-1] * (SIDE - len(part))
        self.own = len(self.source)
        self.pairs = sum(SIDE // 2 for block in self.blocks if block.paired)
        still_pairs = self.pairs - len(cos)
        self.cos, self.sin = cos + [1.0] * still_pairs, sin + [0.0] * still_pairs
        self.kinds = np.repeat([block.kind for block in self.blocks], SIDE)


def groups_of(streams: list[Stream]) -> list[Group]:
    """Section 13.3."""
    keys = [stream for stream in streams if not stream.value]
    values = [stream for stream in streams if stream.value]
    out: list[list[Stream]] = []
    width = 0
    for i in range(max(len(keys), len(values))):
        head = keys[i : i + 1] + values[i : i + 1]
        more = sum(stream.channels for stream in head)
        if not out or width + more > MOST_OWN:
            out.append([])
            width = 0
        out[-1] += head
        width += more
    return [Group(group) for group in out]


class Angles:
    """Cosines and sines of a group's pairs, token after token."""

    def __init__(self, group: Group) -> None:
        self.step = np.array(group.cos), np.array(group.sin)
        self.state = np.ones(group.pairs), np.zeros(group.pairs)

    def next(self) -> tuple[Row, Row]:
        (c, s), (cw, sw) = self.state, self.step
        x, y = c * cw - s * sw, s * cw + c * sw
        fix = 1.5 - 0.5 * (x * x + y * y)
        self.state = x * fix, y * fix
        return self.state[0].astype(F), self.state[1].astype(F)


class Softened:
    """Section 13.4: what a draft left of a group's values of 8 bits, token after token."""

    def __init__(self) -> None:
        self.variance: Row | None = None
        self.tokens = 0

    def next(self, left: Row, noise: Row) -> Row:
        with np.errstate(all="ignore"):
            ordinary = abs(left) < F(1e18)
            left, noise = np.where(ordinary, left, F(0)), np.where(ordinary, noise, F(0))
            count = F(len(left))
            if self.variance is None:
                self.variance = F(0.5) * (left * left + total(left * left) / count)
            v = self.variance
            q = left * left / (v + noise + TINY)
            energy = total(np.where(q > CLIP, CLIP, q)) / count
            energy = F(0.05) if energy < F(0.05) else CLIP if energy > CLIP else energy
            floor = noise * F(1 / 64)
            signal = energy * np.where(floor > v, floor, v)
            share = signal / (signal + noise + TINY)
            left = left * share
            q = (left * left + signal * (F(1) - share)) / energy
            if self.tokens >= SIDE:
                q = np.where(CLIP * v < q, CLIP * v, q)
            rate = max(F(1) / F(self.tokens + 2), F(1 / 150))
            self.variance = v + (q - v) * rate
            self.tokens += 1
            return left


def total(terms: Row) -> np.float32:
    out = F(0)
    for term in terms:
        out = out + term
    return out


def base_columns(alphabet: Alphabet, streams: list[Stream], rows: list[list[int]], draft: Row | None = None) -> Row:
    """Section 13.4: what another unit's prediction gets of these rows of values, all streams' channels joined."""
    groups = groups_of(streams)
    angles = [Angles(group) for group in groups]
    softened = [Softened() for _ in groups]
    out = []
    for t, row in enumerate(rows):
        ks = np.array([alphabet.k_of(value) for value in row])
        numbers = alphabet.values[ks]
        below, above = numbers - alphabet.edges[ks], alphabet.edges[ks + 1] - numbers
        half = np.where(above < below, above, below)
        if draft is not None:
            with np.errstate(all="ignore"):
                numbers = numbers - np.clip(draft[t], F(-1e18), F(1e18))
                noise = half * half / F(3)
        line: list[np.float32] = []
        for group, angle, soft in zip(groups, angles, softened, strict=True):
            c, s = angle.next()
            if draft is not None and alphabet.width == 8:
                own = [channel for channel in group.source if channel >= 0]
                numbers[own] = soft.next(numbers[own], noise[own])
            own = np.array([numbers[channel] if channel >= 0 else F(0) for channel in group.source], F)
            a, b = own[0 : 2 * group.pairs : 2].copy(), own[1 : 2 * group.pairs : 2].copy()
            own[0 : 2 * group.pairs : 2] = c * a + s * b
            own[1 : 2 * group.pairs : 2] = c * b - s * a
            line += [x for x, channel in zip(own, group.source, strict=True) if channel >= 0]
        out.append(line)
    return np.array(out, F)
