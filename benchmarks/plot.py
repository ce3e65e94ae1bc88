"""Ratio against speed as an SVG: one panel for each direction, kvzip's levels joined by a line, others as points.

Written as text: a few dozen lines that differ readably from run to run. The background is transparent and all colours
lie between black and white, so that the picture can be read on light and on dark pages.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from labels import Box, Labels
from report import at_threads, greatest_threads

WIDTH, HEIGHT = 860, 430
LEFT, GAP, TOP, BOTTOM, RIGHT = 52, 44, 44, 52, 16
PANEL = (WIDTH - LEFT - GAP - RIGHT) / 2
INK, GRID, OURS, OTHERS = "#7d8590", "#7d859055", "#2f81f7", "#c4661f"
DECADES = (1, 2, 5)

Place = Callable[[float], float]
Point = tuple[float, float, str]
"""Rate in MB/s, ratio, label."""


def ratio_speed(dump: dict[str, Any]) -> str:
    """Return the picture for one dump's record."""
    threads = greatest_threads(dump)
    names = dict.fromkeys(each["codec"] for each in dump["results"])
    measured = [each for name in names if (each := at_threads(dump, name, threads)) and each["rates"]]
    low = math.floor(10 * min(each["ratio"] for each in measured)) / 10
    high = math.ceil(10 * max(each["ratio"] for each in measured) + 0.2) / 10
    rates = [each["rates"][way]["median"] for each in measured for way in ("in", "out")]
    span = min(rates) / 1.4, max(rates) * 1.7
    title = (
        f"{dump['name']}, {dump['bytes'] / 1e6:.0f} MB of {dump['dtype']}, {threads} threads; blue: kvzip -1 to -9"
    )
    parts = [_text(WIDTH / 2, 18, title, "middle", weight="bold")]
    for number, (way, label) in enumerate((("in", "compress"), ("out", "decompress"))):
        left = LEFT + number * (PANEL + GAP)
        ours = [_point(each, way, f"-{each['level']}") for each in measured if each["level"]]
        others = [_point(each, way, each["codec"]) for each in measured if not each["level"]]
        parts += _panel(left, label, span, (low, high), ours, others)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">\n'
        f"<title>Ratio against speed: {title}</title>\n{body}\n</svg>\n"
    )


def _point(each: dict[str, Any], way: str, label: str) -> Point:
    return each["rates"][way]["median"], each["ratio"], label


def _panel(
    left: float,
    label: str,
    rates: tuple[float, float],
    ratios: tuple[float, float],
    ours: list[Point],
    others: list[Point],
) -> list[str]:
    bottom = HEIGHT - BOTTOM
    scale = PANEL / math.log(rates[1] / rates[0])

    def x(rate: float) -> float:
        return left + scale * math.log(rate / rates[0])

    def y(ratio: float) -> float:
        return bottom - (ratio - ratios[0]) / (ratios[1] - ratios[0]) * (bottom - TOP)

    parts = [_text(left + PANEL / 2, 36, label, "middle")]
    parts += _axes(left, x, y, rates, ratios)
    ours = sorted(ours, key=lambda point: point[1])
    line = [(x(rate), y(ratio)) for rate, ratio, _ in ours]
    joined = " ".join(f"{across:.1f},{down:.1f}" for across, down in line)
    parts.append(f'<polyline points="{joined}" fill="none" stroke="{OURS}" stroke-width="1.5"/>')
    every = line + [(x(rate), y(ratio)) for rate, ratio, _ in others]
    labels = Labels(Box(left, TOP, left + PANEL, bottom), every, _along(line))
    others = sorted(others, key=lambda point: (-len(point[2]), point[2]))  # long labels fit in few places
    for points, colour, weight in (
        (ours, OURS, "bold"),
        (sorted(others, key=lambda each: -each[1]), OTHERS, "normal"),
    ):
        for rate, ratio, name in points:
            parts.append(_dot(x(rate), y(ratio), colour))
            place = labels.place(x(rate), y(ratio), name)
            if place.led:
                parts.append(_line(x(rate), y(ratio), place.x, place.y - 4, colour))
            parts.append(_text(place.x, place.y, name, place.anchor, colour, weight))
    return parts


def _along(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return places along a line of points, eight a stretch."""
    return [
        (x1 + (x2 - x1) * eighth / 8, y1 + (y2 - y1) * eighth / 8)
        for (x1, y1), (x2, y2) in itertools.pairwise(line)
        for eighth in range(1, 8)
    ]


def _axes(left: float, x: Place, y: Place, rates: tuple[float, float], ratios: tuple[float, float]) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, left + PANEL
    parts = []
    for power in range(-1, 6):
        for digit in DECADES:
            rate = digit * 10.0**power
            if rates[0] <= rate <= rates[1]:
                parts.append(_line(x(rate), TOP, x(rate), bottom))
                parts.append(_text(x(rate), bottom + 16, f"{rate:g}", "middle"))
    for tenth in range(round(10 * ratios[0]), round(10 * ratios[1]) + 1):
        parts.append(_line(left, y(tenth / 10), right, y(tenth / 10)))
        parts.append(_text(left - 7, y(tenth / 10) + 4, f"{tenth / 10:.1f}", "end"))
    parts.append(_text(left + PANEL / 2, bottom + 36, "MB/s", "middle"))
    if left == LEFT:
        middle = (TOP + bottom) / 2
        parts.append(f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">ratio</text>')
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = GRID) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = INK, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">{text}</text>'
    )
