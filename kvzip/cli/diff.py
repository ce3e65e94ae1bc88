"""``diff``: whether two caches are the same, and where and how they differ. Exit codes as of diff(1): 0 the same, 1
different, 2 trouble."""

from __future__ import annotations

import json as json_module

from kvzip.cli.voice import Voice
from kvzip.errors import KvzipError, OptionError
from kvzip.files.faults import shown

TROUBLE = 2


def diff(
    a: str,
    b: str,
    threads: int,
    *,
    by_layer: bool,
    quiet: bool,
    verbose: bool,
    json: bool,
    layout: str | None,
    prior: str | None,
    draft: str | None,
) -> None:
    """Compare two inputs and show what differs; raises SystemExit(1) if something does, (2) on trouble."""
    from kvzip.api_parts import diff as compare

    voice = Voice(quiet, verbose)
    if a == b == "-":
        raise OptionError("standard input can be one of the two; name a file for the other")
    try:
        with voice.progress(f"{shown(a)} and {shown(b)}", None) as progress:
            found = compare(
                a, b, by_layer=by_layer, threads=threads, layout=layout, prior=prior, draft=draft, progress=progress
            )
    except KvzipError as error:
        voice.error(str(error).removeprefix("--draft: "))
        raise SystemExit(TROUBLE) from None
    except OSError as error:
        voice.error(f"{error.strerror or error}: {error.filename or 'input'}; check the disk and the permissions")
        raise SystemExit(TROUBLE) from None
    if json:
        print(json_module.dumps({"command": "diff"} | found.to_json()))
    elif found and not quiet:
        from kvzip.cli.show.difference import show_difference

        show_difference(found, every_tensor=verbose)
    elif not found:
        voice.say(f"the same: {shown(a)} and {shown(b)}, {found.same_tensors} tensors", detail=True)
    if found:
        raise SystemExit(1)
