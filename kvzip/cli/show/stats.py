"""Where the bits of a file go; fits 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvzip.cli.render import Columns, Page
from kvzip.cli.sizes import compact, human

if TYPE_CHECKING:
    from kvzip.pipeline.stats import Stats, Totals


def show_stats(stats: Stats, every_head: bool) -> None:
    """Where the bits of a file go; fits 80 columns."""
    page = Page()
    rate = human(stats.source_bytes / max(1e-9, stats.seconds))
    page.line(
        f"{stats.name}: {human(stats.source_bytes)} {'in' if stats.was_container else '->'} "
        f"{human(stats.container_bytes)}, {stats.ratio:.4f}x, level {stats.level}, {rate}/s",
        wrap=True,
    )
    if stats.draft:
        page.line(_drafted(stats))
    rows = [(kind or "opaque", totals) for kind, totals in stats.kinds.items()]
    if len(rows) != 1:
        rows.append(("all", stats.total))
    page.line()
    page.table(_kinds_table(rows))
    page.line()
    page.table(_parts_table(rows))
    page.line()
    page.table(_layers_table(stats, every_head))
    page.line()
    changed = ", ".join(f"{name} {value:g}" for name, value in stats.parameters.items())
    page.line(f"Parameters: {changed}", wrap=True)


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


def _kinds_table(rows: list[tuple[str, Totals]]) -> Columns:
    headings = ("values", "bits/value", "ratio", "period", "low P", "novel", "rebuilt", "resets", "escapes")
    table = Columns("<kind", *headings, gap=1)
    for name, t in rows:
        counts = (*t.updates.values(), t.rebuilds, t.resets, t.escapes)
        sizes = (compact(t.values), f"{t.bits_per_value:.4f}", f"{t.ratio:.4f}")
        table.row(name, *sizes, *map(compact, counts))
    return table


def _parts_table(rows: list[tuple[str, Totals]]) -> Columns:
    """Bits per value: order-0 entropy of each part beside what was spent."""
    table = Columns("<bits per value", *(name for name, _ in rows))
    for part in sorted({part for _, t in rows for part in t.entropy}):
        table.row(f"order-0 entropy: {part}", *(f"{t.entropy.get(part, 0):.4f}" for _, t in rows))
    table.row("order-0 entropy: sum", *(f"{sum(t.entropy.values()):.4f}" for _, t in rows))
    for part in sorted({part for _, t in rows for part in t.spent}):
        table.row(f"spent: {part}", *(f"{t.spent.get(part, 0):.4f}" for _, t in rows))
    table.row("spent: sum", *(f"{t.bits_per_value:.4f}" for _, t in rows))
    return table


def _layers_table(stats: Stats, every_head: bool) -> Columns:
    if every_head:
        table = Columns("layer", "<kind", "head", "values", "bits/value", "ratio", "updates", "resets", "escapes")
        for s in sorted(stats.streams, key=lambda s: (s.layer, s.kind, s.head)):
            place = str(s.layer) if s.layer >= 0 else "-"
            ratio = s.source_bits / max(1.0, s.bits)
            updates = sum(s.updates.values())
            cells = (s.kind or "opaque", s.head, s.values, f"{s.bits_per_value:.4f}", f"{ratio:.4f}", updates)
            table.row(place, *map(str, (*cells, s.resets, s.escapes)))
        return table
    kinds = [kind for kind in stats.kinds if kind]
    table = Columns("layer", *(f"{kind} bits/value" for kind in kinds), *(f"{kind} ratio" for kind in kinds))
    for layer in sorted({layer for layer, _ in stats.layers}):
        found = [stats.layers.get((layer, kind)) for kind in kinds]
        if any(found):
            bits = [f"{t.bits_per_value:.4f}" if t else "" for t in found]
            ratios = [f"{t.ratio:.4f}" if t else "" for t in found]
            table.row(str(layer) if layer >= 0 else "-", *bits, *ratios)
    return table
