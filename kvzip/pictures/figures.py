"""What the pictures of a file show: grids, lines and bars, computed from its statistics and drawn elsewhere.

Whatever draws them takes names, numbers, ranges and captions from here, so that all show the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvzip.files.faults import shown
from kvzip.pictures import course
from kvzip.pipeline.stats import Stats, StreamStats, Totals

Reals = NDArray[np.float64]
UNIT = "bits/value"
NAMES = {"key": "keys", "value": "values", "latent": "latents", "scale": "scales", "bias": "biases", "": "other data"}


@dataclass(frozen=True)
class Grid:
    """One heatmap: bits per value by row and column, NaN where there is nothing."""

    kind: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Reals  # (rows, columns)

    @property
    def name(self) -> str:
        """What it shows, in words."""
        return NAMES.get(self.kind, self.kind)


@dataclass(frozen=True)
class Heatmaps:
    """Heatmaps side by side with one scale of colours from ``low`` to ``high``; cells beyond have an end's colour."""

    id: str
    title: str
    caption: str
    row_axis: str
    column_axis: str
    grids: tuple[Grid, ...]
    low: float
    high: float

    @property
    def beyond(self) -> tuple[bool, bool]:
        """Whether cells are below ``low``, and above ``high``."""
        cells = np.concatenate([grid.cells.ravel() for grid in self.grids])
        return bool(np.nanmin(cells) < self.low), bool(np.nanmax(cells) > self.high)


@dataclass(frozen=True)
class Series:
    """Bits per value of one kind along an axis, constant between edges."""

    kind: str
    edges: Reals  # (bins + 1,)
    bits: Reals  # (bins,), NaN where there is nothing

    @property
    def name(self) -> str:
        """What it shows, in words."""
        return NAMES.get(self.kind, self.kind)


@dataclass(frozen=True)
class Marks:
    """How often something happened in each bin of the series with its kind."""

    kind: str
    what: str
    edges: Reals  # (bins + 1,)
    counts: NDArray[np.int64]  # (bins,)

    @property
    def name(self) -> str:
        """What it shows, in words."""
        return NAMES.get(self.kind, self.kind)


@dataclass(frozen=True)
class Lines:
    """Series along one axis, and what happened there."""

    id: str
    title: str
    caption: str
    axis: str
    series: tuple[Series, ...]
    marks: tuple[Marks, ...] = ()

    @property
    def span(self) -> tuple[float, float]:
        """The axis' ends."""
        return 0.0, max(float(series.edges[-1]) for series in self.series)

    @property
    def range(self) -> tuple[float, float]:
        """The fewest and the most bits to show, with some room."""
        bits = np.concatenate([series.bits for series in self.series])
        low, high = _finite_range(bits)
        room = (high - low) * 0.06 or 0.5
        return max(0.0, low - room), high + room


@dataclass(frozen=True)
class Bar:
    """Bits per value of one kind, part by part."""

    kind: str
    what: str
    parts: tuple[tuple[str, float], ...]

    @property
    def name(self) -> str:
        """What it shows, in words."""
        return f"{NAMES.get(self.kind, self.kind)}: {self.what}"

    @property
    def total(self) -> float:
        """Bits per value of all parts."""
        return sum(bits for _, bits in self.parts)


@dataclass(frozen=True)
class Bars:
    """Stacked bars over a track as long as a value is in the dump."""

    id: str
    title: str
    caption: str
    bars: tuple[Bar, ...]
    track: dict[str, float]  # bits of a value in the dump, by kind

    @property
    def longest(self) -> float:
        """Where the axis ends."""
        return max([*self.track.values(), *(bar.total for bar in self.bars)])

    @property
    def parts(self) -> tuple[str, ...]:
        """Every part of any bar once, in order."""
        return tuple(sorted({name for bar in self.bars for name, _ in bar.parts}, key=_place))


Figure = Heatmaps | Lines | Bars


@dataclass
class Pictures:
    """All figures of a file, and notes on those that there is nothing for."""

    stats: Stats
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file's name on one line, without control characters."""
        return shown(self.stats.name)

    @property
    def headline(self) -> str:
        """Sizes, ratio, level."""
        s = self.stats
        sizes = f"{s.source_bytes:,} bytes take {s.container_bytes:,}"
        drafted = f", from the draft {self.draft}" if s.draft else ""
        return f"{sizes}: {s.ratio:.4f}x at level {s.level}, {s.total.bits_per_value:.4f} {UNIT}{drafted}"

    @property
    def draft(self) -> str:
        """The draft's name on one line; nothing without one."""
        return shown(self.stats.draft)

    @classmethod
    def of(cls, stats: Stats) -> Pictures:
        """Compute whatever can be shown of a file."""
        out = cls(stats)
        known = [s for s in stats.streams if s.kind and s.values]
        timed = [s for s in known if s.course is not None and len(s.course.values)]
        if known:
            out.figures.append(_heads(known))
        elif stats.total.values:
            out.notes.append("No layout knows these data: there are no layers, heads, channels and tokens to show.")
        else:
            out.notes.append("It holds no values.")
        if timed:
            channels = course.by_channel(timed)
            out.figures += [_channels(channels), _channels_by_layer(timed), _tokens(timed)]
        elif known:
            out.notes.append("How bits lie by channel and along the tokens was not measured.")
        if stats.total.values:
            out.figures.append(_parts(stats.kinds))
        return out


