"""The figures drawn by matplotlib, on one sheet, as SVG or PNG. The only module that knows it."""

from __future__ import annotations

import io
import textwrap
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Sheet

from kvzip.pictures import colours
from kvzip.pictures.figures import UNIT, Bars, Figure, Heatmaps, Lines, Pictures, event_name
from kvzip.pictures.ticks import every

_WIDTH = 10.0  # inches
_LEFT = 0.06
_SOFT = "#5b6475"
_TOP = 0.65
_ABOVE, _BELOW = 0.85, 0.5  # of a figure, for its title and caption, and for the names of axes
_LOOK = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text, which also keeps the file small
    "svg.hashsalt": "kvzip",  # the same statistics give the same bytes
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8d93a1",
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "text.parse_math": False,  # a name may hold dollars
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
}


def picture(file: Pictures, form: str) -> bytes:
    """All figures of a file below each other; ``form`` is svg or png."""
    with mpl.rc_context(_LOOK):
        heights = [_height(figure) for figure in file.figures]
        total = max(1.5, _TOP + sum(heights) + (_ABOVE + _BELOW) * len(heights))
        sheet: Any = Sheet(figsize=(_WIDTH, total), facecolor="white")
        FigureCanvasAgg(sheet)
        lines = "\n".join([file.headline, *file.notes])
        sheet.text(_LEFT, 1 - 0.3 / total, _shortened(file.name), fontsize=12, weight="bold", va="center")
        sheet.text(_LEFT, 1 - 0.45 / total, lines, fontsize=9, color=_SOFT, va="top")
        y = total - _TOP
        for figure, height in zip(file.figures, heights, strict=True):
            y -= _ABOVE + height
            caption = textwrap.fill(figure.caption, 150)
            sheet.text(_LEFT, (y + height + 0.62) / total, figure.title, fontsize=10.5, weight="bold")
            sheet.text(_LEFT, (y + height + 0.56) / total, caption, fontsize=8, color=_SOFT, va="top")
            _draw(sheet, figure, y / total, height / total)
            y -= _BELOW
        out = io.BytesIO()
        about = {"Title": file.name} | (
            {"Date": None, "Creator": "kvzip"} if form == "svg" else {"Software": "kvzip"}
        )
        sheet.savefig(out, format=form, dpi=130, metadata=about)
    return out.getvalue()


def _shortened(name: str) -> str:
    return name if len(name) <= 90 else "…" + name[-89:]


def _height(figure: Figure) -> float:
    if isinstance(figure, Heatmaps):
        return min(6.0, max(1.0, 0.11 * len(figure.grids[0].rows)))
    if isinstance(figure, Lines):
        return 2.0 + 0.34 * len({marks.what for marks in figure.marks})
    return 0.36 * len(figure.bars)


def _draw(sheet: Any, figure: Figure, bottom: float, height: float) -> None:
    if isinstance(figure, Heatmaps):
        _heatmaps(sheet, figure, bottom, height)
    elif isinstance(figure, Lines):
        _lines(sheet, figure, bottom, height)
    else:
        _bars(sheet, figure, bottom, height)


def _heatmaps(sheet: Any, maps: Heatmaps, bottom: float, height: float) -> None:
    shade = ListedColormap(colours.scale(256)).with_extremes(bad=colours.MISSING)
    room = 0.84 / len(maps.grids)
    for at, grid in enumerate(maps.grids):
        axes = sheet.add_axes((_LEFT + at * room, bottom, room - 0.05, height))
        axes.set_title(grid.name)
        cells = np.ma.masked_invalid(grid.cells)
        image = axes.imshow(cells, cmap=shade, vmin=maps.low, vmax=maps.high, aspect="auto", interpolation="none")
        rows, columns = (
            every(len(grid.rows), int(height * sheet.get_figheight() / 0.13)),
            every(len(grid.columns), 12),
        )
        axes.set_yticks(list(rows), [grid.rows[row] for row in rows])
        axes.set_xticks(list(columns), [grid.columns[column] for column in columns])
        axes.set(xlabel=maps.column_axis, ylabel=maps.row_axis)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    below, above = maps.beyond
    ends = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    scale = sheet.add_axes((0.885, bottom, 0.014, height))
    sheet.colorbar(image, cax=scale, extend=ends[below, above], label=UNIT).outline.set_visible(False)


def _lines(sheet: Any, lines: Lines, bottom: float, height: float) -> None:
    happened = list(dict.fromkeys(marks.what for marks in lines.marks))
    strip = 0.34 / sheet.get_figheight()
    axes = sheet.add_axes((_LEFT, bottom + strip * len(happened), 0.88, height - strip * len(happened)))
    axes.set_ylabel(UNIT)
    axes.grid(color="#e3e6ec", linewidth=0.6)
    axes.set_axisbelow(True)
    for series in lines.series:
        colour = colours.of_kind(series.kind)
        axes.stairs(series.bits, series.edges, baseline=None, color=colour, label=series.name, linewidth=1.1)
    axes.set(xlim=lines.span, ylim=lines.range)
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(lines.series), borderpad=0)
    for row, what in enumerate(happened, 1):
        axes.tick_params(labelbottom=False, length=3 if row == 1 else 0)
        axes = sheet.add_axes((_LEFT, bottom + strip * (len(happened) - row), 0.88, strip * 0.42))
        own = [marks for marks in lines.marks if marks.what == what]
        most = max(int(marks.counts.max()) for marks in own)
        for at, marks in enumerate(own):
            some = np.flatnonzero(marks.counts)
            shades = [
                (colours.of_kind(marks.kind), min(1.0, 0.2 + 0.8 * count / most)) for count in marks.counts[some]
            ]
            axes.bar(
                marks.edges[some], 0.9, np.diff(marks.edges)[some], -at - 0.9, align="edge", color=shades, linewidth=0
            )
        axes.set(xlim=lines.span, ylim=(-len(own), 0), yticks=[])
        counted = ", ".join(f"{marks.name} {int(marks.counts.sum()):,}" for marks in own)
        axes.set_title(f"{event_name(what)}: {counted}", fontsize=7.5, pad=2)
        axes.spines[:].set_visible(False)
    axes.set_xlabel(lines.axis)


def _bars(sheet: Any, bars: Bars, bottom: float, height: float) -> None:
    axes = sheet.add_axes((0.2, bottom, 0.74, height))
    places = np.arange(len(bars.bars), 0, -1)
    track = [bars.track[bar.kind] for bar in bars.bars]
    axes.barh(places, track, 0.72, color="#eceef3")
    for part in bars.parts:
        colour = colours.of_part(part)
        left = [_before(bar.parts, part) for bar in bars.bars]
        bits = [dict(bar.parts).get(part, 0.0) for bar in bars.bars]
        axes.barh(places, bits, 0.72, left, color=colour, label=part)
        for place, start, wide in zip(places, left, bits, strict=True):
            if wide > 0.05 * bars.longest:
                ink = "white" if colours.is_dark(colour) else "#16202c"
                axes.text(start + wide / 2, place, f"{wide:.2f}", ha="center", va="center", color=ink, fontsize=8)
    axes.set_yticks(places, [bar.name for bar in bars.bars])
    axes.set(xlim=(0, bars.longest), xlabel=UNIT)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.legend(
        frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=8, borderpad=0, fontsize=8, handlelength=1
    )


def _before(parts: tuple[tuple[str, float], ...], wanted: str) -> float:
    """Bits of the parts ahead of one."""
    total = 0.0
    for name, bits in parts:
        if name == wanted:
            break
        total += bits
    return total
