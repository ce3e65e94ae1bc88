"""On which links a codec pays, and which one is the fastest there.

A *link* is whatever the bytes go over, a network or a disk; it takes 1/B seconds for a byte. Of a byte of the dump a
codec with ratio r leaves 1/r bytes for the link, and its own stages take seconds:

    write   compress, then the link           1/in
    read    the link, then decompress         1/out
    send    compress, link, decompress        1/in and 1/out, on two machines like this one

Stages that run one after the other add up; stages that overlap (a pipe, a stream of chunks) take as long as the
slowest. A byte of the raw dump takes 1/B either way:

    in turn    1/in + 1/(r B)   (send: and 1/out)
    overlap    max(1/in, 1/(r B))

Nothing is interpolated: the bounds are where two of these are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

DIRECTIONS = ("write", "read", "send")


@dataclass(frozen=True)
class Choice:
    """One way to go: ``ratio``, and bytes of the dump a second ``into`` and ``out`` of it."""

    name: str
    ratio: float
    into: float
    out: float


RAW = Choice("raw", 1.0, math.inf, math.inf)
"""The dump as it is."""


@dataclass(frozen=True)
class Band:
    """The bandwidths, bytes a second from ``low`` up to ``high``, at which a choice is the fastest."""

    name: str
    low: float
    high: float


def own_seconds(choice: Choice, direction: str, overlap: bool) -> float:
    """What a byte of the dump takes besides the link."""
    into, out = 1 / choice.into, 1 / choice.out
    both = max(into, out) if overlap else into + out
    return {"write": into, "read": out, "send": both}[direction]


def seconds(choice: Choice, direction: str, overlap: bool, bandwidth: float) -> float:
    """What a byte of the dump takes in all."""
    own, link = own_seconds(choice, direction, overlap), 1 / (choice.ratio * bandwidth)
    return max(own, link) if overlap else own + link


def pays_below(choice: Choice, direction: str, overlap: bool) -> float:
    """The bandwidth below which a choice is faster than the raw dump; 0: at none."""
    return 0.0 if choice.ratio <= 1 else 1 / _link_seconds(RAW, choice, direction, overlap)


def fastest(choices: Sequence[Choice], direction: str, overlap: bool) -> list[Band]:
    """The fastest of the ``choices`` and the raw dump at every bandwidth, from slow links to fast ones.

    As functions of a link's seconds for a byte, two choices cross at most once: the one with less work of its own is
    faster on a fast link, the one with the higher ratio on a slow one. So each is the fastest in one band or in none.
    """
    ways = sorted((RAW, *choices), key=lambda each: (own_seconds(each, direction, overlap), -each.ratio))
    found: list[tuple[Choice, float]] = []  # with the link's seconds from which on it is the fastest
    for each in ways:
        if found and each.ratio <= found[-1][0].ratio:
            continue  # more work, and no smaller
        begins = 0.0
        while found and (begins := _link_seconds(found[-1][0], each, direction, overlap)) <= found[-1][1]:
            found.pop()
        found.append((each, begins))
    ends = [since for _, since in found[1:]] + [math.inf]
    bands = [Band(each.name, 1 / end, _inverse(since)) for (each, since), end in zip(found, ends, strict=True)]
    return bands[::-1]


def _link_seconds(quick: Choice, small: Choice, direction: str, overlap: bool) -> float:
    """The link's seconds for a byte from which on ``small``, of the higher ratio, is as fast as ``quick``."""
    more = own_seconds(small, direction, overlap)
    if overlap:  # quick waits for the link there, small still for itself
        return more * quick.ratio
    return (more - own_seconds(quick, direction, overlap)) / (1 / quick.ratio - 1 / small.ratio)


def _inverse(since: float) -> float:
    return 1 / since if since else math.inf