def _finite_range(bits: Reals) -> tuple[float, float]:
    known = bits[np.isfinite(bits)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)


def colour_range(cells: Reals) -> tuple[float, float]:
    """Where the scale of colours ends: at the quartiles and 1.5 times what lies between them, or before.

    One layer that costs a third of the others would else leave a single colour to all of these.
    """
    low, high = _finite_range(cells)
    quarter, three = np.nanpercentile(cells, [25, 75]) if np.isfinite(cells).any() else (low, high)
    room = 1.5 * (three - quarter)
    if room > 0:
        low, high = max(low, float(quarter - room)), min(high, float(three + room))
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _kinds(streams: list[StreamStats]) -> list[str]:
    return sorted({stream.kind for stream in streams})


def event_name(event: str) -> str:
    """An event of windows in words."""
    return {
        "periodic": "periodic updates",
        "confidence": "updates at unlikely symbols",
        "novelty": "updates at unknown symbols",
        "resets": "drift resets",
    }.get(event, event)


def layer_name(layer: int) -> str:
    """A layer's number; a dash where there is none."""
    return str(layer) if layer >= 0 else "-"


def _heatmaps(figure: str, title: str, caption: str, columns: str, grids: list[Grid]) -> Heatmaps:
    low, high = colour_range(np.concatenate([grid.cells.ravel() for grid in grids]))
    return Heatmaps(figure, title, caption, "layer", columns, tuple(grids), low, high)


def _heads(streams: list[StreamStats]) -> Heatmaps:
    """Bits per value by layer and head."""
    layers = sorted({stream.layer for stream in streams})
    grids = []
    for kind in _kinds(streams):
        own = [stream for stream in streams if stream.kind == kind]
        bits, values = np.zeros((2, len(layers), 1 + max(stream.head for stream in own)))
        for stream in own:
            bits[layers.index(stream.layer), stream.head] += stream.bits
            values[layers.index(stream.layer), stream.head] += stream.values
        heads = tuple(map(str, range(bits.shape[1])))
        grids.append(Grid(kind, tuple(map(layer_name, layers)), heads, course.per_value(bits, values)))
    caption = "What a value takes in the container, by layer and head. The fewer bits, the darker."
    return _heatmaps("heads", "Bits by layer and head", caption, "head", grids)


def _channels(found: dict[str, tuple[Reals, Reals]]) -> Lines:
    series = []
    for kind, (bits, values) in found.items():
        series.append(Series(kind, np.arange(bits.shape[-1] + 1.0), course.per_value(bits, values)))
    caption = "What a value of a channel takes, over all layers and heads; side information belongs to none."
    return Lines("channels", "Bits by channel", caption, "channel", tuple(series))


def _channels_by_layer(streams: list[StreamStats]) -> Heatmaps:
    layers = sorted({stream.layer for stream in streams})
    grids = []
    for kind in _kinds(streams):
        rows = [course.by_channel([s for s in streams if (s.layer, s.kind) == (layer, kind)]) for layer in layers]
        width = max(len(row[kind][0]) for row in rows if row)
        cells = np.full((len(layers), width), np.nan)
        for at, row in enumerate(rows):
            if row:
                cells[at, : len(row[kind][0])] = course.per_value(*row[kind])
        grids.append(Grid(kind, tuple(map(layer_name, layers)), tuple(map(str, range(width))), cells))
    caption = "What a value of a channel takes, by layer, over all heads; without side information."
    return _heatmaps("channels-by-layer", "Bits by layer and channel", caption, "channel", grids)


def _tokens(streams: list[StreamStats]) -> Lines:
    series, marks = [], []
    for kind in _kinds(streams):
        edges, bits, values, events = course.along([s for s in streams if s.kind == kind])
        series.append(Series(kind, edges, course.per_value(bits, values)))
        marks += [Marks(kind, what, edges, counts) for what, counts in events.items() if counts.any()]
    caption = "What a value takes along the tokens, over all layers and heads; without side information. "
    caption += "Below, when windows were updated or reset, and why." if marks else "No window was updated or reset."
    return Lines("tokens", "Bits along the tokens", caption, "token", tuple(series), tuple(marks))


def _parts(kinds: dict[str, Totals]) -> Bars:
    bars, track = [], {}
    for kind, totals in kinds.items():
        if not totals.values:
            continue
        track[kind] = totals.source_bits / totals.values
        for what, parts in (("order-0 entropy", totals.entropy), ("spent", totals.spent)):
            bars.append(
                Bar(kind, what, tuple((name, parts[name]) for name in sorted(parts, key=_place) if parts[name] > 0))
            )
    caption = (
        "Order-0 entropy is what each part of a value would take if nothing were predicted; below it is what was"
        " spent instead. The track behind is as long as a value is in the dump."
    )
    return Bars("parts", "Where the bits go", caption, tuple(bars), track)


_ORDER = ("sign", "exponent", "mantissa", "sign+mantissa", "bytes", "symbols", "low bits", "literals", "stored")


def _place(part: str) -> tuple[int, str]:
    """Parts from the top of a value down; then what was spent on them, side information last."""
    return _ORDER.index(part) if part in _ORDER else len(_ORDER) + (part == "side"), part
