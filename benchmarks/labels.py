"""Places for labels beside the points of a picture: none over a point, a line or another label, if there is room."""

from __future__ import annotations

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
    """The labels of one panel; points and lines that they must not cover are told first."""

    def __init__(self, frame: Box) -> None:
        self._frame = frame
        self._taken: list[Box] = []

    def keep_free(self, places: Iterable[tuple[float, float]], size: float) -> None:
        """Keep labels off squares around some places."""
        self._taken += [Box(x - size, y - size, x + size, y + size) for x, y in places]

    def place(self, x: float, y: float, text: str) -> Label:
        """Return the nearest free place beside a point, or the least bad one."""
        best = min(self._candidates(x, y, text), key=lambda found: self._cost(found[1]))
        self._taken.append(best[1])
        return best[0]

    def _cost(self, box: Box) -> float:
        return 10 * box.outside(self._frame) + sum(box.overlap(other) for other in self._taken)

    def _candidates(self, x: float, y: float, text: str) -> Iterator[tuple[Label, Box]]:
        width = LETTER * len(text)
        for ring in RINGS:
            for right, down in SIDES:
                anchor = "start" if right > 0 else "end" if right < 0 else "middle"
                at, middle = x + right * ring, y + down * (ring + LINE / 4)
                left = {"start": at, "middle": at - width / 2, "end": at - width}[anchor]
                box = Box(left, middle - LINE / 2, left + width, middle + LINE / 2)
                yield Label(at, middle + 4, anchor, ring > RINGS[1]), box
