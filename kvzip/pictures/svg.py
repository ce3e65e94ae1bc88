"""Charts as inline SVG of fluid width: text keeps its size, data are stretched to the room there is.

An ``svg`` is the plot's area alone; marks of axes stand outside it, in what the page pads it with. x is in percent, y
in pixels, and what is stretched lies in an inner ``svg`` with numbers of its own. All text is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import numpy as np
from numpy.typing import NDArray

from kvzip.pictures import colours
from kvzip.pictures.figures import UNIT, Bar, Bars, Grid, Heatmaps, Lines, Marks, Series, event_name
from kvzip.pictures.ticks import every, plain, ticks

STEPS = 96  # colours of a heatmap: more cannot be told apart
_LINE_HEIGHT = 230
_STRIP = 36  # pixels for one kind of marks: its name, and the marks below


def text(words: str) -> str:
    """``words`` for a text or an attribute; what does not print, or turns the direction, as question marks."""
    return escape("".join(c if c.isprintable() else "?" for c in words), quote=True)


def _chart(
    figure: str, title: str, about: str, width: str, height: float, body: Iterable[str], data: str = ""
) -> str:
    names = f'<title id="{figure}-title">{text(title)}</title><desc id="{figure}-about">{text(about)}</desc>'
    labelled = f'role="img" aria-labelledby="{figure}-title {figure}-about"'
    size = f'width="{width}" height="{height:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {labelled} {size}{data}>{names}{"".join(body)}</svg>'


def _label(x: str, y: float, words: str, *, anchor: str = "middle", kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y:g}" text-anchor="{anchor}"{styled}>{text(words)}</text>'


def _stretched(y: float, height: float, columns: float, rows: float, body: str, data: str = "") -> str:
    box = f'width="100%" y="{y:g}" height="{height:g}" viewBox="0 0 {columns:g} {rows:g}" preserveAspectRatio="none"'
    return f"<svg {box}{data}>{body}</svg>"


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def heatmap(figure: str, maps: Heatmaps, grid: Grid) -> str:
    """One grid; rows from the top."""
    rows, columns = grid.cells.shape
    cell = min(64.0, max(3.0, 470 / columns))
    height = rows * (26 if rows <= 4 else 16 if rows <= 16 else 12 if rows <= 48 else 8)
    each = height / rows
    body = [_stretched(0, height, columns, rows, _cells(maps, grid), ' class="cells"')]
    body.append(_label("-6", -6, maps.row_axis, anchor="end", kind="axis"))
    for row in every(rows, int(height / 12)):
        body.append(_label("-6", each * (row + 0.5) + 4, grid.rows[row], anchor="end"))
    for column in every(columns, max(2, min(9, columns if cell >= 24 else 9))):
        body.append(_label(_percent((column + 0.5) / columns), height + 15, grid.columns[column]))
    body.append(_label("50%", height + 31, maps.column_axis, kind="axis"))
    about = f"{grid.name}: {rows} rows ({maps.row_axis}) of {columns} ({maps.column_axis}), {_extent(grid.cells)}"
    return _chart(
        figure, f"{maps.title}, {grid.name}", about, f"{columns * cell:g}", height, body, ' data-shape="grid"'
    )


def _extent(bits: NDArray[np.float64]) -> str:
    known = bits[np.isfinite(bits)]
    return f"from {known.min():.3f} to {known.max():.3f} {UNIT}" if len(known) else "nothing known"


def _cells(maps: Heatmaps, grid: Grid) -> str:
    """Cells of one colour are one path, so that many cells stay small."""
    shade = colours.scale(STEPS)
    place = (np.nan_to_num(grid.cells, nan=maps.low) - maps.low) / (maps.high - maps.low)
    level = np.clip(np.rint(place * (STEPS - 1)), 0, STEPS - 1).astype(int)
    level[~np.isfinite(grid.cells)] = -1
    paths = []
    for number in np.unique(level):
        runs = []
        for row, own in enumerate(level == number):
            edges = np.flatnonzero(np.diff(np.concatenate(([0], own.astype(np.int8), [0]))))
            runs += [f"M{start} {row}h{stop - start}v1h{start - stop}z" for start, stop in edges.reshape(-1, 2)]
        fill = colours.MISSING if number < 0 else shade[number]
        paths.append(f'<path fill="{fill}" d="{"".join(runs)}"/>')
    return "".join(paths)


def legend(figure: str, maps: Heatmaps) -> str:
    """The scale of colours, as a bar with marks."""
    shade = colours.scale(STEPS)
    bands = "".join(f'<path fill="{colour}" d="M{at} 0h1.05v1h-1.05z"/>' for at, colour in enumerate(shade))
    body = [_stretched(0, 12, STEPS, 1, bands, ' class="cells"')]
    span = maps.high - maps.low
    for mark in ticks(maps.low, maps.high, 5):
        body.append(_label(_percent((mark - maps.low) / span), 27, plain(mark)))
    below, above = maps.beyond
    body += [_label("-5", 10, "fewer ◂", anchor="end")] if below else []
    body += ['<text x="100%" dx="5" y="10">▸ more</text>'] if above else []
    about = f"Colours from {maps.low:.3f} (dark) to {maps.high:.3f} (light) {UNIT}"
    return _chart(figure, f"{maps.title}: colours", about, "240", 12, body)


def lines(figure: str, chart: Lines) -> str:
    """Series as steps, with marks in strips below them."""
    left, right = chart.span
    low, high = chart.range
    body = []
    for mark in ticks(low, high):
        y = _LINE_HEIGHT * (high - mark) / (high - low)
        body.append(f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        body.append(_label("-6", y + 4, plain(mark), anchor="end"))
    height = _LINE_HEIGHT + _STRIP * len({marks.what for marks in chart.marks})
    for mark in ticks(left, right, 6):
        at = _percent((mark - left) / (right - left))
        body.append(f'<line class="grid" x1="{at}" x2="{at}" y1="0" y2="{_LINE_HEIGHT}"/>')
        body.append(_label(at, height + 16, plain(mark)))
    body.append(_label("50%", height + 32, chart.axis, kind="axis"))
    for series in chart.series:
        body.append(_stretched(0, _LINE_HEIGHT, right, 1000, _steps(series, low, high)))
    for row, what in enumerate(dict.fromkeys(marks.what for marks in chart.marks), 1):
        body.append(_strip(_LINE_HEIGHT + row * _STRIP, right, [own for own in chart.marks if own.what == what]))
    body.append(f'<line class="cursor" x1="0" x2="0" y1="0" y2="{height:g}" visibility="hidden"/>')
    about = "; ".join(f"{series.name} {_extent(series.bits)}" for series in chart.series)
    edges = " ".join(f"{edge:g}" for edge in chart.series[0].edges[[0, 1, -1]])
    return _chart(figure, chart.title, about, "100%", height, body, f' data-shape="lines" data-edges="{edges}"')


def _steps(series: Series, low: float, high: float) -> str:
    drawn, down = [], False
    heights = (high - series.bits) / (high - low) * 1000
    for at, (height, left, right) in enumerate(zip(heights, series.edges[:-1], series.edges[1:], strict=True)):
        if not np.isfinite(series.bits[at]):
            down = False
            continue
        drawn.append(f"{'V' if down else f'M{left:g} '}{height:.0f}H{right:g}")
        down = True
    return f'<path class="line {text(series.kind)}" vector-effect="non-scaling-stroke" d="{"".join(drawn)}"/>'


def _strip(bottom: float, right: float, marks: list[Marks]) -> str:
    """What happened, one line of marks for each kind; the darker, the more streams."""
    counted = ", ".join(f"{own.name} {int(own.counts.sum()):,}" for own in marks)
    body = _label("0", bottom - _STRIP + 17, f"{event_name(marks[0].what)}: {counted}", anchor="start", kind="strip")
    most = max(int(own.counts.max()) for own in marks)
    paths = []
    for row, own in enumerate(marks):
        level = np.ceil(4 * own.counts / most).astype(int)
        for number in range(1, 5):
            bins = np.flatnonzero(level == number)
            drawn = "".join(
                f"M{own.edges[at]:g} {row}h{own.edges[at + 1] - own.edges[at]:g}v.9H{own.edges[at]:g}z" for at in bins
            )
            if drawn:
                paths.append(f'<path class="mark {text(own.kind)}" fill-opacity="{number / 4}" d="{drawn}"/>')
    return body + _stretched(bottom - 14, 14, right, len(marks), "".join(paths))


def bars(figure: str, chart: Bars) -> str:
    """Stacked bars, each below its name."""
    body, y = [], 0.0
    for bar in chart.bars:
        body += _bar(y, bar, chart)
        y += 46
    for mark in ticks(0, chart.longest, 8):
        body.append(_label(_percent(mark / chart.longest), y + 10, plain(mark)))
    body.append(_label("50%", y + 26, UNIT, kind="axis"))
    about = "; ".join(f"{bar.name} {bar.total:.3f} {UNIT}" for bar in chart.bars)
    return _chart(figure, chart.title, about, "100%", y, body)


def _bar(y: float, bar: Bar, chart: Bars) -> list[str]:
    title = f"{bar.name}, {bar.total:.3f} of {chart.track[bar.kind]:g} {UNIT}"
    out = [_label("0", y + 12, title, anchor="start", kind="strip")]
    out.append(
        f'<rect class="track" y="{y + 17:g}" height="22" width="{_percent(chart.track[bar.kind] / chart.longest)}"/>'
    )
    at = 0.0
    for name, bits in bar.parts:
        colour = colours.of_part(name)
        size = (
            f'x="{_percent(at / chart.longest)}" y="{y + 17:g}" width="{_percent(bits / chart.longest)}" height="22"'
        )
        out.append(f'<rect fill="{colour}" {size}><title>{text(name)}: {bits:.4f} {UNIT}</title></rect>')
        if bits > 0.1 * chart.longest:
            middle = _percent((at + bits / 2) / chart.longest)
            out.append(
                _label(middle, y + 32, f"{bits:.2f}", kind="on-dark" if colours.is_dark(colour) else "on-light")
            )
        at += bits
    return out
