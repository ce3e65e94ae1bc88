"""Tables as markdown and as aligned text, and how their numbers look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """One table: a line above it, its head, rows of as many cells; the first column is text, the others numbers."""

    caption: str
    head: list[str]
    rows: list[list[str]]


def as_markdown(table: Table) -> str:
    """Render as markdown, without the caption."""
    rule = ["---"] + ["---:"] * (len(table.head) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (table.head, rule, *table.rows))


def as_text(table: Table) -> str:
    """Render as aligned text, without the caption."""
    rows: list[Sequence[str]] = [table.head, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
    padded = ([f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def number(value: float | None, digits: int, unit: float = 1.0) -> str:
    """Return a number in a unit, blank where there is none."""
    return "" if value is None else f"{value / unit:.{digits}f}"


def spread_of(rate: dict[str, float] | None) -> str:
    """Return median (least..greatest), the median alone where it was measured once."""
    if rate is None:
        return ""
    digits = 0 if rate["median"] >= 10 else 1
    middle, low, high = (f"{rate[name]:.{digits}f}" for name in ("median", "min", "max"))
    return middle if rate["min"] == rate["max"] else f"{middle} ({low}..{high})"
