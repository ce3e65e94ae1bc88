"""Many files added up."""

from __future__ import annotations

from kvzip.cli.render import Columns, Page
from kvzip.cli.sizes import compact, human
from kvzip.cli.totals import Totals


def show_totals(totals: Totals) -> None:
    """All files as one."""
    page = Page()
    page.line()
    sizes = f"{human(totals.source_bytes)} and {human(totals.container_bytes)}"
    page.line(f"{totals.files} files, {sizes}, {totals.ratio:.4f}x")
    table = Columns("<kind", "values", "bits/value", "ratio", gap=1)
    for name, kind in sorted(totals.kinds.items()):
        table.row(name, compact(kind.values), f"{kind.bits_per_value:.4f}", f"{kind.ratio:.4f}")
    page.table(table)
