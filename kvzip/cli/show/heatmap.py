"""The pictures of a file in the terminal: blocks of colour, or of characters where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kvzip.cli.render import Cell, Page
from kvzip.pictures import colours
from kvzip.pictures.figures import UNIT, Bar, Bars, Grid, Heatmaps, Lines, Pictures, Series, event_name
from kvzip.pipeline.stats import Stats

_SHADES, _HEIGHTS, _DIGITS = " ░▒▓█", "▁▂▃▄▅▆▇█", "0123456789"
_WIDEST = 4  # characters of a heatmap's cell
_LABEL = 7  # what names a line of a chart; "layer", and two blanks
_GAP = 3
_STEPS = 96
Reals = NDArray[np.float64]


def show_heatmap(stats: Stats) -> None:
    """All pictures that fit a terminal; only the heatmaps by channel are left to files."""
    page, pictures = Page(), Pictures.of(stats)
    page.line(f"{pictures.name}: {pictures.headline}", wrap=True)
    for note in pictures.notes:
        page.line(note, wrap=True)
    for figure in pictures.figures:
        if figure.id == "channels-by-layer":
            continue
        page.line()
        if isinstance(figure, Heatmaps):
            _heatmaps(page, figure)
        elif isinstance(figure, Lines):
            _lines(page, figure)
        else:
            _bars(page, figure)


def _heatmaps(page: Page, maps: Heatmaps) -> None:
    painter = _Painter(page, maps.low, maps.high)
    room = page.width - _LABEL
    widest = max(len(grid.columns) for grid in maps.grids)
    beside = len(maps.grids) * (widest + _GAP) - _GAP <= room
    count = len(maps.grids) if beside else 1
    cell = max(1, min(_WIDEST, (room - _GAP * (count - 1)) // (count * widest)))
    per_line = max(1, room // cell)
    _legend(page, painter, maps, cell)
    for first in range(0, len(maps.grids), count):
        for start in range(0, widest, per_line):
            stop = min(start + per_line, widest)
            _panels(page, painter, maps, maps.grids[first : first + count], slice(start, stop), cell)


def _legend(page: Page, painter: _Painter, maps: Heatmaps, cell: int) -> None:
    below, above = maps.beyond
    low, high = f"{'<= ' if below else ''}{maps.low:.2f} ", f" {'>= ' if above else ''}{maps.high:.2f}"
    page.cells([(f"{maps.title}, {UNIT}: {low}", None, None), *painter.scale(cell), (high, None, None)])


def _panels(page: Page, painter: _Painter, maps: Heatmaps, grids: tuple[Grid, ...], part: slice, cell: int) -> None:
    """Some columns of grids beside each other, under their names and numbers."""
    width = cell * (part.stop - part.start)
    gap = " " * _GAP
    names = gap.join(grid.name[:width].ljust(width) for grid in grids)
    page.line(" " * _LABEL + names.rstrip())
    numbers = gap.join(_numbers(grid.columns[part], cell).ljust(width) for grid in grids)
    page.line(f"{maps.row_axis:>{_LABEL - 2}}  {numbers}".rstrip())
    for row, label in enumerate(grids[0].rows):
        cells: list[Cell] = [(f"{label:>{_LABEL - 2}}  ", None, None)]
        for number, grid in enumerate(grids):
            cells += [(gap, None, None)] if number else []
            cells += [painter.cell(bits, cell) for bits in grid.cells[row, part].tolist()]
        page.cells(cells)


def _numbers(names: tuple[str, ...], cell: int) -> str:
    """Names of columns where they have room: of each, or of every second, fourth, ..."""
    longest = max((len(name) for name in names), default=0)
    step = 1
    while step * cell <= longest and step < len(names):
        step *= 2
    return "".join(name.ljust(step * cell) for name in names[::step])[: len(names) * cell]


class _Painter:
    """Bits as cells of colour; or as shades, the darker the more, with the tenth of the scale as a digit."""

    def __init__(self, page: Page, low: float, high: float) -> None:
        self._coloured = page.coloured
        self._shades = _SHADES if page.can_show(_SHADES) else ""
        self._colours = colours.scale(_STEPS)
        self._low, self._span = low, high - low

    def cell(self, bits: float, width: int) -> Cell:
        """The cell of one number; a dot where there is none."""
        if not np.isfinite(bits):
            return ".".ljust(width), None, None
        share = min(1.0, max(0.0, (bits - self._low) / self._span))
        if self._coloured:
            return " " * width, None, self._colours[round(share * (_STEPS - 1))]
        return self._shaded(min(9, int(share * 10)), width), None, None

    def _shaded(self, tenth: int, width: int) -> str:
        if not self._shades:
            return str(tenth).ljust(width)
        shade = self._shades[tenth * len(self._shades) // 10]
        return shade if width == 1 else f"{shade * min(2, width - 1)}{tenth}".ljust(width)

    def scale(self, cell: int) -> list[Cell]:
        """The cells from the fewest bits to the most, as cells of a heatmap with that width look."""
        if not self._coloured:
            width = min(3, cell)
            return [(self._shaded(tenth, width), None, None) for tenth in range(10)]
        return [(" ", None, colour) for colour in self._colours[::4]]


def _lines(page: Page, lines: Lines) -> None:
    """Each series on a scale of its own, else the highest would flatten the rest."""
    room = page.width - _LABEL - 1
    rows = [_sampled(series, lines.span[1], room) for series in lines.series]
    spans = [
        f"{series.name} {np.nanmin(row):.2f} to {np.nanmax(row):.2f}"
        for series, row in zip(lines.series, rows, strict=True)
    ]
    page.line(f"{lines.title}, {UNIT}: {', '.join(spans)}", wrap=True)
    for series, row in zip(lines.series, rows, strict=True):
        low, high = float(np.nanmin(row)), float(np.nanmax(row))
        drawn = _heights(page, (row - low) / ((high - low) or 1.0))
        page.cells([(f"{series.name:>{_LABEL - 1}}  ", None, None), (drawn, colours.of_kind(series.kind), None)])
    end, half = f"{lines.span[1]:.0f}", f"{lines.span[1] / 2:.0f}"
    page.line(" " * (_LABEL + 1) + "0".ljust(room // 2) + half.ljust(room - room // 2 - len(end)) + end)
    for what in dict.fromkeys(marks.what for marks in lines.marks):
        _happened(page, lines, what, room)


def _heights(page: Page, shares: Reals) -> str:
    """A column for each share of the highest; blank for NaN."""
    steps = _HEIGHTS if page.can_show(_HEIGHTS) else _DIGITS
    levels = np.minimum(len(steps) - 1, np.nan_to_num(shares * len(steps))).astype(int)
    return "".join(steps[at] if np.isfinite(share) else " " for at, share in zip(levels, shares, strict=True))


def _happened(page: Page, lines: Lines, what: str, room: int) -> None:
    """Where something happened, of whatever kind, and how often."""
    own = [marks for marks in lines.marks if marks.what == what]
    counts = np.zeros(room)
    for marks in own:
        places = np.minimum(room - 1, marks.edges[:-1] / lines.span[1] * room).astype(int)
        np.add.at(counts, places, marks.counts)
    counted = ", ".join(f"{marks.name} {int(marks.counts.sum()):,}" for marks in own)
    page.line(" " * (_LABEL + 1) + _heights(page, np.where(counts > 0, counts / counts.max(), np.nan)).rstrip())
    page.line(" " * (_LABEL + 1) + f"{event_name(what)}: {counted}")


def _sampled(series: Series, end: float, columns: int) -> Reals:
    """Bits of a series, averaged over ``columns`` equal parts of the axis."""
    places = np.linspace(0, end, columns + 1)
    widths = np.diff(series.edges) * np.isfinite(series.bits)
    sums = np.append(0.0, np.cumsum(np.nan_to_num(series.bits) * widths))
    lengths = np.append(0.0, np.cumsum(widths))
    total, length = (np.diff(np.interp(places, series.edges, amounts)) for amounts in (sums, lengths))
    return np.where(length > 1e-9, total / np.maximum(length, 1e-9), np.nan)


def _bars(page: Page, bars: Bars) -> None:
    page.line(f"{bars.title}, {UNIT}")
    letters = _letters(bars.parts)
    label = max(len(bar.name) for bar in bars.bars)
    room = page.width - label - 9
    for bar in bars.bars:
        page.cells([(f"{bar.name:>{label}}  ", None, None), *_bar(page, bar, bars, room, letters)])
    legend: list[Cell] = [(" " * (label + 2), None, None)]
    for part in bars.parts:
        key: Cell = ("  ", None, colours.of_part(part)) if page.coloured else (f"{letters[part]}:", None, None)
        if sum(len(text) for text, _, _ in legend) + len(part) + 5 > page.width:
            page.cells(legend)
            legend = [(" " * (label + 2), None, None)]
        legend += [key, (f" {part}  ", None, None)]
    page.cells([*legend[:-1], (legend[-1][0].rstrip(), None, None)])


def _bar(page: Page, bar: Bar, bars: Bars, room: int, letters: dict[str, str]) -> Iterator[Cell]:
    """A bar's parts, the rest of what a value is in the dump, and the sum."""
    at, done = 0.0, 0
    for part, bits in bar.parts:
        at += bits
        size = round(at / bars.longest * room) - done
        done += size
        yield (" " * size, None, colours.of_part(part)) if page.coloured else (letters[part] * size, None, None)
    track = max(done, round(bars.track[bar.kind] / bars.longest * room))
    yield "." * (track - done), None, None
    yield f"{' ' * (room - track)}  {bar.total:.2f}", None, None


def _letters(parts: tuple[str, ...]) -> dict[str, str]:
    """A letter of each part's name that no other has."""
    found: dict[str, str] = {}
    for part in parts:
        free = (letter for letter in part + "abcdefghijklmnopqrstuvwxyz" if letter.isalpha())
        found[part] = next(letter for letter in free if letter not in found.values())
    return found
