"""A prior: what it is called, and the entropy of its distributions."""

from __future__ import annotations

from kvzip.cli.description import Description
from kvzip.cli.render import Columns, Page
from kvzip.cli.sizes import human
from kvzip.container.structures import RESIDUALS
from kvzip.files.faults import shown


def show_prior(item: Description) -> None:
    """A prior: what it is called, and the entropy of its distributions."""
    page = Page()
    title = f"{shown(item.file)}: prior {item.identity}"
    if item.name:
        title += f", {shown(item.name)}"
    if item.nbytes is not None:
        title += f", {human(item.nbytes)}"
    if item.embedded is not None and item.identity != RESIDUALS:
        title += ", in the container" if item.embedded else ", not in the container: give its file with --prior"
    page.line(title)
    if not item.grids:
        return
    page.line(f"trained for {item.types}; the others are as builtin\n" if item.types else "", wrap=True)
    page.line("bits of a symbol, by how many standard deviations its prediction is away from 0", wrap=True)
    grids = [grid for grid in item.grids if grid.trained or not item.types]
    table = Columns("<from", *("/".join(grid.types) for grid in grids))
    most = max(grids, key=lambda grid: len(grid.starts))
    for k, start in enumerate(most.starts):
        cells = [f"{grid.entropies[k]:.3f}" if k < len(grid.entropies) else "" for grid in grids]
        table.row(f"{start:.3g}", *cells)
    table.row("contexts", *(str(grid.contexts) for grid in grids))
    page.table(table)
