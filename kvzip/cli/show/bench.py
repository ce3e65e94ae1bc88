"""What pays where: codecs with their ratios and speeds, and the fastest at each bandwidth; fits 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kvzip.bench.breakeven import DIRECTIONS, RAW, Band, Choice, pays_below
from kvzip.bench.machine import cpu_model
from kvzip.cli.render import Columns, Page
from kvzip.cli.sizes import human
from kvzip.pipeline.schedule import available_threads

if TYPE_CHECKING:
    from kvzip.bench.measure import Spread
    from kvzip.cli.bench import Result

MB = 1e6
BUSY = 1.5  # medians that the best round exceeds by more are not to be relied on
SMALL = 4_000_000  # bytes of a dump whose rates are in good part what a call costs


def show_bench(result: Result, threads: int, *, every_round: bool, first: bool) -> None:
    """One file's tables; one that is not the ``first`` has a line of its own before it."""
    page = Page()
    if not first:
        page.line()
    _head(page, result, threads)
    page.line()
    page.table(_codecs(result))
    _notes(page, result, threads)
    if every_round:
        page.line()
        page.table(_rounds(result))
    page.line()
    page.line(
        "The fastest on a link or disk of so many MB/s. write: compress, then the link; read: the link, then "
        "decompress; send: all three, between two such machines.",
        wrap=True,
    )
    for title, overlap in (("stages overlap", True), ("one after the other", False)):
        page.line()
        page.table(_bands(result, title, overlap))


def _head(page: Page, result: Result, threads: int) -> None:
    dump = result.comparison.dump
    size = human(result.source_bytes)
    if dump.part:
        size += f", of which {human(len(dump.data))} are looked at ({dump.part})"
    cores = available_threads()
    page.line(
        f"{result.name}: {size}, mostly {dump.dtype}; {threads} thread{'s' * (threads > 1)} on {cores} "
        f"core{'s' * (cores > 1)}, {cpu_model()}; memory is copied at {human(result.copies.median)}/s",
        wrap=True,
    )


def _codecs(result: Result) -> Columns:
    table = Columns(
        "<codec", "ratio", "in MB/s", "out MB/s", "K bits", "V bits", "write <", "read <", "send <", gap=1
    )
    for unit, choice in zip(result.comparison.units, result.choices, strict=True):
        bits = [f"{unit.bits[kind]:.3f}" if kind in unit.bits else "" for kind in ("key", "value")]
        pays = [pays_below(choice, direction, overlap=False) for direction in DIRECTIONS]
        ratio = ("~" if unit.scale else "") + f"{unit.ratio:.3f}"
        cells = (
            ratio,
            _rate(choice.into),
            _rate(choice.out),
            *bits,
            *(_rate(each) if each else "-" for each in pays),
        )
        table.row(_name(unit.codec.name), *cells)
    return table


def _notes(page: Page, result: Result, threads: int) -> None:
    page.line()
    units = result.comparison.units
    lines = [
        "<: it pays on a link or disk slower than so many MB/s if compressing, the link and decompressing come one "
        "after the other; where they overlap, below its own rates in and out."
    ]
    if parts := [unit for unit in units if unit.scale]:
        part = parts[0].dump
        lines.append(
            f"~: measured on {part.part}, {human(len(part.data))}, and so are the bits. The ratio of the whole is "
            "estimated by what a quick level makes of both. More --seconds, more of it."
        )
    if lone := [_name(unit.codec.name) for unit in units if unit.threads < threads]:
        lines.append(f"With one thread, having no more: {', '.join(lone)}.")
    if len(result.comparison.dump.data) < SMALL:
        lines.append("So small a dump shows what a call costs more than how fast a large one would go.")
    if result.unrest > BUSY:
        lines.append(
            f"In its best round a codec was {result.unrest:.1f}x as fast as in the median: something else is running."
        )
    for line in lines:
        page.line(line, wrap=True)


def _rounds(result: Result) -> Columns:
    table = Columns("<codec", "<version", "measured", "rounds", "in MB/s", "out MB/s", gap=1)
    for unit in result.comparison.units:
        into, out = unit.rates()
        size = human(len(unit.dump.data))
        table.row(_name(unit.codec.name), unit.codec.version, size, into.rounds, _spread(into), _spread(out))
    table.row("copy", "", human(len(result.comparison.dump.data)), result.copies.rounds, _spread(result.copies), "")
    return table


def _spread(rates: Spread) -> str:
    return f"{_rate(rates.median)} ({_rate(rates.least)}..{_rate(rates.most)})"


def _bands(result: Result, title: str, overlap: bool) -> Columns:
    """The codecs that are the fastest somewhere, by ratio, and where."""
    table = Columns(f"<{title}", *DIRECTIONS)
    found: dict[str, dict[str, Band]] = {}
    for direction in DIRECTIONS:
        for band in result.fastest(direction, overlap):
            found.setdefault(band.name, {})[direction] = band
    ways: list[Choice] = sorted((*result.choices, RAW), key=lambda each: (-each.ratio, each is not RAW))
    for name in (each.name for each in ways if each.name in found):
        table.row(_name(name), *(_span(found[name].get(direction)) for direction in DIRECTIONS))
    return table


def _span(band: Band | None) -> str:
    if band is None:
        return ""
    if math.isinf(band.high):
        return f"> {_rate(band.low)}" if band.low else "all"
    return f"{_rate(band.low)} - {_rate(band.high)}" if band.low else f"< {_rate(band.high)}"


def _rate(each: float) -> str:
    """MB/s with up to three digits, more above 1000."""
    rate = each / MB
    return f"{rate:.0f}" if rate >= 99.5 else f"{rate:.1f}" if rate >= 9.95 else f"{rate:.2f}"


def _name(codec: str) -> str:
    """kvzip's levels as the option that sets them."""
    return codec.removeprefix("kvzip") if codec.startswith("kvzip-") else codec
