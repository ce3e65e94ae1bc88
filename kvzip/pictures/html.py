"""One report of one or more files: a single page that needs no network, no fonts, and no scripts to be read.

Names of files come from whoever made the dumps: all text is escaped, and the page's own policy allows no script, no
style and no resource but those it was written with.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources

from kvzip.pictures import colours, svg
from kvzip.pictures.figures import UNIT, Bars, Figure, Heatmaps, Lines, Pictures
from kvzip.pictures.svg import text
from kvzip.pictures.tables import Table, grid_table, kinds_table, layers_table, lines_table, parts_table
from kvzip.version import __version__


def report(files: Sequence[Pictures]) -> str:
    """The page, one section a file."""
    style, script = _asset("report.css") + _kind_colours(), _asset("report.js")
    allowed = f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    policy = f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"
    title = files[0].name if len(files) == 1 else f"{len(files)} files"
    sections = "".join(_section(number, file) for number, file in enumerate(files))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}: where the bits go</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{_contents(files)}<main>\n{sections}</main>\n"
        f"<footer>Made by kvzip {text(__version__)} stats. Everything is in this file.</footer>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("kvzip.pictures").joinpath(name).read_text("utf-8")


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _kind_colours() -> str:
    rules = []
    for kind in ("key", "value", "latent", "scale", "bias"):
        colour = colours.of_kind(kind)
        rules.append(f".line.{kind} {{ stroke: {colour}; }} .mark.{kind}, .swatch.{kind} {{ fill: {colour}; }}\n")
    return "".join(rules)


def _contents(files: Sequence[Pictures]) -> str:
    if len(files) == 1:
        return ""
    links = "".join(f'<li><a href="#file-{number}">{text(file.name)}</a></li>' for number, file in enumerate(files))
    return f'<nav aria-label="Files"><ul>{links}</ul></nav>\n'


def _section(number: int, file: Pictures) -> str:
    anchor = f"file-{number}"
    notes = "".join(f'<p class="note">{text(note)}</p>' for note in file.notes)
    figures = "".join(_figure(f"{anchor}-{figure.id}", figure) for figure in file.figures)
    return (
        f'<section class="file" id="{anchor}">\n<h1>{text(file.name)}</h1>\n<p>Where the bits go in this '
        f"{'container' if file.stats.was_container else 'dump once it is compressed'}</p>\n{_tiles(file)}"
        f"{notes}{figures}{_tables(anchor, file)}</section>\n"
    )


def _tiles(file: Pictures) -> str:
    stats = file.stats
    rows = [
        ("dump", f"{stats.source_bytes:,} bytes"),
        ("container", f"{stats.container_bytes:,} bytes"),
        ("ratio", f"{stats.ratio:.4f}x"),
        (UNIT, f"{stats.total.bits_per_value:.4f}"),
        ("values", f"{stats.total.values:,}"),
        ("level", str(stats.level)),
    ]
    tiles = "".join(f"<div><dt>{text(name)}</dt><dd>{text(what)}</dd></div>" for name, what in rows)
    draft = f'<p class="note">Predicted from the draft {text(file.draft)}.</p>' if file.draft else ""
    return f'<dl class="tiles">{tiles}</dl>\n{draft}'


def _figure(anchor: str, figure: Figure) -> str:
    if isinstance(figure, Heatmaps):
        body, tables = _heatmaps(anchor, figure)
    elif isinstance(figure, Lines):
        body, tables = _lines(anchor, figure)
    else:
        body, tables = _bars(anchor, figure)
    caption = f"<h2>{text(figure.title)}</h2><p>{text(figure.caption)}</p>"
    return (
        f'<figure id="{anchor}">\n<figcaption>{caption}</figcaption>\n'
        f"{body}\n<details><summary>The numbers</summary>{''.join(map(_table, tables))}</details>\n</figure>\n"
    )


def _heatmaps(anchor: str, figure: Heatmaps) -> tuple[str, list[Table]]:
    panels, tables = [], []
    for grid in figure.grids:
        own = f"{anchor}-{text(grid.kind)}"
        tables.append(grid_table(f"{own}-numbers", figure, grid))
        axes = (
            f'data-table="{own}-numbers" data-row="{text(figure.row_axis)}" data-column="{text(figure.column_axis)}"'
        )
        chart = svg.heatmap(own, figure, grid)
        panels.append(f'<div class="panel" {axes}><h3>{text(grid.name)}</h3><div class="plot">{chart}</div></div>')
    scale = f'<div class="plot legend">{svg.legend(f"{anchor}-colours", figure)}</div>'
    words = f"<span>{text(UNIT)}</span>"
    return f'<div class="panels">{"".join(panels)}</div><div class="legend-row">{scale}{words}</div>', tables


def _lines(anchor: str, figure: Lines) -> tuple[str, list[Table]]:
    table = lines_table(f"{anchor}-numbers", figure)
    keys = _keys((series.name, f'class="swatch {text(series.kind)}"') for series in figure.series)
    chart = f'<div class="plot wide" data-table="{table.id}">{svg.lines(f"{anchor}-chart", figure)}</div>'
    return f'{keys}<div class="chart"><h3>{text(UNIT)}</h3>{chart}</div>', [table]


def _bars(anchor: str, figure: Bars) -> tuple[str, list[Table]]:
    keys = _keys((part, f'fill="{colours.of_part(part)}"') for part in figure.parts)
    chart = f'<div class="plot bars">{svg.bars(f"{anchor}-chart", figure)}</div>'
    return keys + chart, [parts_table(f"{anchor}-numbers", figure)]


def _keys(entries: Iterable[tuple[str, str]]) -> str:
    items = (
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect width="12" height="12" rx="2" {look}/></svg>'
        f"{text(name)}</li>"
        for name, look in entries
    )
    return f'<ul class="keys">{"".join(items)}</ul>'


def _tables(anchor: str, file: Pictures) -> str:
    parts = [kinds_table(f"{anchor}-kinds", file.stats), layers_table(f"{anchor}-layers", file.stats)]
    changed = ", ".join(f"{name} {value:g}" for name, value in file.stats.parameters.items())
    cards = "".join(f'<div class="card">{_table(table)}</div>' for table in parts if table.rows)
    return f'{cards}<div class="card"><h2>Parameters</h2><p class="note">{text(changed)}</p></div>\n'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in table.heads)
    rows = []
    for first, *cells in table.rows:
        rows.append(
            f'<tr><th scope="row">{text(first)}</th>{"".join(f"<td>{text(cell)}</td>" for cell in cells)}</tr>'
        )
    kind = ' class="sortable"' if table.sortable else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(table.title)}">'
        f'<table id="{table.id}"{kind}><caption>{text(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
