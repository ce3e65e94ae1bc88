"""Colours: a scale from dark to light that also reads without colour, and one colour for each kind and part."""

from __future__ import annotations

from itertools import pairwise

# Viridis (van der Walt and Smith, released as CC0) at even steps; between them lines in sRGB are near enough.
_ANCHORS = (
    "#440154", "#481467", "#482576", "#463480", "#414487", "#3b528b", "#355f8d", "#2f6c8e", "#2a788e",
    "#25848e", "#21918c", "#1e9c89", "#22a884", "#2fb47c", "#44bf70", "#5ec962", "#7ad151", "#9bd93c",
    "#bddf26", "#dfe318", "#fde725",
)  # fmt: skip
MISSING = "#c9ccd3"
_KINDS = {"key": "#3f78c9", "value": "#d9822b", "latent": "#2a9d78", "scale": "#8e6bbf", "bias": "#b0506e"}
# Order-0 entropy in blues, what was spent in greens, what no value is to blame for in warm colours.
_PARTS = {
    "sign": "#6f5fb0",
    "exponent": "#3f78c9",
    "mantissa": "#92bbe8",
    "sign+mantissa": "#aab4e0",
    "bytes": "#92bbe8",
    "symbols": "#2a9d78",
    "low bits": "#93d3b8",
    "literals": "#e3b341",
    "side": "#d1495b",
    "stored": "#8d93a1",
}
_OTHER = "#8d93a1"


def rgb(colour: str) -> tuple[int, int, int]:
    """Red, green and blue, 0 to 255, of ``#rrggbb``."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _between(one: str, other: str, share: float) -> str:
    mixed = (round(a + (b - a) * share) for a, b in zip(rgb(one), rgb(other), strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def scale(steps: int) -> list[str]:
    """The scale of colours in ``steps`` (2 or more) even steps, the darkest for the fewest bits."""
    lines = list(pairwise(_ANCHORS))
    found = []
    for step in range(steps):
        at = step / (steps - 1) * len(lines)
        line = min(int(at), len(lines) - 1)
        found.append(_between(*lines[line], at - line))
    return found


def of_kind(kind: str) -> str:
    """The colour of keys, of values and of other kinds."""
    return _KINDS.get(kind, _OTHER)


def of_part(part: str) -> str:
    """The colour of a part of a value, or of what bits were spent on."""
    return _PARTS.get(part, _OTHER)


def is_dark(colour: str) -> bool:
    """Whether text on it should be white."""
    red, green, blue = rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140
