"""Everything that is drawn: tables and progress. The only module that knows rich."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kvzip.cli.description import Description
from kvzip.cli.listing import Listing
from kvzip.cli.sizes import compact, human
from kvzip.container.structures import RESIDUALS
from kvzip.files.faults import shown

if TYPE_CHECKING:
    from kvzip.pipeline.stats import Stats, Totals

_REFRESH_SECONDS = 0.1


def _console(stream: Any = None, narrowest: int = 80) -> Console:
    """A console of at least ``narrowest`` columns: in a narrower terminal lines wrap, but no number is cut."""
    out = sys.stdout if stream is None else stream
    width = max(narrowest, _columns(out))
    colours: Any = None if "NO_COLOR" in os.environ else "auto"
    return Console(file=out, highlight=False, markup=False, width=width, color_system=colours)


def _columns(out: Any) -> int:
    """Columns of the terminal behind a stream, or what COLUMNS says, or 80."""
    try:
        return int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def _table(*columns: str, gap: int = 2) -> Table:
    """Columns by heading; a heading that starts with < is left-justified."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column in columns:
        left = column.startswith("<")
        table.add_column(
            column.lstrip("<"), justify="left" if left else "right", overflow="fold" if left else "ellipsis"
        )
    return table


@contextmanager
def progress(name: str, total: int | None, packed_total: int | None) -> Iterator[Callable[[int, int], None]]:
    """A line with bytes, share, rate, ratio so far and time left, by whichever total is known."""
    console = _console(sys.stderr, narrowest=20)
    began = last = time.monotonic()
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(done: int, packed: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < _REFRESH_SECONDS:
                return
            last = now
            rate = done / max(1e-9, now - began)
            parts = [human(done), f"{human(rate)}/s", f"{done / max(1, packed):.3f}x"]
            share = done / total if total else packed / packed_total if packed_total else 0.0
            if total:
                parts[0] += f" of {human(total)}"
            if share > 0:
                parts[0] += f" ({100 * share:.0f} %)"
                parts.append(f"{max(0.0, (now - began) * (1 - share) / share):.0f} s left")
            text = "  ".join(parts)
            room = console.width - len(text) - 3
            name_part = f"{_shortened(name, room)}  " if room >= 8 else ""
            live.update(Text(name_part + text, no_wrap=True, overflow="ellipsis"), refresh=True)

        yield show


def _shortened(name: str, room: int) -> str:
    return name if len(name) <= room else "…" + name[-(room - 1) :]


def show_listing(listing: Listing) -> None:
    """The tensors of a dump or of one member of a container."""
    console = _console()
    where = listing.file + (f" : {shown(listing.member)}" if listing.member else "")
    sizes = human(listing.source_bytes)
    if listing.container_bytes is not None:
        ratio = listing.source_bytes / max(1, listing.container_bytes)
        sizes += f" in {human(listing.container_bytes)} ({ratio:.4f}x), level {listing.level}"
    if listing.prior:
        sizes += f", prior {listing.prior}"
    if listing.draft:
        sizes += f", draft xxh3:{listing.draft}"
    plural = "" if len(listing.tensors) == 1 else "s"
    console.print(Text(f"{where}: {sizes}, {len(listing.tensors)} tensor{plural}"), soft_wrap=True)
    packed = any(row.packed is not None for row in listing.tensors)
    linked = any(row.needs for row in listing.tensors)
    columns = [*(["packed", "ratio"] if packed else []), *(["needs"] if linked else [])]
    table = _table("<tensor", "<type", "<shape", "<layout", "bytes", *columns)
    for row in listing.tensors:
        cells = [shown(row.name), row.dtype, "x".join(map(str, row.shape)) or "scalar", row.layout, str(row.nbytes)]
        if packed:
            cells += ["", ""] if row.packed is None else [str(row.packed), f"{row.nbytes / max(1, row.packed):.3f}"]
        if linked:
            cells.append(_needed(row.needs))
        table.add_row(*map(Text, cells))
    console.print(table)
    if linked:
        console.print(Text("needs: other tensors that are decoded on the way; --json names them"), soft_wrap=True)


def _needed(names: tuple[str, ...]) -> str:
    """One other tensor by the end of its name, several by their number."""
    return "" if not names else shown(names[0].rpartition(".")[2]) if len(names) == 1 else str(len(names))


def show_prior(item: Description) -> None:
    """A prior: what it is called, and the entropy of its distributions."""
    console = _console()
    title = f"{shown(item.file)}: prior {item.identity}"
    if item.name:
        title += f", {shown(item.name)}"
    if item.nbytes is not None:
        title += f", {human(item.nbytes)}"
    if item.embedded is not None and item.identity != RESIDUALS:
        title += ", in the container" if item.embedded else ", not in the container: give its file with --prior"
    console.print(Text(title), soft_wrap=True)
    if not item.grids:
        return
    console.print(Text(f"trained for {item.types}; the others are as builtin\n" if item.types else ""))
    console.print(Text("bits of a symbol, by how many standard deviations its prediction is away from 0"))
    grids = [grid for grid in item.grids if grid.trained or not item.types]
    table = _table("<from", *("/".join(grid.types) for grid in grids))
    most = max(grids, key=lambda grid: len(grid.starts))
    for k, start in enumerate(most.starts):
        cells = [f"{grid.entropies[k]:.3f}" if k < len(grid.entropies) else "" for grid in grids]
        table.add_row(f"{start:.3g}", *cells)
    table.add_row("contexts", *(str(grid.contexts) for grid in grids))
    console.print(table)


def show_stats(stats: Stats, every_head: bool) -> None:
    """Where the bits of a file go; fits 80 columns."""
    console = _console()
    rate = human(stats.source_bytes / max(1e-9, stats.seconds))
    console.print(
        Text(
            f"{stats.name}: {human(stats.source_bytes)} {'in' if stats.was_container else '->'} "
            f"{human(stats.container_bytes)}, {stats.ratio:.4f}x, level {stats.level}, {rate}/s"
        )
    )
    if stats.draft:
        console.print(Text(_drafted(stats)), soft_wrap=True)
    rows = [(kind or "opaque", totals) for kind, totals in stats.kinds.items()]
    if len(rows) != 1:
        rows.append(("all", stats.total))
    console.print()
    console.print(_kinds_table(rows))
    console.print()
    console.print(_parts_table(rows))
    console.print()
    console.print(_layers_table(stats, every_head))
    console.print()
    changed = ", ".join(f"{name} {value:g}" for name, value in stats.parameters.items())
    console.print(Text(f"Parameters: {changed}"))


def _drafted(stats: Stats) -> str:
    """What the draft was worth."""
    total = stats.total
    share, exact = total.drafted / max(1, total.values), total.exact / max(1, total.drafted)
    text = f"Draft {stats.draft}: {100 * share:.1f} % of the values have one, {100 * exact:.1f} % of these exactly"
    if stats.undrafted_bytes is None:
        return text
    without = total.bits_per_value * stats.undrafted_bytes / max(1, stats.container_bytes)
    ratio = stats.source_bytes / max(1, stats.undrafted_bytes)
    return f"{text}; {total.bits_per_value:.4f} bits/value with it, {without:.4f} without ({ratio:.4f}x)"


def _kinds_table(rows: list[tuple[str, Totals]]) -> Table:
    headings = ("values", "bits/value", "ratio", "period", "low P", "novel", "rebuilt", "resets", "escapes")
    table = _table("<kind", *headings, gap=1)
    for name, t in rows:
        counts = (*t.updates.values(), t.rebuilds, t.resets, t.escapes)
        sizes = (compact(t.values), f"{t.bits_per_value:.4f}", f"{t.ratio:.4f}")
        table.add_row(name, *sizes, *map(compact, counts))
    return table


def _parts_table(rows: list[tuple[str, Totals]]) -> Table:
    """Bits per value: order-0 entropy of each part beside what was spent."""
    table = _table("<bits per value", *(name for name, _ in rows))
    for part in sorted({part for _, t in rows for part in t.entropy}):
        table.add_row(f"order-0 entropy: {part}", *(f"{t.entropy.get(part, 0):.4f}" for _, t in rows))
    table.add_row("order-0 entropy: sum", *(f"{sum(t.entropy.values()):.4f}" for _, t in rows))
    for part in sorted({part for _, t in rows for part in t.spent}):
        table.add_row(f"spent: {part}", *(f"{t.spent.get(part, 0):.4f}" for _, t in rows))
    table.add_row("spent: sum", *(f"{t.bits_per_value:.4f}" for _, t in rows))
    return table


def _layers_table(stats: Stats, every_head: bool) -> Table:
    if every_head:
        table = _table("layer", "<kind", "head", "values", "bits/value", "ratio", "updates", "resets", "escapes")
        for s in sorted(stats.streams, key=lambda s: (s.layer, s.kind, s.head)):
            place = str(s.layer) if s.layer >= 0 else "-"
            ratio = s.source_bits / max(1.0, s.bits)
            updates = sum(s.updates.values())
            cells = (s.kind or "opaque", s.head, s.values, f"{s.bits_per_value:.4f}", f"{ratio:.4f}", updates)
            table.add_row(place, *map(str, (*cells, s.resets, s.escapes)))
        return table
    kinds = [kind for kind in stats.kinds if kind]
    table = _table("layer", *(f"{kind} bits/value" for kind in kinds), *(f"{kind} ratio" for kind in kinds))
    for layer in sorted({layer for layer, _ in stats.layers}):
        found = [stats.layers.get((layer, kind)) for kind in kinds]
        if any(found):
            bits = [f"{t.bits_per_value:.4f}" if t else "" for t in found]
            ratios = [f"{t.ratio:.4f}" if t else "" for t in found]
            table.add_row(str(layer) if layer >= 0 else "-", *bits, *ratios)
    return table
