"""``stats``: dumps and containers measured and shown."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvzip.cli.totals import Totals
from kvzip.cli.voice import Voice
from kvzip.errors import KvzipError, OptionError
from kvzip.files.faults import shown

if TYPE_CHECKING:
    from kvzip.cli.plot import Plot
    from kvzip.pipeline.stats import Stats


def stats(
    inputs: Sequence[str],
    choices: dict[str, Any],
    *,
    quiet: bool,
    verbose: bool,
    json: bool,
    plot: str | None = None,
    heatmap: bool = False,
    force: bool = False,
) -> None:
    """Measure every input and show it; ``plot``: draw it into a file, too."""
    if json and heatmap:
        raise OptionError("--json and --heatmap: choose one of them")
    from kvzip import api

    voice = Voice(quiet, verbose)
    picture = _plot(plot, inputs, force)
    rows = []
    totals = Totals()
    failed = False
    for name in inputs:
        try:
            voice.announce_compilation("compress")
            with voice.progress(shown(name), None) as progress:
                found = api.stats(name, progress=progress, **choices)
            voice.remember_compilation("decompress" if found.was_container else "compress")
        except KvzipError as error:
            if error.exit_code == 2:
                raise
            failed = True
            voice.error(str(error))
            continue
        if not found.streams and found.members == 0:
            failed = True
            voice.error(f"it holds no file: {shown(name)}; name a dump or a folder of dumps")
            continue
        if json:
            rows.append(found.to_json())
        if picture:
            picture.add(found)
        if not json:
            _show(found, heatmap, verbose)
        totals.add(found)
    if picture:
        picture.write(voice)
    if json:
        print(json_module.dumps({"command": "stats", "files": rows, "total": totals.to_json()}))
    elif totals.files > 1:
        from kvzip.cli.show.totals import show_totals

        show_totals(totals)
    if failed:
        raise SystemExit(1)


def _plot(path: str | None, inputs: Sequence[str], force: bool) -> Plot | None:
    if path is None:
        return None
    from kvzip.cli.plot import Plot

    return Plot(path, inputs, force)


def _show(found: Stats, heatmap: bool, every_head: bool) -> None:
    if heatmap:
        from kvzip.cli.show.heatmap import show_heatmap

        show_heatmap(found)
        return
    from kvzip.cli.show.stats import show_stats

    show_stats(found, every_head=every_head)
