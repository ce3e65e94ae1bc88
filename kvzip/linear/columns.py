"""Which channels make up which columns: groups of heads, keys as RoPE pairs first, values last.

A layer is cut into groups of whole heads so that a group has few enough columns: the cost of a value grows with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import kernel
from kvzip.linear.panel import SIDE

RATE = np.float32(1 / 150)
CLIP = np.float32(20.0)
LEAST = np.float32(1e-30)
FLOOR = np.float32(1 / 64)
LEAST_ENERGY = np.float32(0.05)
ONE = np.float32(1.0)
ZERO = np.float32(0.0)
MOST_OWN = 512  # columns of a group, unless a single head has more


@dataclass(frozen=True)
class Rope:
    """The rotation of a key stream: pair i is the channels ``first[i]`` and ``second[i]``, turned by w per token."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    cos: NDArray[np.float64]
    sin: NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """``source[o]`` is the channel (counted over all streams) of own column o, -1 for padding."""

    source: NDArray[np.int64]
    column_of: NDArray[np.int64]  # of every channel; -1 where another group has it
    pairs: int  # padded to whole blocks; pair h is the columns 2h and 2h + 1
    turn: NDArray[np.float64]  # cos w, sin w of each pair
    kinds: NDArray[np.int64]  # pairs, singles and kind of each block of 16 own columns
    kind_of: NDArray[np.int64]


def _pad(items: list[int]) -> list[int]:
    return items + [-1] * (-len(items) % SIDE)


def _blocks(count: int, paired: bool, kind: int) -> list[tuple[int, int, int]]:
    """Block descriptions of ``count`` columns."""
    out = []
    for at in range(0, count, SIDE):
        here = min(SIDE, count - at)
        out.append((here // 2, 0, kind) if paired else (0, here, kind))
    return out


def _group(members: Sequence[tuple[int, int, str, Rope | None]], total: int) -> Group:
    """A group of streams, each (first channel, channels, kind, rope)."""
    paired: list[int] = []
    turns: list[tuple[float, float]] = []
    keys: list[int] = []
    values: list[int] = []
    for start, channels, kind, rope in members:
        left = np.ones(channels, bool)
        if kind == "key" and rope is not None:
            for a, b, c, s in zip(rope.first, rope.second, rope.cos, rope.sin, strict=True):
                paired += [start + int(a), start + int(b)]
                turns.append((float(c), float(s)))
                left[[a, b]] = False
        (keys if kind == "key" else values).extend(start + int(c) for c in np.flatnonzero(left))
    kinds = _blocks(len(paired), True, 0) + _blocks(len(keys), False, 0) + _blocks(len(values), False, 1)
    source = _pad(paired) + _pad(keys) + _pad(values)
    pairs = len(_pad(paired)) // 2
    turns += [(1.0, 0.0)] * (pairs - len(turns))
    kind_of = [0] * (len(source) - len(_pad(values))) + [1] * len(_pad(values))
    column_of = np.full(total, -1, np.int64)
    for column, channel in enumerate(source):
        if channel >= 0:
            column_of[channel] = column
    return Group(
        np.array(source, np.int64),
        column_of,
        pairs,
        np.array(turns, np.float64).reshape(pairs, 2),
        np.array(kinds, np.int64).reshape(-1, 3),
        np.array(kind_of, np.int64),
    )


def make_groups(kinds: Sequence[str], channels: Sequence[int], ropes: Sequence[Rope | None]) -> list[Group]:
    """Cut a layer's streams into groups: the i-th key stream goes with the i-th value stream."""
    starts = np.concatenate([[0], np.cumsum(channels)])
    members = [(int(starts[i]), int(channels[i]), kinds[i], ropes[i]) for i in range(len(kinds))]
    keys = [member for member in members if member[2] == "key"]
    others = [member for member in members if member[2] != "key"]
    heads = [keys[i : i + 1] + others[i : i + 1] for i in range(max(len(keys), len(others)))]
    groups: list[list[tuple[int, int, str, Rope | None]]] = []
    width = 0
    for head in heads:
        more = sum(member[1] for member in head)
        if not groups or width + more > MOST_OWN:
            groups.append([])
            width = 0
        groups[-1] += head
        width += more
    return [_group(group, sum(channels)) for group in groups]


@kernel
def soften(left, noise, variance, tokens, count):  # type: ignore[no-untyped-def]
    """What a draft left of coarse values (tokens, own), made what it probably was before they were rounded.

    ``noise`` is the variance of their rounding errors. What was there is taken to be normal, of ``variance`` (own)
    times the token's energy, which is that of all its ``count`` columns; the variance follows. ``tokens`` of the
    group came before.
    """
    own = left.shape[1]
    for t in range(left.shape[0]):
        if tokens + t == 0:
            total = ZERO
            for o in range(own):
                total += left[0, o] * left[0, o]
            for o in range(own):
                variance[o] = np.float32(0.5) * (left[0, o] * left[0, o] + total / np.float32(count))
        total = ZERO
        for o in range(own):
            r = left[t, o]
            total += min(r * r / (variance[o] + noise[t, o] + LEAST), CLIP)
        energy = min(max(total / np.float32(count), LEAST_ENERGY), CLIP)
        rate = max(ONE / np.float32(tokens + t + 2), RATE)
        for o in range(own):
            v = energy * max(variance[o], noise[t, o] * FLOOR)
            w = v / (v + noise[t, o] + LEAST)
            r = left[t, o] * w
            q = (r * r + v * (ONE - w)) / energy
            left[t, o] = r
            if tokens + t >= 16:
                q = min(q, CLIP * variance[o])
            variance[o] += (q - variance[o]) * rate


@kernel
def unrotate(values, pairs, angle, turn, out):  # type: ignore[no-untyped-def]
    """Columns (tokens, own) of values: pairs turned back by the token's angle."""
    for t in range(values.shape[0]):
        for h in range(pairs):
            x = angle[h, 0] * turn[h, 0] - angle[h, 1] * turn[h, 1]
            y = angle[h, 1] * turn[h, 0] + angle[h, 0] * turn[h, 1]
            fix = 1.5 - 0.5 * (x * x + y * y)
            angle[h, 0] = x * fix
            angle[h, 1] = y * fix
            c = np.float32(x * fix)
            s = np.float32(y * fix)
            a = values[t, 2 * h]
            b = values[t, 2 * h + 1]
            out[t, 2 * h] = c * a + s * b
            out[t, 2 * h + 1] = c * b - s * a
        for o in range(2 * pairs, values.shape[1]):
            out[t, o] = values[t, o]
