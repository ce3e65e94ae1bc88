"""``stats``: dumps and containers measured and shown."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from typing import Any

from kvzip.cli.totals import Totals
from kvzip.cli.voice import Voice
from kvzip.errors import KvzipError
from kvzip.files.faults import shown


def stats(inputs: Sequence[str], choices: dict[str, Any], *, quiet: bool, verbose: bool, json: bool) -> None:
    """Measure every input and show it."""
    from kvzip import api

    voice = Voice(quiet, verbose)
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
        rows.append(found.to_json())
        if not json:
            from kvzip.cli.show.stats import show_stats

            show_stats(found, every_head=verbose)
        totals.add(found)
    if json:
        print(json_module.dumps({"command": "stats", "files": rows, "total": totals.to_json()}))
    elif totals.files > 1:
        from kvzip.cli.show.totals import show_totals

        show_totals(totals)
    if failed:
        raise SystemExit(1)
