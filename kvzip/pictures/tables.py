"""The numbers of a report as tables, those of its figures among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvzip.pictures.figures import NAMES, UNIT, Bars, Grid, Heatmaps, Lines, Marks, Series, layer_name
from kvzip.pipeline.stats import Stats, Totals


@dataclass(frozen=True)
class Table:
    """Cells of text; the first of each row names it."""

    id: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    sortable: bool = False  # a figure's must keep its order, by which the figure finds its numbers


def bits(number: float, digits: int = 3) -> str:
    """Bits per value; nothing for NaN."""
    return "" if math.isnan(number) else f"{number:.{digits}f}"


def grid_table(anchor: str, maps: Heatmaps, grid: Grid) -> Table:
    """A heatmap's cells."""
    rows = [[name, *map(bits, cells.tolist())] for name, cells in zip(grid.rows, grid.cells, strict=True)]
    title = f"{grid.name}: {UNIT} by {maps.row_axis} and {maps.column_axis}"
    return Table(anchor, title, [maps.row_axis, *grid.columns], rows)


def lines_table(anchor: str, lines: Lines) -> Table:
    """Series, and what happened, bin by bin of the longest series."""
    longest = max((series.edges for series in lines.series), key=len)
    heads = [lines.axis, *(series.name for series in lines.series)]
    heads += [f"{marks.what}, {marks.name}" for marks in lines.marks]
    rows = []
    for at, (left, right) in enumerate(pairwise(longest.tolist())):
        last = math.ceil(right) - 1
        place = f"{left:.0f}" if last <= left else f"{left:.0f}–{last}"
        rows.append([place, *(_at(series, at) for series in lines.series), *(_at(own, at) for own in lines.marks)])
    return Table(anchor, f"{lines.title}, {UNIT}", heads, rows)


def _at(series: Series | Marks, at: int) -> str:
    if at >= len(series.edges) - 1:
        return ""
    return bits(float(series.bits[at])) if isinstance(series, Series) else str(series.counts[at])


def parts_table(anchor: str, bars: Bars) -> Table:
    """Every part of every bar, and their sums."""
    found = [dict(bar.parts) for bar in bars.bars]
    rows = [[part, *(bits(own[part], 4) if part in own else "" for own in found)] for part in bars.parts]
    rows.append(["sum", *(bits(bar.total, 4) for bar in bars.bars)])
    return Table(anchor, f"{bars.title}, {UNIT}", ["part", *(bar.name for bar in bars.bars)], rows)


def _counts(totals: Totals) -> list[str]:
    what = (totals.values, *totals.updates.values(), totals.resets, totals.escapes)
    return [f"{totals.bits_per_value:.4f}", f"{totals.ratio:.4f}", *(f"{count:,}" for count in what)]


_COUNTS = (UNIT, "ratio", "values", "periodic", "confidence", "novelty", "resets", "escapes")


def kinds_table(anchor: str, stats: Stats) -> Table:
    """Totals of keys, values and other kinds."""
    kinds = [(NAMES.get(kind, kind), totals) for kind, totals in stats.kinds.items()]
    rows = [[name, *_counts(totals)] for name, totals in kinds]
    if len(rows) != 1:
        rows.append(["all", *_counts(stats.total)])
    return Table(anchor, "Kinds", ("kind", *_COUNTS), rows)


def layers_table(anchor: str, stats: Stats) -> Table:
    """Totals by layer and kind."""
    rows = [
        [layer_name(layer), NAMES.get(kind, kind), *_counts(totals)]
        for (layer, kind), totals in stats.layers.items()
        if kind
    ]
    return Table(anchor, "Layers", ("layer", "kind", *_COUNTS), rows, sortable=True)
