"""Places for labels beside the points of a picture: none over a point, a line or another label, if there is room."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LETTER, LINE = 6.6, 12  # width of a letter and height of a line of 12 px text, in px, about
RINGS = (8, 16, 26, 38, 52)
SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (0.8, -0.8), (0.8, 0.8), (-0.8, -0.8), (-0.8, 0.8))


@dataclass(frozen=True)
class Box:
    """A rectangle in px."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """Return the area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, width) * max(0.0, height)

    def distance(self, x: float, y: float) -> float:
        """Return how far a point is from the rectangle."""
        return math.hypot(max(self.left - x, 0, x - self.right), max(self.top - y, 0, y - self.bottom))

    def outside(self, frame: Box) -> float:
        """Return the area that lies outside a frame."""
        return (self.right - self.left) * (self.bottom - self.top) - self.overlap(frame)


@dataclass(frozen=True)
class Label:
    """Where a text goes: its anchor on the base line, and whether it is so far off that a line should lead to it."""

    x: float
    y: float
    anchor: str
    led: bool


class Labels:
    """The labels of one panel, with all the points that they are of and the places that they must not cover."""

    def __init__(self, frame: Box, points: list[tuple[float, float]], free: Iterable[tuple[float, float]]) -> None:
        self._frame = frame
        self._points = points
        self._taken = [_around(place, 4) for place in points] + [_around(place, 1) for place in free]

    def place(self, x: float, y: float, text: str) -> Label:
        """Return the nearest free place beside a point, or the least bad one."""
        best = min(self._candidates(x, y, text), key=lambda found: self._cost(found[1], x, y))
        self._taken.append(best[1])
        return best[0]

    def _cost(self, box: Box, x: float, y: float) -> float:
        own = box.distance(x, y)
        mistaken = sum(box.distance(*point) < own for point in self._points)  # nearer to another's point
        return 10 * box.outside(self._frame) + sum(box.overlap(other) for other in self._taken) + 50 * mistaken

    def _candidates(self, x: float, y: float, text: str) -> Iterator[tuple[Label, Box]]:
        width = LETTER * len(text)
        for ring in RINGS:
            for right, down in SIDES:
                anchor = "start" if right > 0 else "end" if right < 0 else "middle"
                at, middle = x + right * ring, y + down * (ring + LINE / 4)
                left = {"start": at, "middle": at - width / 2, "end": at - width}[anchor]
                box = Box(left, middle - LINE / 2, left + width, middle + LINE / 2)
                yield Label(at, middle + 4, anchor, ring > RINGS[1]), box


def _around(place: tuple[float, float], size: float) -> Box:
    return Box(place[0] - size, place[1] - size, place[0] + size, place[1] + size)
