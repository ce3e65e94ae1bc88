"""What is drawn and how: pages of lines and tables, and progress. The only module that knows rich.

What stands on the pages is the matter of ``cli.show``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kvzip.cli.sizes import human

if TYPE_CHECKING:
    pass

_REFRESH_SECONDS = 0.1
Cell = tuple[str, str | None, str | None]  # text, its colour and that behind it as #rrggbb, None for the terminal's


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


class Page:
    """Standard output: text that is never taken for markup, and tables."""

    def __init__(self) -> None:
        self._console = _console()

    @property
    def width(self) -> int:
        """Columns; at least 80."""
        return self._console.width

    def line(self, text: str = "", *, wrap: bool = False) -> None:
        """A line. ``wrap``: at words, for prose; else a long one stays whole, for whatever reads it."""
        self._console.print(Text(text), soft_wrap=not wrap)

    @property
    def coloured(self) -> bool:
        """Whether colours are seen: in a terminal that has some, without NO_COLOR."""
        return self._console.color_system is not None

    def can_show(self, characters: str) -> bool:
        """Whether the output's encoding has them."""
        try:
            characters.encode(self._console.encoding)
        except (LookupError, UnicodeEncodeError):
            return False
        return True

    def cells(self, cells: Iterable[Cell]) -> None:
        """A line of pieces of text, each with its colours."""
        line = Text()
        for text, ink, ground in cells:
            line.append(text, Style(color=ink, bgcolor=ground))
        self._console.print(line, soft_wrap=True)

    def table(self, columns: Columns) -> None:
        """A table."""
        self._console.print(columns.table)


class Columns:
    """A table with headings, and rows to follow; a heading that starts with < is left-justified."""

    def __init__(self, *headings: str, gap: int = 2) -> None:
        self.table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
        for heading in headings:
            left = heading.startswith("<")
            self.table.add_column(
                heading.lstrip("<"), justify="left" if left else "right", overflow="fold" if left else "ellipsis"
            )

    def row(self, *cells: object) -> None:
        """A row; cells are text and never markup."""
        self.table.add_row(*(Text(str(cell)) for cell in cells))


@contextmanager
def progress(
    name: str | Callable[[], str], total: int | None, packed_total: int | None
) -> Iterator[Callable[[int, int], None]]:
    """A line with a name (which may change), bytes, share, rate, ratio so far and time left, by a known total."""
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
            called = name if isinstance(name, str) else name()
            name_part = f"{_shortened(called, room)}  " if room >= 8 else ""
            live.update(Text(name_part + text, no_wrap=True, overflow="ellipsis"), refresh=True)

        yield show


@contextmanager
def activity() -> Iterator[Callable[[str], None]]:
    """A line that says what is going on; the last one that was said stands until the next."""
    console = _console(sys.stderr, narrowest=20)
    with Live(console=console, transient=True, auto_refresh=False) as live:
        yield lambda text: live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)


def _shortened(name: str, room: int) -> str:
    return name if len(name) <= room else "…" + name[-(room - 1) :]
